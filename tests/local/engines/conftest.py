"""Recordings, sentences made at run time, and a Whisper that is loaded once."""

import json
import random
import wave
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from voice_local.engines.whisper_live import WhisperLive
from voice_local.engines.whisper_weights import WHISPER_TINY

RECORDINGS = Path(__file__).parents[2] / "recordings"


@pytest.fixture(scope="session")
def whisper() -> WhisperLive:
    """The smallest, for quick tests; base is asked through its server (tests/local/containers), and in soak."""
    return WhisperLive.load(WHISPER_TINY)


@pytest.fixture(scope="session")
def recordings() -> list[tuple[NDArray[np.int16], str]]:
    """Human speech, 16 kHz, with what is said."""
    transcripts: dict[str, str] = json.loads((RECORDINGS / "transcripts.json").read_text(encoding="utf-8"))
    return [(samples_of(RECORDINGS / name), text) for name, text in transcripts.items()]


def samples_of(path: Path) -> NDArray[np.int16]:
    with wave.open(str(path)) as file:
        assert (file.getframerate(), file.getnchannels(), file.getsampwidth()) == (16000, 1, 2)
        return np.frombuffer(file.readframes(file.getnframes()), dtype="<i2")


@pytest.fixture
def sentences() -> list[str]:
    """Three sentences of words that nobody could have known before the test began.

    Over three, one word that the small engines mishear is a few per cent.
    """
    chance = random.SystemRandom()
    return [
        f"The {chance.choice(['old', 'young', 'happy'])} "
        f"{chance.choice(['farmer', 'teacher', 'sailor'])} "
        f"{chance.choice(['bought', 'carried', 'painted', 'found'])} "
        f"{chance.choice(['many', 'several', 'some'])} "
        f"{chance.choice(['green', 'yellow', 'heavy'])} "
        f"{chance.choice(['bottles', 'baskets', 'windows', 'candles'])} "
        f"near the {chance.choice(['river', 'market', 'station'])} "
        f"on {chance.choice(['Monday', 'Wednesday', 'Friday'])} "
        f"{chance.choice(['morning', 'evening', 'afternoon'])}."
        for _ in range(3)
    ]


@pytest.fixture
def sentence(sentences: list[str]) -> str:
    return sentences[0]
