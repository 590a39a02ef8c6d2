"""What may be asked of a voice, and what is said about the rest."""

import base64
import io
import json
import wave
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from voice_client.errors import BadInputError
from voice_client.session.manner import Manner
from voice_local.containers.stand_in_omni.request import StreamingSpeechSessionConfig

CUSTOM = "Qwen/Qwen3-TTS-12Hz-1.7B-CustomVoice"
BASE = "Qwen/Qwen3-TTS-12Hz-1.7B-Base"
DESIGN = "Qwen/Qwen3-TTS-12Hz-1.7B-VoiceDesign"


@pytest.fixture
def recording(tmp_path: Path) -> Callable[[float], Path]:
    def make(seconds: float) -> Path:
        path = tmp_path / f"{seconds}.wav"
        with wave.open(str(path), "wb") as file:
            file.setnchannels(2)
            file.setsampwidth(2)
            file.setframerate(16_000)
            file.writeframes(b"\x00\x10\x00\x10" * int(seconds * 16_000))
        return path

    return make


def config(**asked: Any) -> dict[str, Any]:
    fields: dict[str, Any] = json.loads(Manner.checked(**asked).config())
    return fields


def test_everything_always_streams_pcm() -> None:
    assert config() == {"type": "session.config", "response_format": "pcm", "stream_audio": True}


def test_names_are_the_servers() -> None:
    asked = config(model=CUSTOM, voice="uncle fu", language="pt-BR", instructions="softly", speed=2.0)
    assert (asked["voice"], asked["language"], asked["instructions"]) == ("Uncle_Fu", "Portuguese", "softly")
    assert "speed" not in asked
    assert config(model=CUSTOM)["voice"] == "Vivian"
    assert config(model="another/model", voice="Bob")["voice"] == "Bob"


def test_every_field_is_one_that_the_server_knows(recording: Callable[[float], Path]) -> None:
    # It drops unknown ones without a word: a misspelt one would give its default.
    asked = config(model=BASE, language="en", instructions="softly", ref_audio=recording(1.0), ref_text="hello")
    asked |= config(model=CUSTOM, voice="Ryan")
    assert asked.keys() - {"type"} <= StreamingSpeechSessionConfig.model_fields.keys()


def test_all_problems_are_told_together_with_suggestions() -> None:
    with pytest.raises(BadInputError) as error:
        Manner.checked(
            model=CUSTOM,
            voice="Vivain",
            language="Germn",
            instructions="x" * 501,
            speed=9,
            ref_audio="gone.wav",
            ref_text=None,
        )
    told = str(error.value)
    for part in ("German", "501 characters", "9 is not within", "gone.wav cannot be read", "clones none", "exclude"):
        assert part in told
    with pytest.raises(BadInputError, match="Did you mean Vivian"):
        Manner.checked(model=CUSTOM, voice="Vivain")


def test_a_recording_is_sent_as_a_wav_of_24_khz(recording: Callable[[float], Path]) -> None:
    asked = config(model=BASE, ref_audio=recording(2.0), ref_text="hello")
    assert (asked["task_type"], asked["ref_text"]) == ("Base", "hello")
    assert "voice" not in asked
    kind, _, data = asked["ref_audio"].partition(";base64,")
    assert kind == "data:audio/wav"
    with wave.open(io.BytesIO(base64.b64decode(data))) as file:
        assert (file.getframerate(), file.getnchannels()) == (24_000, 1)
        assert file.getnframes() == pytest.approx(48_000, abs=50)


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"model": BASE}, "give ref_audio"),
        ({"model": DESIGN}, "give instructions"),
        ({"model": CUSTOM, "ref_text": "x"}, "ref_audio, which is missing"),
    ],
)
def test_what_a_kind_of_model_needs(asked: dict[str, Any], told: str) -> None:
    with pytest.raises(BadInputError, match=told):
        Manner.checked(**asked)


def test_a_recording_too_short_or_too_long(recording: Callable[[float], Path]) -> None:
    for seconds in (0.5, 31.0):
        with pytest.raises(BadInputError, match="not 1 to 30 s"):
            Manner.checked(model=BASE, ref_audio=recording(seconds))


def test_a_described_voice() -> None:
    assert config(model=DESIGN, instructions="an old sailor")["task_type"] == "VoiceDesign"


@pytest.mark.parametrize("name", ["model", "instructions"])
def test_bytes_that_are_no_text(name: str) -> None:
    with pytest.raises(BadInputError, match=f"the {name} holds bytes that are no UTF-8 text"):
        Manner.checked(**{name: "quietly \udcff"})  # type: ignore[arg-type]
