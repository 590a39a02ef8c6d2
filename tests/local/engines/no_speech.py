"""Sounds without a word in them, each the same at every run: 16 kHz PCM16, up to full scale."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

RATE = 16_000

type Sound = NDArray[np.int16]


def silence(seconds: float) -> Sound:
    return np.zeros(int(seconds * RATE), dtype=np.int16)


def noise(seconds: float, level: float) -> Sound:
    """White noise; `level` is its standard deviation, 1 being full scale."""
    return _pcm(np.random.default_rng(1).normal(0, level, int(seconds * RATE)))


def rumble(seconds: float) -> Sound:
    """Noise that is the louder the lower, as of traffic or wind."""
    white = np.fft.rfft(np.random.default_rng(2).normal(size=int(seconds * RATE)))
    low = np.fft.irfft(white / np.maximum(np.arange(len(white)), 1) ** 0.5, int(seconds * RATE))
    return _pcm(low / np.abs(low).max())


def chord(seconds: float) -> Sound:
    time = np.arange(int(seconds * RATE)) / RATE
    return _pcm(sum((0.2 * np.sin(2 * np.pi * hertz * time) for hertz in (262, 330, 392)), np.zeros(len(time))))


def melody(seconds: float) -> Sound:
    """A plucked note every 0.3 s, with overtones and vibrato."""
    chance = np.random.default_rng(3)
    time = np.arange(int(0.3 * RATE)) / RATE
    notes = []
    for _ in range(int(seconds / 0.3)):
        hertz = 220 * 2 ** (chance.integers(0, 24) / 12)
        phase = 2 * np.pi * hertz * time + np.sin(2 * np.pi * 5.5 * time)
        notes.append(_harmonics(phase, 7, 1.0) * np.exp(-3 * time))
    tune = np.concatenate(notes)
    return _pcm(0.6 * tune / np.abs(tune).max())


def hum(number: int) -> Sound:
    """Half a second to three of humming at the pitch of a voice: voice activity takes it for speech."""
    chance = np.random.default_rng(number)
    time = np.arange(int(chance.uniform(0.4, 2.9) * RATE)) / RATE
    phase = 2 * np.pi * chance.uniform(90, 250) * time + 0.5 * np.sin(2 * np.pi * 5 * time)
    voice = _harmonics(phase, 8, 1.5) * np.minimum(1, time * 10) * np.minimum(1, (time[-1] - time) * 10)
    loud = 10 ** (chance.uniform(-40, 0) / 20)
    return np.concatenate([silence(0.5), _pcm(loud * voice / np.abs(voice).max()), silence(1.5)])


def _harmonics(phase: NDArray[np.float64], count: int, fall: float) -> NDArray[np.float64]:
    return sum((np.sin(number * phase) / number**fall for number in range(1, count)), np.zeros(len(phase)))


def _pcm(sound: NDArray[np.float64]) -> Sound:
    return np.clip(np.rint(sound * 32767), -32768, 32767).astype(np.int16)


NO_SPEECH: Mapping[str, Sound] = {
    "silence": silence(60),
    "soft noise": noise(60, 0.006),
    "loud noise": noise(60, 0.3),
    "rumble": rumble(60),
    "chord": chord(60),
    "melody": melody(60),
}
