"""One utterance on one session: audio up, words down, at the same time."""

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from types import TracebackType
from typing import Self

from voice_client.audio.pacing import Clock
from voice_client.errors import BadInputError, DeadlineError, ModelError
from voice_client.protocol import realtime
from voice_client.session.connection import Connection, StreamOpener
from voice_client.session.ending import end_tasks
from voice_client.session.events import Final, Partial, TranscriptEvent
from voice_client.session.metrics import HearingClock
from voice_client.session.recording import Recording
from voice_client.session.settings import TranscriberSettings

type Emit = Callable[[TranscriptEvent], None]
"""Takes an event to the caller; never blocks."""


class RealtimeSession:
    """A connection on which the model has been chosen."""

    def __init__(self, connection: Connection[realtime.ServerEvent], session_id: str, connect_ms: float) -> None:
        self.connection = connection
        self.id = session_id
        self.connect_ms = connect_ms

    @classmethod
    async def open(cls, opener: StreamOpener, model: str, settings: TranscriberSettings) -> Self:
        loop = asyncio.get_running_loop()
        started = loop.time()
        connection = await Connection.open(opener, realtime.parse)
        try:
            try:
                async with asyncio.timeout(settings.session_created):
                    created = await cls._created(connection)
            except TimeoutError as error:
                raise DeadlineError(
                    f"the model sent no session.created within {settings.session_created:g} s of the connection"
                ) from error
            connect_ms = (loop.time() - started) * 1000
            await connection.send(realtime.session_update(model))
        except BaseException:
            await connection.close()
            raise
        return cls(connection, created.id, connect_ms)

    @staticmethod
    async def _created(connection: Connection[realtime.ServerEvent]) -> realtime.SessionCreated:
        while True:
            match (await connection.receive()).event:
                case realtime.SessionCreated() as created:
                    return created
                case realtime.ErrorEvent() as error:
                    raise _model_error(error)
                case _:
                    continue


class Utterance:
    """What is kept of one utterance over all attempts to have it heard."""

    def __init__(self, number: int, recording: Recording, emit: Emit, time: Clock) -> None:
        self.number = number
        self.recording = recording
        self.emit = emit
        self.clock = HearingClock()
        self.shown = ""
        """The text of the last `Partial`."""
        self._time = time

    async def hear(self, session: RealtimeSession, settings: TranscriberSettings) -> None:
        """Send the recording and emit what is heard, to the `Final`."""
        deadline = _DoneDeadline(settings)
        sending = asyncio.create_task(self._send(session, deadline), name="voice-sender")
        receiving = asyncio.create_task(self._receive(session, deadline), name="voice-receiver")
        try:
            await asyncio.wait({sending, receiving}, return_when=asyncio.FIRST_COMPLETED)
            if sending.done() and not receiving.done():
                failed = sending.exception()
                if failed is None:
                    await asyncio.wait({receiving})
                elif not isinstance(failed, BadInputError):
                    # A broken stream fails on both sides, but only the receiving side can tell what the model said.
                    await asyncio.wait({receiving}, timeout=settings.cause)
            (receiving if receiving.done() else sending).result()
        finally:
            await end_tasks(sending, receiving)

    async def _send(self, session: RealtimeSession, deadline: "_DoneDeadline") -> None:
        await session.connection.send(realtime.start())
        async with aclosing(self.recording.chunks()) as chunks:
            async for chunk in chunks:
                self.clock.sent(chunk, self._time.now())
                await session.connection.send(realtime.append(chunk))
        if not self.recording.total_bytes:
            raise BadInputError("the audio holds not a single sample")
        deadline.start(self.recording.total_bytes / realtime.BYTES_PER_SECOND)
        self.clock.final_commit(self._time.now())
        await session.connection.send(realtime.finish())

    async def _receive(self, session: RealtimeSession, deadline: "_DoneDeadline") -> None:
        text = ""
        async with deadline:
            while True:
                received = await session.connection.receive()
                deadline.progress()
                match received.event:
                    case realtime.TranscriptionDelta(delta) if delta:
                        text += delta
                        self._partial(text, delta)
                    case realtime.TranscriptionDone() as done:
                        self._final(done, session, ended=deadline.started)
                        return
                    case realtime.ErrorEvent() as error:
                        raise _model_error(error)
                    case _:  # an empty delta, or an event of a later release
                        continue

    def _partial(self, text: str, delta: str) -> None:
        now = self._time.now()
        self.clock.words(now)
        if len(text) <= len(self.shown):
            return  # a replay hears again what was shown already
        added = text[len(self.shown) :] if text.startswith(self.shown) else text
        self.shown = text
        self.emit(Partial(self.number, text, added if self.clock.retries else delta, self.clock.since_start(now)))

    def _final(self, done: realtime.TranscriptionDone, session: RealtimeSession, *, ended: bool) -> None:
        if not ended:
            self.shown = done.text
            # vLLM ends an utterance that reaches the model's length like any other (measured with 0.33).
            seconds = self.recording.total_bytes / realtime.BYTES_PER_SECOND
            raise ModelError(
                f"the model ended the utterance {seconds:.0f} s into the audio, before its end",
                advice="It reached the model's longest input: raise max_model_len, or send the audio in parts",
            )
        now = self._time.now()
        metrics = self.clock.result(connect_ms=session.connect_ms, audio_bytes=self.recording.total_bytes, now=now)
        self.emit(Final(self.number, done.text, done.usage, metrics, self.clock.since_start(now)))


class _DoneDeadline:
    """Ends the wait for `done`; runs only from the final commit on, since audio can take any time before."""

    def __init__(self, settings: TranscriberSettings) -> None:
        self._settings = settings
        self._timeout = asyncio.timeout(None)
        self._latest = 0.0
        self.started = False
        self._running = False

    def start(self, audio_seconds: float) -> None:
        self.started = True
        self._latest = asyncio.get_running_loop().time() + audio_seconds + self._settings.done_slack
        self.progress()

    def progress(self) -> None:
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


def _model_error(event: realtime.ErrorEvent) -> ModelError:
    return ModelError(
        f"the model answered with an error: {event.message}",
        error_code=event.code,
        retryable=event.passing,
        advice="Look into the endpoint's log group",
    )
