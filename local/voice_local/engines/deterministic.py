"""Engines without speech, for tests that need exact numbers: text from the length of audio, a tone for each word."""

import time
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field

import numpy as np

from voice_local.engines.interfaces import STT_SAMPLE_RATE, TTS_SAMPLE_RATE, Samples

_STEP_SAMPLES = STT_SAMPLE_RATE * 80 // 1000
_STEPS_PER_WORD = 3

WORD_SECONDS = 0.25
_LOWEST_TONE_HZ = 220.0
_TONES = 24
_AMPLITUDE = 8_000


@dataclass(slots=True)
class AudioLengthTranscription:
    """Gives the word `w{n}` for each 240 ms of audio, n counting from 0."""

    thinking_seconds: float
    _samples: int = field(default=0, init=False)
    _words: int = field(default=0, init=False)

    def feed(self, samples: Samples, *, more_to_come: bool = True) -> str:
        """Count the audio in."""
        del more_to_come
        time.sleep(self.thinking_seconds)
        self._samples += len(samples)
        words_now = self._samples // _STEP_SAMPLES // _STEPS_PER_WORD
        text = "".join(f"w{number} " for number in range(self._words, words_now))
        self._words = words_now
        return text

    def finish(self) -> str:
        """Give nothing: an unfinished word is no word."""
        return ""


@dataclass(frozen=True, slots=True)
class AudioLengthTranscriber:
    """Starts transcriptions that count audio."""

    thinking_seconds: float = 0.02
    """Seconds per piece of audio. Not zero, as no real engine answers before the next message has come in."""

    def begin(self) -> AudioLengthTranscription:
        """Start an utterance."""
        return AudioLengthTranscription(self.thinking_seconds)


class ToneVoice:
    """Plays one tone of 0.25 s (12 000 bytes) for each word; equal words sound equal."""

    async def start(self) -> None:
        """Be ready: there is nothing to load."""

    async def speak(self, text: str, *, voice: str, language: str, speed: float) -> AsyncGenerator[bytes]:
        """Yield a piece a word; voice, language and speed change nothing."""
        del voice, language, speed
        for word in text.split():
            yield tone(word)

    async def aclose(self) -> None:
        """Do nothing: nothing was opened."""


def tone(word: str) -> bytes:
    """Return 0.25 s of PCM16 at 24 kHz, at a pitch that depends on the word's letters only."""
    semitones = sum(word.encode()) % _TONES
    seconds = np.arange(int(TTS_SAMPLE_RATE * WORD_SECONDS)) / TTS_SAMPLE_RATE
    wave = _AMPLITUDE * np.sin(2 * np.pi * _LOWEST_TONE_HZ * 2 ** (semitones / 12) * seconds)
    return wave.astype("<i2").tobytes()
