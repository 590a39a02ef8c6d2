"""Listens in on a source of audio on its way to the model: who speaks, and since when; nobody waits for the model."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from voice_client.audio.pacing import Clock, Pacer
from voice_client.audio.source import AudioSource, PcmReader
from voice_client.audio.speech_activity import FRAME_SECONDS, SpeechActivity
from voice_client.session.conversation_settings import BargeIn

_LOOK_AGAIN = 0.02
"""Seconds between two looks whether a file may go on."""


class Floor(Protocol):
    """Who has the word."""

    def voice_sounds(self) -> bool:
        """Whether the voice can be heard now."""
        ...

    def reply_under_way(self) -> bool:
        """Whether a reply is being made or can be heard."""
        ...


@dataclass(frozen=True, slots=True)
class _SpokenFrame:
    end: int
    """Offset behind the frame, in bytes of the audio."""
    at: float


class AttentiveSource:
    """A source that tells when somebody starts to speak, and remembers when speech came in.

    A file is read at the speed at which it was spoken, so that to the conversation it is a microphone.

    Args:
        source: the audio.
        floor: who has the word.
        barge_in: when speech is meant; None leaves out what a microphone hears while the voice sounds, and lets a
            file wait for the end of a reply.
        on_speech: called when somebody has spoken long and loud enough to be meant; once until it is quiet again.
        clock: the sessions' clock.
    """

    live = True

    def __init__(
        self,
        source: AudioSource,
        *,
        floor: Floor,
        barge_in: BargeIn | None,
        on_speech: Callable[[], None],
        clock: Clock,
    ) -> None:
        self._source = source
        self._floor = floor
        self._half_duplex = barge_in is None
        self._rules = barge_in or BargeIn()
        self._on_speech = on_speech
        self._clock = clock
        self._activity: SpeechActivity | None = None
        self._frame_bytes = 0
        self._unjudged = b""
        self._rate = 0
        self._pacer: Pacer | None = None
        self._spoken = self._quiet = 0.0
        """Seconds of speech in one go, and of quiet since."""
        self._told = False
        self._meant = 0
        """Offset in bytes at which somebody last had spoken long and loud enough to be meant."""
        self._speech: list[_SpokenFrame] = []
        """The last frame of each stretch of speech, oldest first."""

    def speech_ended_at(self, offset_seconds: float) -> float | None:
        """Return when the last speech before an offset of the audio came in; earlier speech is forgotten.

        In seconds of the sessions' clock; None when there was none.
        """
        assert self._activity is not None  # noqa: S101 - asked about audio that was read
        offset = round(offset_seconds / FRAME_SECONDS) * self._frame_bytes
        before = [frame for frame in self._speech if frame.end <= offset]
        if not before:
            return None
        self._speech = self._speech[len(before) - 1 :]
        return before[-1].at

    def spoken_since(self, offset_seconds: float) -> bool:
        """Return whether somebody began to speak, and was meant, behind an offset of the audio."""
        return self._meant > round(offset_seconds / FRAME_SECONDS) * self._frame_bytes

    @asynccontextmanager
    async def open(self, *, rate: int, chunk_bytes: int) -> AsyncGenerator[PcmReader]:
        """See `AudioSource.open`; frames of 20 ms are judged as they come, whatever the length of a chunk."""
        self._activity = SpeechActivity(rate)
        self._frame_bytes = self._activity.frame_samples * 2
        self._rate = rate
        self._pacer = self._new_pacer()
        async with self._source.open(rate=rate, chunk_bytes=self._frame_bytes) as frames:
            yield _Reader(self, frames, chunk_bytes)

    async def turn_of_the_source(self) -> None:
        """Return when the source may go on: at once, but for a file that waits for the end of a reply."""
        if self._pacer is None or not self._half_duplex or not self._floor.reply_under_way():
            return
        while self._floor.reply_under_way():
            await self._clock.sleep(_LOOK_AGAIN)
        self._pacer = self._new_pacer()  # the old one would make up for the time that passed

    async def in_its_time(self, frame: bytes) -> None:
        """Return when the last sample of a frame would have been spoken."""
        if self._pacer is not None:
            await self._pacer.wait_for(frame)

    def judged(self, pcm: bytes) -> bytes:
        """Look for speech in the next samples; returns what the model is to hear of them."""
        assert self._activity is not None  # noqa: S101 - opened
        if self._half_duplex and self._floor.voice_sounds():
            pcm = bytes(len(pcm))
        now = self._clock.now()
        self._unjudged += pcm
        for frame in self._activity.feed(pcm):
            samples, self._unjudged = self._unjudged[: self._frame_bytes], self._unjudged[self._frame_bytes :]
            if frame.speech:
                self._note_speech(_SpokenFrame(frame.end * 2, now))
            self._count(frame.end * 2, speech=frame.speech, level=_level(samples))
        return pcm

    def _new_pacer(self) -> Pacer | None:
        return None if self._source.live else Pacer(self._clock, self._rate * 2)

    def _note_speech(self, frame: _SpokenFrame) -> None:
        if self._speech and frame.end - self._speech[-1].end <= self._frame_bytes:
            self._speech[-1] = frame
        else:
            self._speech.append(frame)

    def _count(self, end: int, *, speech: bool, level: float) -> None:
        if speech:
            self._quiet = 0.0
            self._spoken += FRAME_SECONDS if level >= self._rules.minimum_level else 0.0
        else:
            self._quiet += FRAME_SECONDS
            if self._quiet >= self._rules.longest_gap:
                self._spoken, self._told = 0.0, False
        if not self._told and self._spoken + FRAME_SECONDS / 2 >= self._rules.minimum_speech:
            self._told, self._meant = True, end
            self._on_speech()


class _Reader:
    """Frames put together to chunks; a cancelled `anext` keeps what it has."""

    def __init__(self, source: AttentiveSource, frames: PcmReader, chunk_bytes: int) -> None:
        self._source = source
        self._frames = frames
        self._chunk_bytes = chunk_bytes
        self._held = bytearray()
        self._taken = b""
        """A frame that waits for its time."""
        self._ended = False

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        while len(self._held) < self._chunk_bytes and not self._ended:
            await self._take()
        chunk = bytes(self._held[: self._chunk_bytes])
        del self._held[: self._chunk_bytes]
        if not chunk:
            raise StopAsyncIteration
        return chunk

    async def _take(self) -> None:
        if not self._taken:
            await self._source.turn_of_the_source()
            frame = await anext(self._frames, None)
            if frame is None:
                self._ended = True
                return
            self._taken = frame
            await self._source.in_its_time(frame)
        frame, self._taken = self._taken, b""
        self._held += self._source.judged(frame)


def _level(samples: bytes) -> float:
    """Return the level in dBFS of PCM16; of a constant, which is no sound, the lowest."""
    return float(10 * np.log10(np.frombuffer(samples, dtype="<i2").astype(np.float32).var() / 32768.0**2 + 1e-10))
