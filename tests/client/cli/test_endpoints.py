"""The command against real endpoints on loopback: signed HTTP/2 streams, bridge and stand-in servers."""

import json
import os
import pty
import re
import signal
import time
import wave
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


def words(count: int) -> list[str]:
    return [f"w{number}" for number in range(count)]


def test_the_text_alone_is_on_standard_output(voice: Any, stt: Any, recording: Callable[[float], Path]) -> None:
    result = voice("transcribe", recording(2.0), *stt.options, **stt.environment)
    assert result.returncode == 0, result.stderr
    assert result.stdout.split() == words(8)
    assert result.stdout.count("\n") == 1
    assert re.fullmatch(
        r"voice: 2\.0 s of audio, first words after -?\d+ ms, final text \d+ ms after its end, "
        r"real-time factor \d\.\d\d\n",
        result.stderr,
    )


def test_json_holds_text_usage_and_metrics(voice_here: Any, stt: Any, recording: Callable[[float], Path]) -> None:
    result = voice_here("transcribe", recording(6.0), "--json", "--no-pace", *stt.options, **stt.environment)
    assert result.returncode == 0, result.stderr
    assert not result.stderr
    answer = json.loads(result.stdout)
    assert answer["text"].split() == words(25)
    assert answer["usage"]["completion_tokens"] > 0
    metrics = answer["metrics"]
    assert metrics["audio_seconds"] == 6.0
    assert metrics["retries"] == 0
    assert {"connect_ms", "first_partial_ms", "finalization_ms", "rtf"} <= metrics.keys()


def test_audio_from_standard_input(voice: Any, stt: Any, recording: Callable[[float], Path]) -> None:
    data = recording(1.0).read_bytes()
    result = voice("transcribe", "-", "--no-pace", *stt.options, stdin=data, **stt.environment)
    assert result.returncode == 0, result.stderr
    assert result.stdout.split() == words(4)
    result = voice("transcribe", "-", *stt.options, stdin=b"no sound", **stt.environment)
    assert result.returncode == 2
    assert "standard input is not audio" in result.stderr


def test_speech_becomes_a_wav_file(voice_here: Any, tts: Any, tmp_path: Path) -> None:
    path = tmp_path / "out.wav"
    result = voice_here(
        "speak", "One two three. Four five.", "-o", path, "--language", "en", *tts.options, **tts.environment
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout == f"{path}\n"
    assert re.fullmatch(
        r"voice: 1\.2 s of speech in \d+ chunks \(60000 bytes\), first sound after \d+ ms, real-time factor \d\.\d\d\n",
        result.stderr,
    )
    with wave.open(str(path)) as file:
        assert (file.getnchannels(), file.getsampwidth(), file.getframerate()) == (1, 2, 24_000)
        assert file.getnframes() == 30_000


def test_speech_as_json_in_the_default_file(voice_here: Any, tts: Any) -> None:
    result = voice_here("speak", "Hello there.", "--voice", "ryan", "--json", *tts.options, **tts.environment)
    assert result.returncode == 0, result.stderr
    answer = json.loads(result.stdout)
    assert answer["file"] == "speech.wav"
    assert answer["voice"] == "Ryan"
    assert answer["metrics"]["bytes"] == 24_000
    assert answer["metrics"]["seconds"] == 0.5
    assert answer["metrics"]["chunks"] >= 2
    assert answer["metrics"]["ttfa_ms"] > 0
    assert answer["metrics"]["rtf"] > 0
    assert (voice_here.home / "speech.wav").stat().st_size == 44 + 24_000


def test_a_wrong_voice_is_2_with_a_suggestion(voice_here: Any, tts: Any) -> None:
    result = voice_here("speak", "Hi.", "--voice", "Vivain", *tts.options, **tts.environment)
    assert result.returncode == 2
    assert "Did you mean Vivian?" in result.stderr
    assert list(voice_here.home.iterdir()) == []


@pytest.mark.parametrize("command", [("transcribe",), ("speak", "Hi.")])
def test_a_wrong_key_is_3_and_says_signature(
    voice_here: Any, stt: Any, tts: Any, command: tuple[str, ...], recording: Callable[[float], Path]
) -> None:
    endpoint = stt if command == ("transcribe",) else tts
    arguments = (*command, recording(1.0)) if endpoint is stt else command
    environment = endpoint.environment | {"AWS_SECRET_ACCESS_KEY": "wrong"}
    result = voice_here(*arguments, *endpoint.options, **environment)
    assert result.returncode == 3, result.stderr
    assert "signature" in result.stderr.lower()
    assert result.stderr.count("\n") == 1
    assert not result.stdout


def test_an_unknown_endpoint_is_3_with_its_name(voice_here: Any, stt: Any, recording: Callable[[float], Path]) -> None:
    options = [option.replace(stt.name, "nowhere-voice-stt") for option in stt.options]
    result = voice_here("transcribe", recording(1.0), *options, **stt.environment)
    assert result.returncode == 3, result.stderr
    assert "nowhere-voice-stt" in result.stderr


def test_no_credentials_are_3(voice_here: Any, stt: Any, recording: Callable[[float], Path]) -> None:
    result = voice_here("transcribe", recording(1.0), *stt.options, AWS_REGION="us-east-1")
    assert result.returncode == 3, result.stderr
    assert "credentials" in result.stderr


def test_a_certificate_that_is_not_trusted_is_4(voice_here: Any, stt: Any, recording: Callable[[float], Path]) -> None:
    result = voice_here("transcribe", recording(1.0), *stt.options[:-2], **stt.environment)
    assert result.returncode == 4, result.stderr
    assert "certificate" in result.stderr


def test_a_killed_container_is_4_before_any_deadline(
    voice: Any, mortal_stt: Any, recording: Callable[[float], Path]
) -> None:
    process = voice.start("transcribe", recording(20.0), "--no-retry", *mortal_stt.options, **mortal_stt.environment)
    mortal_stt.wait_for_log("session_first_delta", 1)
    mortal_stt.kill_container()
    killed = time.monotonic()
    output, errors = process.communicate(timeout=30)
    assert time.monotonic() - killed < 9  # the shortest deadline that could tell it instead is 10 s
    assert process.returncode == 4, errors
    assert not output
    assert b"interrupted" in errors
    assert mortal_stt.name.encode() in errors
    assert errors.count(b"\n") == 1


def test_a_container_that_stays_away_is_4_after_the_retries(
    voice: Any, mortal_stt: Any, recording: Callable[[float], Path]
) -> None:
    process = voice.start("transcribe", recording(30.0), *mortal_stt.options, **mortal_stt.environment)
    mortal_stt.wait_for_log("session_first_delta", 1)
    mortal_stt.kill_container()
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 4, errors
    assert not output
    *notices, last = errors.decode().splitlines()
    assert len(notices) == 5
    assert all("opening a new stream" in notice for notice in notices)
    assert "interrupted" in last
    assert "after 5 new streams" in last


def test_on_a_terminal_words_are_shown_while_they_come(
    voice: Any, stt: Any, recording: Callable[[float], Path]
) -> None:
    master, slave = pty.openpty()
    process = voice.start("transcribe", recording(3.0), *stt.options, stderr=slave, TERM="xterm", **stt.environment)
    os.close(slave)
    shown = b""
    while True:
        try:
            shown += os.read(master, 4096)
        except OSError:  # the other end is closed (Linux)
            break
    os.close(master)
    output, _ = process.communicate(timeout=10)
    assert process.returncode == 0, shown
    assert output.split() == [word.encode() for word in words(12)]
    assert b"w0 w1" in shown
    assert b"final text" in shown


def test_ctrl_c_is_130_without_a_trace(voice: Any, stt: Any, recording: Callable[[float], Path]) -> None:
    before = stt.log_text().count("session_first_delta")
    process = voice.start("transcribe", recording(30.0), *stt.options, **stt.environment)
    stt.wait_for_log("session_first_delta", before + 1)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=5)
    assert process.returncode == 130, errors
    assert not output
    assert b"Traceback" not in errors


def test_ctrl_c_while_standard_input_brings_nothing(voice: Any, stt: Any) -> None:
    before = stt.log_text().count("session_opened")
    process = voice.start("transcribe", "-", *stt.options, **stt.environment)
    stt.wait_for_log("session_opened", before + 1)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    assert process.wait(5) == 130
    for pipe in (process.stdin, process.stdout, process.stderr):
        pipe.close()


def test_no_spoken_word_is_in_any_log(voice_here: Any, stt: Any, tts: Any, recording: Callable[[float], Path]) -> None:
    heard = voice_here("transcribe", recording(2.0), "--no-pace", *stt.options, **stt.environment)
    assert "w7" in heard.stdout
    assert not re.search(r"\bw\d+\b", heard.stderr)
    assert not re.search(r"\bw\d+\b", stt.log_text())
    spoken = voice_here("speak", "Unmistakable rhubarb.", *tts.options, **tts.environment)
    assert spoken.returncode == 0
    assert "rhubarb" not in spoken.stdout + spoken.stderr + tts.log_text()
