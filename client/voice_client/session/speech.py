"""A text being spoken, as its caller holds it: push text in, iterate for the audio, cancel."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING

from voice_client.errors import BadInputError, ProtocolError, VoiceError
from voice_client.session.ending import end_tasks
from voice_client.session.events import Notice, SpeechEvent
from voice_client.session.outlet import Outlet
from voice_client.session.speaking import Speaking
from voice_client.session.speaking_metrics import SpeakingClock, SpeakingMetrics
from voice_client.session.text_input import TextInput

if TYPE_CHECKING:
    from voice_client.session.synthesizer import Synthesizer


class SpeakingInterruptedError(VoiceError):
    """A text could not be spoken to its end, with or without retries; `__cause__` is the last failure."""

    exit_code = 4

    def __init__(
        self, cause: VoiceError, *, endpoint: str | None, spoken: tuple[str, ...], seconds: float, retries: int
    ) -> None:
        tried = f" (after asking again {retries} times)" if retries else ""
        super().__init__(
            f"the speech was interrupted: {cause.message}{tried}",
            endpoint=cause.endpoint or endpoint,
            request_id=cause.request_id,
            retryable=cause.retryable,
            advice=cause.advice,
        )
        self.exit_code = cause.exit_code  # type: ignore[misc]  # of this one error: bad credentials stay exit code 3
        self.spoken = spoken
        """The sentences that were spoken to their end. Not part of the message, which may be logged."""
        self.seconds = seconds
        """How much audio was made of the text, the broken sentence's part included."""


class Speech:
    """A text being spoken: iterate once for its audio; `metrics` and `notices` tell how it goes.

    Made by `Synthesizer.speak` with its whole text, or by `Synthesizer.open_speech` for text that is yet to come.
    `push_text`, `flush` and `end` never block and may be called from another task of the same event loop than the one
    that iterates. Leaving the loop early stops the voice, as `cancel` does.
    """

    def __init__(
        self,
        synthesizer: "Synthesizer",
        utterance: int,
        text: TextInput,
        *,
        on_notice: Callable[[Notice], None] | None = None,
    ) -> None:
        self.utterance = utterance
        """Number of this speech on its synthesizer, from 0."""
        self.notices: list[Notice] = []
        """What the caller may want to know and that ended nothing, in order."""
        self.cancelled = False
        """Whether it was stopped by `cancel`, or by leaving its loop early."""
        self._on_notice = on_notice
        self._voice = synthesizer
        self._text = text
        self._measures = SpeakingClock()
        self._outlet = Outlet(limit_bytes=synthesizer.settings.held_bytes)
        self._work: asyncio.Task[None] | None = None
        self._begun = False
        self._over = False
        """Whether everything was delivered that will be."""

    @property
    def sentences(self) -> tuple[str, ...]:
        """The sentences known so far, as they are spoken; `SpeechChunk.sentence` is an index into them.

        A text of more than a page is cut into sentences while it is spoken, not before.
        """
        return tuple(self._text.sentences)

    @property
    def total_sentences(self) -> int | None:
        """How many sentences the whole text has; None while more may come, or a long text is not cut to its end."""
        return len(self._text.sentences) if self._text.complete else None

    @property
    def metrics(self) -> SpeakingMetrics:
        """The measures so far; complete when the loop over the audio has ended."""
        return self._measures.result()

    @property
    def over(self) -> bool:
        """Whether nothing more will be heard of it."""
        return self._over

    def push_text(self, text: str) -> None:
        """Add text. A sentence is asked for as soon as its end is known, which the word after it tells.

        After `cancel` it does nothing, so that a writer need not know that nobody listens any more.

        Raises:
            BadInputError: more text than is spoken at once.
            ProtocolError: `end` was called before.
        """
        if not self._over:
            self._text.push(text)

    def flush(self) -> None:
        """Say that what was pushed so far is a whole sentence: it is asked for without waiting for the next word."""
        self._text.flush()

    def end(self) -> None:
        """Say that no text follows; the loop over the audio ends when all of it was spoken. Idempotent."""
        self._text.end()

    async def cancel(self) -> None:
        """Stop the voice: from this call on no event is delivered, and the loop over the audio ends without an error.

        The synthesizer can speak again at once; the stream is closed in the background, and the HTTP/2 connection
        under it stays. On a speech that is over it does nothing.
        """
        self.interrupt()
        if self._work is not None:
            await end_tasks(self._work)

    def interrupt(self) -> None:
        """Do the part of `cancel` that takes no time: nothing is delivered from now on."""
        if self._over:
            return
        self._over = self.cancelled = True
        self._outlet.cut()
        if self._work is not None and not self._work.done():
            self._work.cancel()
            self._voice.streams.leave()  # the server reads nothing while it speaks: it stops when its stream closes
        self._voice.end_turn(self)

    async def __aiter__(self) -> AsyncIterator[SpeechEvent]:
        """Yield the audio.

        Raises:
            BadInputError: the text ended and there is nothing to speak in it.
            SpeakingInterruptedError: the text could not be spoken to its end; the chunks so far are good.
            ProtocolError: another text is being spoken, or this one was spoken already.
        """
        if self._begun:
            raise ProtocolError("this text was spoken already; call speak() again to hear it again")
        self._begun = True
        if self._over:
            return
        await self._voice.take_turn(self)
        try:
            if not self._over:
                self._work = asyncio.create_task(self._speak(), name="voice-speak")
            while (event := await self._outlet.get()) is not None:
                yield event
            self._over = True
        except Exception:
            self._over = True
            raise
        finally:
            self.interrupt()
            self._voice.end_turn(self)
            if self._work is not None:
                await end_tasks(self._work)

    def _tell(self, notice: Notice) -> None:
        self.notices.append(notice)
        if self._on_notice is not None:
            self._on_notice(notice)

    async def _speak(self) -> None:
        """Speak in the background of the loop; how it ended goes through the outlet, after the audio."""
        voice = self._voice
        work = Speaking(
            self.utterance,
            self._text,
            voice.streams,
            self._outlet,
            measures=self._measures,
            tell=self._tell,
            retry=voice.retry,
            settings=voice.settings,
            clock=voice.clock,
            pace=voice.pace,
        )
        error: Exception | None = None
        try:
            await work.run()
            if not self._text.sentences:
                error = BadInputError("there is no text to speak")
        except VoiceError as failure:
            metrics = self.metrics
            error = SpeakingInterruptedError(
                failure,
                endpoint=voice.endpoint_name,
                spoken=self.sentences[: work.done],
                seconds=metrics.seconds,
                retries=metrics.retries,
            )
            error.__cause__ = failure
        except Exception as failure:  # noqa: BLE001 - raised again in the loop over the audio
            error = failure
        finally:
            voice.end_turn(self)
        self._outlet.end(error)
