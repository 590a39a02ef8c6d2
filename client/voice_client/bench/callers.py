"""One caller of an endpoint: has recordings heard, has texts spoken, or does both in turn.

A caller keeps its stream from one utterance to the next, as an application does, and never retries: a loss is counted,
and the next utterance opens a new stream.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Literal, Protocol

from voice_client.audio.pcm import first_audible_sample
from voice_client.bench.material import PcmSource, Recording
from voice_client.bench.plan import BenchPlan
from voice_client.bench.word_errors import WordErrors, word_errors
from voice_client.errors import VoiceError
from voice_client.protocol import realtime, speech
from voice_client.session import (
    Final,
    HearingMetrics,
    Partial,
    SessionStarted,
    SpeechChunk,
    Synthesizer,
    Transcriber,
    TranscriberSettings,
)
from voice_client.session.endpoint import Endpoint
from voice_client.session.observing import observed
from voice_client.session.transcriber import DEFAULT_MODEL

LONGEST_TIMELINE = 4000
"""Moments kept of one session: a picture needs no more, and a report stays small."""

_APPEND, _, _ = realtime.append(bytes(6)).partition('"audio"')
_APPEND_OVERHEAD = len(realtime.append(bytes(6))) - 8
"""How a message with speech begins, and what is in it besides the speech in base64."""


class NothingHeardError(VoiceError):
    """`talk`: a turn was heard as no words, so there is nothing to answer."""

    exit_code = 4


@dataclass(slots=True)
class Trace:
    """What one utterance sent and received, and when."""

    sent_bytes: int = 0
    received_bytes: int = 0
    points: list[tuple[float, str, float]] = field(default_factory=list)
    began: float = 0.0
    _sent_seconds: float = 0.0

    def begin(self) -> None:
        """Start anew, for an utterance that begins now."""
        self.sent_bytes = self.received_bytes = 0
        self._sent_seconds = 0.0
        self.points = []
        self.began = asyncio.get_running_loop().time()

    def note(self, what: str, value: float = 0.0, *, ahead: float = 0.0) -> None:
        """Note a moment: now, or `ahead` seconds from now."""
        if len(self.points) < LONGEST_TIMELINE:
            self.points.append((asyncio.get_running_loop().time() + ahead - self.began, what, value))

    def observe(self, direction: Literal["sent", "received"], message: str | bytes) -> None:
        """Count a message; see `voice_client.session.observing`."""
        size = len(message) if isinstance(message, bytes) or message.isascii() else len(message.encode())
        if direction == "received":
            self.received_bytes += size
            return
        self.sent_bytes += size
        if isinstance(message, str) and message.startswith(_APPEND):
            self._sent_seconds += (size - _APPEND_OVERHEAD) * 3 / 4 / realtime.BYTES_PER_SECOND
            self.note("sent", self._sent_seconds)


@dataclass(frozen=True, slots=True)
class Outcome:
    """An utterance that went well."""

    audio_seconds: float
    """Speech heard and spoken."""
    spoken_seconds: float
    """Of it, what the caller said."""
    measures: dict[str, float]
    words: WordErrors | None = None
    underruns: int | None = None


class Caller(Protocol):
    """Has its stream open; one utterance at a time."""

    trace: Trace

    async def call(self, item: int) -> Outcome:
        """Have one recording heard or one text spoken.

        Raises:
            VoiceError: it did not work; the next call opens a new stream.
        """
        ...


type CallerMaker = Callable[[], AbstractAsyncContextManager[Caller]]
"""Opens the streams of a new caller."""


class HearingCaller:
    """Has recordings heard, in real time."""

    def __init__(self, ear: Transcriber, trace: Trace, recordings: tuple[Recording, ...]) -> None:
        self._ear = ear
        self._recordings = recordings
        self.trace = trace

    async def call(self, item: int) -> Outcome:
        """See `Caller`."""
        recording = self._recordings[item % len(self._recordings)]
        self.trace.begin()
        final, opened = await self.hear(recording)
        measures = _present(
            connect_ms=opened,
            first_partial_ms=final.metrics.first_partial_ms,
            finalization_ms=final.metrics.finalization_ms,
            rtf=final.metrics.rtf,
        )
        return Outcome(
            final.metrics.audio_seconds, final.metrics.audio_seconds, measures, word_errors(recording.text, final.text)
        )

    async def hear(self, recording: Recording) -> tuple[Final, float | None]:
        """Return how a recording was heard, and how long opening a stream took when one was opened for it."""
        opened: float | None = None
        async for event in self._ear.transcribe(PcmSource(recording)):
            match event:
                case SessionStarted(connect_ms=connect_ms):
                    opened = connect_ms
                case Partial(text=text):
                    self.trace.note("words", len(text))
                case Final() as final:
                    _note_end(self.trace, final.metrics, len(final.text))
        return final, opened


class SpeakingCaller:
    """Has texts spoken, one right after the other; the audio is received and dropped."""

    def __init__(self, voice: Synthesizer, trace: Trace, texts: tuple[str, ...]) -> None:
        self._voice = voice
        self._texts = texts
        self._connect_ms: float | None = None
        self.trace = trace

    async def call(self, item: int) -> Outcome:
        """See `Caller`."""
        self.trace.begin()
        return await self.say(self._texts[item % len(self._texts)])

    async def ready(self) -> None:
        """Have a stream ready, so that the text to come finds one."""
        await self._voice.ready()

    async def say(self, text: str) -> Outcome:
        """Have a text spoken."""
        utterance = self._voice.speak(text)
        self.trace.note("text", len(text))
        heard, received = False, 0
        async for event in utterance:
            if not isinstance(event, SpeechChunk):
                continue
            received += len(event.pcm)
            if not heard and (sample := first_audible_sample(event.pcm)) is not None:
                heard = True
                self.trace.note("playing", ahead=sample / speech.SAMPLE_RATE_HZ)
            self.trace.note("audio", received / speech.BYTES_PER_SECOND)
        measured = utterance.metrics
        opened = measured.connect_ms if measured.connect_ms != self._connect_ms else None
        self._connect_ms = measured.connect_ms
        measures = _present(
            connect_ms=opened, first_byte_ms=measured.first_byte_ms, ttfa_ms=measured.ttfa_ms, rtf=measured.rtf
        )
        return Outcome(measured.seconds, 0.0, measures, underruns=measured.underruns)


class TalkingCaller:
    """Speaks a turn, and has what was heard of it spoken back: the round of a voice agent whose reply costs no time."""

    def __init__(
        self, ear: HearingCaller, voice: SpeakingCaller, trace: Trace, recordings: tuple[Recording, ...]
    ) -> None:
        self._ear = ear
        self._voice = voice
        self._recordings = recordings
        self.trace = trace

    async def call(self, item: int) -> Outcome:
        """See `Caller`."""
        loop = asyncio.get_running_loop()
        recording = self._recordings[item % len(self._recordings)]
        self.trace.begin()
        final, opened = await self._ear.hear(recording)
        final_at = loop.time()
        if not final.text.strip():
            raise NothingHeardError("a turn was heard as no words", advice="Check the recordings and the language")
        await self._voice.ready()
        text_at = loop.time()
        answer = await self._voice.say(final.text)
        measures = _present(
            connect_ms=opened,
            first_partial_ms=final.metrics.first_partial_ms,
            finalization_ms=final.metrics.finalization_ms,
        ) | {name: value for name, value in answer.measures.items() if name != "connect_ms"}
        if (ttfa_ms := answer.measures.get("ttfa_ms")) is not None:
            measures["response_ms"] = final.metrics.finalization_ms + (text_at - final_at) * 1000 + ttfa_ms
        return Outcome(
            final.metrics.audio_seconds + answer.audio_seconds,
            final.metrics.audio_seconds,
            measures,
            word_errors(recording.text, final.text),
            answer.underruns,
        )


def hearing(endpoint: Endpoint, plan: BenchPlan, recordings: tuple[Recording, ...]) -> CallerMaker:
    """Return what makes callers that have recordings heard."""

    @asynccontextmanager
    async def make() -> AsyncGenerator[HearingCaller]:
        trace = Trace()
        async with _ear(endpoint, plan, trace) as ear:
            yield HearingCaller(ear, trace, recordings)

    return make


def speaking(endpoint: Endpoint, plan: BenchPlan, texts: tuple[str, ...]) -> CallerMaker:
    """Return what makes callers that have texts spoken."""

    @asynccontextmanager
    async def make() -> AsyncGenerator[SpeakingCaller]:
        trace = Trace()
        async with _voice(endpoint, plan, trace) as voice:
            yield SpeakingCaller(voice, trace, texts)

    return make


def talking(ear_at: Endpoint, voice_at: Endpoint, plan: BenchPlan, recordings: tuple[Recording, ...]) -> CallerMaker:
    """Return what makes callers that speak and are answered."""

    @asynccontextmanager
    async def make() -> AsyncGenerator[TalkingCaller]:
        trace = Trace()
        async with _ear(ear_at, plan, trace) as ear, _voice(voice_at, plan, trace) as voice:
            yield TalkingCaller(
                HearingCaller(ear, trace, recordings), SpeakingCaller(voice, trace, ()), trace, recordings
            )

    return make


def _ear(endpoint: Endpoint, plan: BenchPlan, trace: Trace) -> Transcriber:
    return Transcriber(
        observed(endpoint.opener, trace.observe),
        model=plan.place.model or endpoint.model or DEFAULT_MODEL,
        retry=None,
        settings=TranscriberSettings(chunk_bytes=plan.chunk_bytes),
        max_model_len=endpoint.max_model_len,
        endpoint_name=endpoint.name,
    )


def _voice(endpoint: Endpoint, plan: BenchPlan, trace: Trace) -> Synthesizer:
    return Synthesizer(
        observed(endpoint.opener, trace.observe),
        model=plan.place.model or endpoint.model,
        voice=plan.voice,
        language=plan.language,
        retry=None,
    )


def _note_end(trace: Trace, metrics: HearingMetrics, characters: int) -> None:
    trace.note("end", metrics.audio_seconds, ahead=-metrics.finalization_ms / 1000)
    trace.note("final", characters)


def _present(**values: float | None) -> dict[str, float]:
    return {name: value for name, value in values.items() if value is not None}
