"""Recordings, sentences and sounds that the suite's tests share, and what is asked of them."""

import json
import wave
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tests.e2e.deployed_cloud import RECORDINGS
from tests.integration.measuring import Measuring
from voice_client import AudioFile, Final, SpeechChunk, Synthesizer, Transcriber, TranscriberSettings
from voice_client.audio import WavFile
from voice_client.session import HearingMetrics

SPEECH_RATE_HZ = 24_000

TRANSCRIPTS: dict[str, str] = json.loads((RECORDINGS / "transcripts.json").read_text(encoding="utf-8"))
"""What is said in each recording, by file name."""

SHORTEST = RECORDINGS / min(TRANSCRIPTS, key=lambda name: (RECORDINGS / name).stat().st_size)

CONVERSATION_SECONDS = 120.0
"""For one short conversation: the first one with a fresh GPU endpoint waits over a minute for compilation."""


@dataclass(frozen=True)
class Heard:
    """What became of one recording."""

    text: str
    metrics: HearingMetrics
    retries: int


async def hear(ear: Transcriber, path: Path, measuring: Measuring, *, paced: bool, name: str = "stt") -> Heard:
    """Hear a file as one utterance and note its figures under a name."""
    finals = [event async for event in ear.transcribe(AudioFile(path)) if isinstance(event, Final)]
    assert len(finals) == 1, f"one utterance, one final text; there were {len(finals)}"
    measuring.heard(finals[0].metrics, paced=paced, name=name)
    return Heard(finals[0].text, finals[0].metrics, finals[0].metrics.retries)


def unpaced() -> TranscriberSettings:
    """Return settings that send as fast as the endpoint takes it."""
    return TranscriberSettings(paced=False)


@dataclass(frozen=True)
class Spoken:
    """What became of one text."""

    pcm: bytes
    """PCM16 little-endian, mono, 24 kHz."""
    metrics: Any

    @property
    def seconds(self) -> float:
        """How long it is."""
        return len(self.pcm) / 2 / SPEECH_RATE_HZ

    def save(self, path: Path) -> Path:
        """Write it as a WAV file."""
        with WavFile(path, rate=SPEECH_RATE_HZ) as wav:
            wav.write(self.pcm)
        return path


async def speak(voice: Synthesizer, text: str, measuring: Measuring, *, name: str = "tts") -> Spoken:
    """Speak a text and note its figures under a name."""
    speech = voice.speak(text)
    pcm = [event.pcm async for event in speech if isinstance(event, SpeechChunk)]
    measuring.spoke(speech.metrics, name=name)
    return Spoken(b"".join(pcm), speech.metrics)


@dataclass(frozen=True)
class Sound:
    """What one hears of PCM16 without understanding it."""

    rms_dbfs: float
    """Loudness of its loud half: pauses between sentences do not count."""
    clipped: float
    """Share of samples at full scale."""

    @classmethod
    def of(cls, pcm: bytes) -> "Sound":
        """Measure mono PCM16 at 24 kHz."""
        samples = np.frombuffer(pcm, dtype="<i2").astype(np.float64) / 32768.0
        frame = SPEECH_RATE_HZ // 50
        frames = samples[: len(samples) // frame * frame].reshape(-1, frame)
        power = np.sort((frames**2).mean(axis=1))
        loud = power[len(power) // 2 :].mean() if len(power) else 0.0
        return cls(
            rms_dbfs=float(10 * np.log10(max(loud, 1e-12))),
            clipped=float((np.abs(samples) >= 32767 / 32768).mean()) if len(samples) else 0.0,
        )


def words(text: str) -> int:
    """Count the words of a text."""
    return len(text.split())


def join(paths: Sequence[Path], target: Path, *, seconds: float, pause_seconds: float) -> int:
    """Write recordings one after the other, again and again, until they last so long; return how many there are.

    All are 16 kHz mono PCM16, with a pause of silence after each.
    """
    count, written = 0, 0
    with wave.open(str(target), "wb") as joined:
        joined.setnchannels(1)
        joined.setsampwidth(2)
        joined.setframerate(16_000)
        while written < seconds * 16_000:
            with wave.open(str(paths[count % len(paths)])) as recording:
                pcm = recording.readframes(recording.getnframes())
            silence = bytes(2 * int(pause_seconds * 16_000))
            joined.writeframes(pcm + silence)
            written += (len(pcm) + len(silence)) // 2
            count += 1
    return count
