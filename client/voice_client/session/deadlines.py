"""The two silences of a model that are faults: no word while somebody speaks, and no `done` after the end."""

import asyncio
from types import TracebackType

from voice_client.errors import DeadlineError
from voice_client.session.segments import Segment
from voice_client.session.settings import TranscriberSettings

_LOOK_EVERY = 0.25
"""Seconds between two looks at the stall watch."""


class StallError(DeadlineError):
    """Somebody speaks, and no word comes back.

    `wordless` says that deltas came, all of them empty: the model is alive. A second time, on a fresh session and the
    same audio, it is to be believed (music, say).
    """

    def __init__(self, seconds: float, *, wordless: bool) -> None:
        came = "nothing but empty deltas came" if wordless else "nothing came"
        super().__init__(f"somebody speaks, but {came} from the model for {seconds:g} s")
        self.wordless = wordless


class StallWatch:
    """Notices a model that hears nothing although there is speech (vLLM issues 36015 and 47614).

    Runs until the audio is sent; from then on `DoneDeadline` watches.

    Args:
        segment: what is sent; knows where the speech is.
        settings: `stall_speech` and `stall`.
        wordless_before: take empty deltas for an answer.
    """

    def __init__(self, segment: Segment, settings: TranscriberSettings, *, wordless_before: bool) -> None:
        self._segment = segment
        self._settings = settings
        self._wordless_before = wordless_before
        self._answered = self.sent_bytes = segment.start
        self._due_since: float | None = None
        """When so much speech was unanswered that a word was due."""
        self._alive = False
        """Whether anything came since then."""
        self._over = asyncio.Event()

    def sent(self, offset: int) -> None:
        """Note that the audio was sent up to an offset."""
        self.sent_bytes = offset
        if self._due_since is None:
            frames = self._segment.speech_frames(self._answered, offset)
            if frames * self._segment.frame_seconds >= self._settings.stall_speech:
                self._due_since = asyncio.get_running_loop().time()
                self._alive = False

    def alive(self) -> None:
        """Note that something came."""
        self._alive = True
        if self._wordless_before:
            self.words()

    def words(self) -> None:
        """Note that words came."""
        self._answered = self.sent_bytes
        self._due_since = None

    def all_sent(self) -> None:
        """Stop watching."""
        self._over.set()

    async def run(self) -> None:
        """Return when all is sent.

        Raises:
            StallError: a word is overdue.
        """
        loop = asyncio.get_running_loop()
        while not self._over.is_set():
            if self._due_since is not None and loop.time() - self._due_since >= self._settings.stall:
                raise StallError(self._settings.stall, wordless=self._alive)
            try:
                async with asyncio.timeout(_LOOK_EVERY):
                    await self._over.wait()
            except TimeoutError:
                continue


class DoneDeadline:
    """Ends the wait for `done`; runs only from the final commit on, since audio can take any time before."""

    def __init__(self, settings: TranscriberSettings) -> None:
        self._settings = settings
        self._timeout = asyncio.timeout(None)
        self._latest = 0.0
        self.started = False
        self._running = False

    def start(self, audio_seconds: float) -> None:
        """Note that the audio, of this length, has been sent."""
        self.started = True
        self._latest = asyncio.get_running_loop().time() + audio_seconds + self._settings.done_slack
        self.progress()

    def progress(self) -> None:
        """Note that something came."""
        if self.started and self._running:
            quiet = asyncio.get_running_loop().time() + self._settings.done_silence
            self._timeout.reschedule(min(quiet, self._latest))

    async def __aenter__(self) -> None:
        await self._timeout.__aenter__()
        self._running = True
        self.progress()  # the audio may have ended already

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._running = False
        try:
            await self._timeout.__aexit__(kind, error, traceback)
        except TimeoutError as late:
            raise DeadlineError("the model sent no transcription.done after the end of the audio") from late
