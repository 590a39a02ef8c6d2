"""Speech to text: a source of audio in, typed events out, across losses of the stream."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from voice_client.audio.pacing import Clock, MonotonicClock, Pacer
from voice_client.audio.source import AudioSource
from voice_client.errors import BadInputError, ProtocolError, VoiceError
from voice_client.protocol import realtime
from voice_client.session.connection import StreamOpener
from voice_client.session.deadlines import StallError
from voice_client.session.ending import end_tasks
from voice_client.session.endpoint import EndpointAddress, open_endpoint
from voice_client.session.events import Notice, SessionStarted, TranscriptEvent
from voice_client.session.hearing import Hearing
from voice_client.session.observing import Observer, observed
from voice_client.session.realtime_session import RealtimeSession
from voice_client.session.recovery import can_recover
from voice_client.session.segments import Segment, SegmentPlan
from voice_client.session.settings import Retry, TranscriberSettings
from voice_client.session.tape import Tape
from voice_client.session.utterance import Emit, Utterance

DEFAULT_MODEL = "mistralai/Voxtral-Mini-4B-Realtime-2602"
"""The model of the walkthrough, asked for where no stage says which one is deployed."""


class TranscriptionInterruptedError(VoiceError):
    """An utterance could not be heard to its end, with or without retries; `__cause__` is the last failure."""

    exit_code = 4

    def __init__(self, cause: VoiceError, *, text_so_far: str, retries: int) -> None:
        tried = f" (after {retries} new streams)" if retries else ""
        super().__init__(
            f"the transcription was interrupted: {cause.message}{tried}",
            endpoint=cause.endpoint,
            request_id=cause.request_id,
            retryable=cause.retryable,
            advice=cause.advice,
        )
        self.text_so_far = text_so_far
        """What had been heard of the utterance. Not part of the message, which may be logged."""


class Transcriber:
    """A conversation with a speech-to-text model; hears one utterance after the other.

    Made by `connect`, or over any stream of messages:

        async with Transcriber(opener, model="mistralai/Voxtral-Mini-4B-Realtime-2602") as ear:
            async for event in ear.transcribe(AudioFile("call.m4a")):
                ...

    Args:
        opener: opens a stream to the model's `/v1/realtime`.
        model: name the server knows the model by.
        retry: how to come back after a loss; None gives the first loss to the caller.
        settings: limits and time-outs.
        clock: time for pacing, measures and the age of streams.
        max_model_len: the model's longest input in tokens of 80 ms; None when it is not known.
        endpoint_name: what errors call the other end.
    """

    def __init__(
        self,
        opener: StreamOpener,
        *,
        model: str,
        retry: Retry | None = Retry(),  # noqa: B008 - frozen
        settings: TranscriberSettings = TranscriberSettings(),  # noqa: B008 - frozen
        clock: Clock | None = None,
        max_model_len: int | None = None,
        endpoint_name: str | None = None,
    ) -> None:
        self._max_model_len = max_model_len
        self._endpoint_name = endpoint_name
        self._opener = opener
        self._model = model
        self._retry = retry
        self._settings = settings
        self._clock = clock or MonotonicClock()
        self._session: RealtimeSession | None = None
        self._announced = False
        self._utterances = 0
        self._hearing: asyncio.Task[None] | None = None

    @classmethod
    @asynccontextmanager
    async def connect(
        cls,
        *,
        stage: str | None = None,
        endpoint_name: str | None = None,
        region: str | None = None,
        endpoint_url: str | None = None,
        ca_bundle: str | Path | None = None,
        model: str | None = None,
        retry: Retry | None = Retry(),  # noqa: B008 - frozen
        settings: TranscriberSettings = TranscriberSettings(),  # noqa: B008 - frozen
        observer: Observer | None = None,
    ) -> AsyncGenerator[Self]:
        """Connect to the speech-to-text endpoint of a stage, or to one given by name.

        Args:
            stage: the deployed stage whose endpoint is looked up; "dev" when no endpoint is named.
            endpoint_name: a SageMaker endpoint, instead of a stage.
            region: AWS region; None takes the SDK's default chain.
            endpoint_url: another address of the streaming API than AWS's own.
            ca_bundle: PEM file of certificate authorities to trust instead of the system's.
            model: name the server knows the model by; None takes what the stage deployed, and Voxtral Realtime for
                an endpoint given by name (a server that serves another refuses it with `model_not_found`).
            retry: how to come back after a loss; None gives the first loss to the caller.
            settings: limits and time-outs.
            observer: is shown every message of every stream; it holds audio and spoken words.

        Raises:
            VoiceError: credentials, endpoint or connection; each subclass says which.
        """
        address = EndpointAddress("stt", stage, endpoint_name, region, endpoint_url, ca_bundle)
        async with open_endpoint(address, invocation_path=None) as endpoint:
            name = model or endpoint.model or DEFAULT_MODEL
            async with cls(
                observed(endpoint.opener, observer) if observer is not None else endpoint.opener,
                model=name,
                retry=retry,
                settings=settings,
                max_model_len=endpoint.max_model_len,
                endpoint_name=endpoint.name,
            ) as ear:
                yield ear

    async def __aenter__(self) -> Self:
        self._session = await self._open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._hearing is not None:
            await end_tasks(self._hearing)
        await self._drop()

    async def transcribe(self, source: AudioSource) -> AsyncIterator[TranscriptEvent]:
        """Hear a source of audio: as one utterance, whose `Final` comes last, or turn by turn (`settings.turns`).

        Audio of any length is heard: it goes up in segments, over as many streams as it takes, none of it lost and
        none sent into two texts. Memory holds one segment.

        Leaving the loop early ends the utterance and its stream; the next call opens a new one.

        Raises:
            BadInputError: the source is no audio, or has none in it.
            TranscriptionInterruptedError: the utterance could not be completed; carries the text so far.
            ProtocolError: another utterance is still under way.
        """
        await self._let_go()
        if self._hearing is not None:
            raise ProtocolError("an utterance is still being heard: the server would lose the second one")
        events: asyncio.Queue[TranscriptEvent | None] = asyncio.Queue()
        # A task of its own: an async generator that is left early must not hold a task group open.
        task = asyncio.create_task(self._hear(source, events.put_nowait), name="voice-utterance")
        task.add_done_callback(lambda _: events.put_nowait(None))
        self._hearing = task
        try:
            while (event := await events.get()) is not None:
                yield event
            await task
        finally:
            await end_tasks(task)
            if self._hearing is task:
                self._hearing = None

    async def _let_go(self) -> None:
        """Wait for an utterance whose loop was left early; Python closes it some turns of the event loop later."""
        for _ in range(3):
            if self._hearing is not None and self._hearing.cancelling():
                await asyncio.wait({self._hearing})
            await asyncio.sleep(0)

    async def _hear(self, source: AudioSource, emit: Emit) -> None:
        settings = self._settings
        tape = self._tape(live=source.live)
        pacer = Pacer(self._clock, realtime.BYTES_PER_SECOND) if settings.paced and not source.live else None
        async with source.open(rate=realtime.SAMPLE_RATE_HZ, chunk_bytes=settings.chunk_bytes) as reader:
            filling = asyncio.create_task(tape.fill(reader, pacer), name="voice-audio-source")
            try:
                await self._hear_segments(tape, emit)
            finally:
                await end_tasks(filling)
        if not tape.total_bytes:
            raise BadInputError("the audio holds not a single sample")

    def _tape(self, *, live: bool) -> Tape:
        settings = self._settings
        longest = settings.longest(self._max_model_len)
        look_for_pause = min(settings.look_for_pause, longest / 2)
        plan = SegmentPlan(turns=settings.turns, look_for_pause=look_for_pause, longest=longest)
        lead = settings.turns.lead + 1 if settings.turns is not None else 0
        backlog = int((settings.backlog + lead) * realtime.BYTES_PER_SECOND) + 2 * settings.chunk_bytes
        return Tape(plan, replayable=self._retry is not None, backlog_bytes=None if live else backlog)

    async def _hear_segments(self, tape: Tape, emit: Emit) -> None:
        utterance: Utterance | None = None
        while (segment := await tape.next_segment()) is not None:
            if utterance is None or self._settings.turns is not None:
                utterance = Utterance(self._utterances, emit, self._clock, start=segment.start)
                self._utterances += 1
            await self._hear_segment(tape, segment, utterance)
            await tape.release(segment)
            if self._settings.turns is not None:
                utterance.complete()
        if utterance is not None and self._settings.turns is None:
            utterance.complete()

    async def _hear_segment(self, tape: Tape, segment: Segment, utterance: Utterance) -> None:
        failures = 0
        wordless = False
        while True:
            shown = utterance.shown
            try:
                await self._attempt(tape, segment, utterance, wordless_before=wordless)
            except BadInputError:
                raise
            except VoiceError as error:
                if len(utterance.shown) > len(shown):
                    failures = 0  # it came further than ever before: the budget is for what does not get on
                wordless = wordless or (isinstance(error, StallError) and error.wordless)
                retry = self._retry
                if retry is None or failures >= retry.attempts or not can_recover(error, reconnecting=True):
                    raise TranscriptionInterruptedError(
                        error, text_so_far=utterance.shown, retries=utterance.clock.retries
                    ) from error
                failures += 1
                utterance.clock.retries += 1
                utterance.emit(Notice("reconnecting", f"{error.message}; opening a new stream and sending again"))
                await self._clock.sleep(retry.wait(failures))
            else:
                return

    async def _attempt(self, tape: Tape, segment: Segment, utterance: Utterance, *, wordless_before: bool) -> None:
        complete = False
        try:
            session = await self._ready()
            if not self._announced:
                self._announced = True
                utterance.emit(SessionStarted(session.id, session.connect_ms))
            hearing = Hearing(
                session,
                tape,
                segment,
                utterance,
                settings=self._settings,
                clock=self._clock,
                wordless_before=wordless_before,
            )
            await hearing.run()
            complete = True
        except VoiceError as error:
            self._name_endpoint(error)
            raise
        finally:
            if not complete:  # what the server still holds of it would spoil the next utterance
                await self._drop()

    async def _ready(self) -> RealtimeSession:
        """Return a session that will last for a segment: the one there is, or a new one."""
        if self._session is not None:
            age = self._clock.now() - self._session.opened_at
            too_old = age + self._settings.longest(self._max_model_len) > self._settings.stream_lifetime
            if too_old or self._session.connection.ended:
                await self._drop()
        if self._session is None:
            self._session = await self._open()
        return self._session

    async def _open(self) -> RealtimeSession:
        try:
            session = await RealtimeSession.open(self._opener, self._model, self._settings, self._clock)
        except VoiceError as error:
            self._name_endpoint(error)
            raise
        self._announced = False
        return session

    def _name_endpoint(self, error: VoiceError) -> None:
        if error.endpoint is None and not isinstance(error, BadInputError):
            error.endpoint = self._endpoint_name

    async def _drop(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.connection.close()
