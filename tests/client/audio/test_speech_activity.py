"""Speech is found whatever lies behind it, and in doubt it counts as speech."""

import wave
from pathlib import Path

import numpy as np
import pytest

from voice_client.audio.speech_activity import FRAME_SECONDS, SpeechActivity

RATE = 16_000
RECORDINGS = Path(__file__).parents[2] / "recordings"


def pcm16(samples: np.ndarray) -> bytes:
    return np.clip(np.rint(samples), -32768, 32767).astype("<i2").tobytes()


def noise(seconds: float, dbfs: float, *, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 32768 * 10 ** (dbfs / 20), int(seconds * RATE))


def spoken() -> np.ndarray:
    with wave.open(str(next(iter(sorted(RECORDINGS.glob("*0880.wav"))))), "rb") as file:
        return np.frombuffer(file.readframes(file.getnframes()), "<i2").astype(np.float64)


def verdicts(pcm: bytes, chunk: int = 4096) -> list[bool]:
    activity = SpeechActivity(RATE)
    return [frame.speech for at in range(0, len(pcm), chunk) for frame in activity.feed(pcm[at : at + chunk])]


@pytest.mark.parametrize("background", [-90.0, -60.0, -45.0, -38.0])
def test_a_sentence_is_found_in_a_quiet_and_in_a_loud_room(background: float) -> None:
    speech = spoken()
    audio = np.concatenate([np.zeros(10 * RATE), speech, np.zeros(3 * RATE)])
    found = verdicts(pcm16(audio + noise(len(audio) / RATE, background)[: len(audio)]))
    first, last = round(10 / FRAME_SECONDS), round((10 + len(speech) / RATE) / FRAME_SECONDS)
    assert np.mean(found[first + 10 : last - 10]) > 0.6
    assert np.mean(found[first - 150 : first]) < 0.05
    assert np.mean(found[last + 10 :]) < 0.05


def test_what_is_louder_than_any_background_is_never_taken_for_a_pause() -> None:
    assert all(verdicts(pcm16(noise(60.0, -28.0)))[2:])


def test_silence_a_constant_offset_and_a_click_are_no_speech() -> None:
    assert not any(verdicts(bytes(2 * RATE * 5)))
    assert not any(verdicts(pcm16(np.full(RATE * 5, 3000.0))))
    click = np.zeros(RATE * 5)
    click[40_000:40_020] = 30_000
    assert not any(verdicts(pcm16(click)))


def test_the_verdict_does_not_depend_on_the_chunks() -> None:
    pcm = pcm16(spoken())
    assert verdicts(pcm, 2) == verdicts(pcm, 640) == verdicts(pcm, 4098) == verdicts(pcm, len(pcm))
