"""What a user is promised of `voice talk` and `voice ui` before anything is connected."""

import json
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


def test_talk_names_all_that_is_wrong_at_once(voice_here: Any, tmp_path: Path) -> None:
    done = voice_here(
        *("talk", "--input", tmp_path / "nothing.wav", "--output", tmp_path / "answer.mp3", "--reply", "nobody"),
        *("--device", "3", "--speaker", "4", "--pause", "99", "--barge-in", "--barge-in-after", "9"),
        expect=2,
    )

    for problem in (
        "nothing.wav cannot be read",
        "answer.mp3 is written as WAV",
        "no reply 'nobody'",
        "--device is for the microphone",
        "--speaker is for the loudspeaker",
        "pause between turns",
        "minimum speech of an interruption",
    ):
        assert problem in done.stderr
    assert done.stdout == ""


def test_talk_says_what_a_machine_without_sound_needs(voice_here: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "sounddevice", None)

    done = voice_here("talk", "--stt-endpoint", "ear", "--tts-endpoint", "voice", "--region", "us-east-1", expect=2)

    assert "sounddevice" in done.stderr
    assert "sagemaker-voice[mic]" in done.stderr


def test_talk_leaves_no_file_when_the_endpoint_is_not_there(
    voice_here: Any, recording: Callable[[float], Path], tmp_path: Path
) -> None:
    (tmp_path / "answer.wav").write_bytes(b"an older one")
    done = voice_here(
        *("talk", "-i", recording(0.5), "-o", tmp_path / "answer.wav", "--region", "us-east-1"),
        *("--stt-endpoint", "ear", "--tts-endpoint", "voice", "--endpoint-url", "https://127.0.0.1:9"),
        AWS_ACCESS_KEY_ID="AKIAIOSFODNN7EXAMPLE",
        AWS_SECRET_ACCESS_KEY="x",
    )

    assert done.returncode == 4, done.stderr
    assert "127.0.0.1:9" in done.stderr
    assert (tmp_path / "answer.wav").read_bytes() == b"an older one"
    assert not list(tmp_path.glob(".answer*"))


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("--share",), "--share needs a password"),
        (("--password-file", "nowhere"), "nowhere cannot be read"),
        (("--password-file", "short"), "fewer than 8 characters"),
        (("--stage", "a", "--stt-endpoint", "b", "--tts-endpoint", "c"), "--stage is not needed"),
        (("--reply", "nobody"), "no reply 'nobody'"),
        (("--port", "{taken}"), "cannot listen on 127.0.0.1:{taken}: Address already in use. Choose another port"),
    ],
)
def test_a_page_that_cannot_be_says_why(voice_here: Any, options: tuple[str, ...], problem: str) -> None:
    (voice_here.home / "short").write_text("1234567\n")
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = str(other.getsockname()[1])

        done = voice_here("ui", *(option.format(taken=taken) for option in options), expect=2)

    assert problem.format(taken=taken) in done.stderr
    assert done.stdout == ""


def test_a_wrong_chat_endpoint_is_named(voice_here: Any) -> None:
    done = voice_here("ui", expect=2, VOICE_CHAT_URL="http://127.0.0.1:1/v1")

    assert "VOICE_CHAT_MODEL" in done.stderr


@pytest.mark.parametrize("command", ["talk", "ui"])
def test_help_has_examples(voice_here: Any, command: str) -> None:
    shown = voice_here(command, "--help", expect=0).stdout

    assert shown.count(f"voice {command}") >= 4
    assert json.dumps("--stage").strip('"') in shown
