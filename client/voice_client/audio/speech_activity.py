"""Where somebody speaks and where it is quiet, from the loudness alone.

A detector of our own rather than a neural one: the client stays thin (no ONNX runtime), and here it decides only where
a stream may be cut and what is plainly a pause. Whenever in doubt it says "speech": a pause that is sent costs a little
compute, a word that is not sent is lost (docs/decisions/voice-activity.md).
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

FRAME_SECONDS = 0.02

_SPEECH_ABOVE_FLOOR_DB = 9.0
"""How much louder than the background a frame must be. Soft consonants are some 10 dB above the noise of a room."""
_LOWEST_SPEECH_DB = -60.0
"""Below this (dBFS, RMS) no recording holds speech: it is the noise of a 10-bit converter."""
_FLOOR_RANGE_DB = (-75.0, -40.0)
"""The background is taken to lie within this. So what is louder than -31 dBFS always counts as speech, whatever lies
behind it: a room with a machine in it is sent and not judged."""
_FLOOR_AT_START_DB = -65.0
_FLOOR_RISE_DB = 4.0 * FRAME_SECONDS
"""A background that becomes louder (a fan) is followed at 4 dB/s. Words do not carry the floor up with them, for the
gaps between them pull it down again at once."""
_FLOOR_FALL = 0.3
"""Share of the way down that a quieter frame pulls the floor."""
_WINDOW_FRAMES = 3
_SPEECH_FRAMES = 2
"""Frames of the last three that must be loud: a click is no speech."""


@dataclass(frozen=True, slots=True)
class Frame:
    """20 ms of audio, judged."""

    end: int
    """Its last sample's successor, counted from the start of the audio, in samples."""
    speech: bool


class SpeechActivity:
    """Judges a stream of PCM16 mono in frames of 20 ms; the result depends on the samples only, not on the chunks.

    Args:
        rate: samples per second.
    """

    def __init__(self, rate: int) -> None:
        self.frame_samples = round(rate * FRAME_SECONDS)
        self._rest = b""
        self._samples = 0
        self._floor = _FLOOR_AT_START_DB
        self._recent = 0

    @property
    def unjudged_samples(self) -> int:
        """Samples that wait for their frame to become whole."""
        return len(self._rest) // 2

    def feed(self, pcm: bytes) -> Iterator[Frame]:
        """Judge whole samples of PCM16 little-endian; yields the frames that became whole."""
        data = self._rest + pcm if self._rest else pcm
        whole = len(data) // (2 * self.frame_samples)
        used = whole * 2 * self.frame_samples
        self._rest = data[used:]
        if not whole:
            return
        frames = np.frombuffer(data, dtype="<i2", count=used // 2).reshape(whole, self.frame_samples)
        # The variance and not the mean square: a constant offset, which cheap microphones have, is no sound.
        levels = 10.0 * np.log10(frames.astype(np.float32).var(axis=1) / 32768.0**2 + 1e-10)
        for level in levels.tolist():
            self._samples += self.frame_samples
            yield Frame(self._samples, self._judge(level))

    def skip_rest(self) -> None:
        """Count the samples of the unfinished frame as passed: the next frame begins with the next sample."""
        self._samples += self.unjudged_samples
        self._rest = b""

    def _judge(self, level: float) -> bool:
        loud = level > max(self._floor + _SPEECH_ABOVE_FLOOR_DB, _LOWEST_SPEECH_DB)
        if level < self._floor:
            self._floor += (level - self._floor) * _FLOOR_FALL
        else:
            self._floor = min(level, self._floor + _FLOOR_RISE_DB)
        lowest, highest = _FLOOR_RANGE_DB
        self._floor = min(max(self._floor, lowest), highest)
        self._recent = (self._recent << 1 | loud) & ((1 << _WINDOW_FRAMES) - 1)
        return self._recent.bit_count() >= _SPEECH_FRAMES
