"""`voice speak` and `voice voices` against a real endpoint on loopback."""

import json
import os
import signal
import struct
import subprocess
import sys
import time
import wave
from pathlib import Path
from typing import Any

import av
import pytest

WORD_BYTES = 12_000
TEXT = "One two three. Four five."
BYTES = 5 * WORD_BYTES


def speak(voice: Any, tts: Any, *arguments: str | Path, **more: Any) -> subprocess.CompletedProcess[str]:
    result: subprocess.CompletedProcess[str] = voice("speak", *arguments, *tts.options, **tts.environment, **more)
    return result


def start(voice: Any, tts: Any, *arguments: str) -> subprocess.Popen[bytes]:
    process: subprocess.Popen[bytes] = voice.start("speak", *arguments, *tts.options, **tts.environment)
    return process


@pytest.mark.parametrize("name", ["out.flac", "out.mp3"])
def test_the_ending_of_the_name_chooses_the_format(name: str, voice_here: Any, tts: Any) -> None:
    result = speak(voice_here, tts, TEXT, "-o", name, expect=0)
    assert result.stdout == f"{name}\n"
    with av.open(str(voice_here.home / name)) as file:
        assert file.duration is not None
        assert file.duration / 1e6 == pytest.approx(1.25, abs=0.08)


def test_a_text_file_is_read_aloud(voice_here: Any, tts: Any, tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_text("# Title\n\nOne two\nthree. **Four** five.\n", encoding="utf-8-sig")
    result = speak(voice_here, tts, "-f", path, "--json", expect=0)
    metrics = json.loads(result.stdout)["metrics"]
    assert [sentence["seconds"] for sentence in metrics["sentences"]] == [0.25, 0.75, 0.5]


def test_speed_and_instructions(voice_here: Any, tts: Any) -> None:
    result = speak(
        voice_here, tts, "One two three four.", "--speed", "2", "--instructions", "whisper", "--json", "-v", expect=0
    )
    assert json.loads(result.stdout)["metrics"]["seconds"] == pytest.approx(0.5, abs=0.05)
    assert '"instructions": "whisper"' in result.stderr
    assert "One two" not in result.stderr


def test_what_is_piped_is_a_wav_or_just_samples(voice: Any, tts: Any) -> None:
    process = start(voice, tts, TEXT, "-o", "-")
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert (out[:4], out[36:40], struct.unpack("<I", out[40:44])[0]) == (b"RIFF", b"data", 0xFFFFFFFF)
    assert len(out) == 44 + BYTES
    assert b"1.2 s of speech" in err

    process = start(voice, tts, TEXT, "-o", "-", "--format", "raw")
    raw, _ = process.communicate(timeout=60)
    assert raw == out[44:]


def test_a_text_that_grows_is_spoken_as_far_as_it_is_known(voice: Any, tts: Any) -> None:
    process = start(voice, tts, "-", "-o", "-", "--format", "raw")
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"One two. Thr")
    process.stdin.flush()
    time.sleep(0.2)
    process.stdin.write(b"ee ")
    process.stdin.flush()
    assert len(process.stdout.read(2 * WORD_BYTES)) == 2 * WORD_BYTES, "the first sentence, while the text is open"
    process.stdin.write(b"four.\n")
    process.stdin.flush()
    assert len(process.stdout.read(2 * WORD_BYTES)) == 2 * WORD_BYTES, "a pause behind an end mark ends a sentence"
    process.stdin.write("F\u00fcnf".encode()[:2])
    process.stdin.flush()
    time.sleep(0.1)
    process.stdin.write("F\u00fcnf".encode()[2:])
    rest, err = process.communicate(timeout=60)
    assert len(rest) == WORD_BYTES
    assert process.returncode == 0, err


def test_a_reader_that_goes_away_ends_it_quietly(voice: Any, tts: Any) -> None:
    process = start(voice, tts, "One two three four five six. " * 50, "-o", "-")
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.read(100)
    process.stdout.close()
    assert process.wait(60) == 128 + signal.SIGPIPE
    assert process.stderr.read() == b""
    process.stderr.close()


def test_a_slow_reader_holds_up_no_ctrl_c(voice: Any, tts: Any) -> None:
    process = start(voice, tts, "One two three four five six. " * 200, "-o", "-")
    assert process.stdout is not None
    process.stdout.read(100)
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130
    process.communicate()


def test_a_text_that_is_no_text(voice_here: Any, tts: Any) -> None:
    assert "no UTF-8 text" in speak(voice_here, tts, "caf\udce9. Hello.", expect=2).stderr


def test_standard_input_that_is_no_text(voice: Any, tts: Any) -> None:
    result = voice("speak", "-", "-o", "out.wav", *tts.options, stdin=b"Well. \xff\xfe", **tts.environment)
    assert result.returncode == 2
    assert "no UTF-8" in result.stderr
    assert list(voice.home.iterdir()) == []


def test_playing_without_a_device_says_what_to_install(
    voice_here: Any, tts: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "sounddevice", None)
    result = speak(voice_here, tts, "Hi.", "--play", expect=2)
    assert "sagemaker-voice[mic]" in result.stderr
    assert list(voice_here.home.iterdir()) == []


def test_a_failure_in_the_middle_leaves_no_file(voice_here: Any, tts: Any) -> None:
    result = speak(voice_here, tts, "Hi.", "--model", "nope", expect=4)
    assert "nope" in result.stderr
    assert list(voice_here.home.iterdir()) == []


class TestVoices:
    def test_help_has_examples(self, voice_here: Any) -> None:
        result = voice_here("voices", "--help", expect=0)
        assert "voice voices --stage prod" in result.stdout.split("Examples:")[1]

    def test_those_of_the_model_that_is_known(self, voice_here: Any) -> None:
        result = voice_here("voices", expect=0)
        lines = result.stdout.splitlines()
        assert lines[0] == "Vivian (default)"
        assert len(lines) == 10
        assert "Portuguese (pt)" in lines[-1]

    def test_those_of_the_model_that_is_deployed(self, voice_here: Any, tts: Any) -> None:
        result = voice_here("voices", "--json", *tts.options, expect=0, **tts.environment)
        answer = json.loads(result.stdout)
        assert {"Vivian", "Sohee", "Uncle_Fu"} < set(answer["voices"])
        assert answer["languages"]["ja"] == "Japanese"


def test_a_file_that_is_there_is_replaced_whole(voice_here: Any, tts: Any) -> None:
    (voice_here.home / "out.wav").write_text("old")
    speak(voice_here, tts, TEXT, "-o", "out.wav", expect=0)
    with wave.open(str(voice_here.home / "out.wav")) as file:
        assert (file.getframerate(), file.getnchannels(), file.getnframes()) == (24_000, 1, BYTES // 2)


def test_a_text_file_that_never_ends_or_is_no_text(voice_here: Any, tts: Any) -> None:
    assert "more than 200000 characters" in speak(voice_here, tts, "-f", "/dev/zero", expect=2).stderr
    (voice_here.home / "latin").write_bytes(b"caf\xe9")
    assert "no UTF-8 text" in speak(voice_here, tts, "-f", "latin", expect=2).stderr
    assert "Is a directory" in speak(voice_here, tts, "-f", voice_here.home, expect=2).stderr


def test_a_name_that_is_too_long(voice_here: Any, tts: Any) -> None:
    assert "File name too long" in speak(voice_here, tts, "Hi.", "-o", f"{'a' * 300}.wav", expect=2).stderr


def test_ctrl_c_ends_the_wait_for_a_named_pipe(voice: Any, tts: Any) -> None:
    os.mkfifo(voice.home / "pipe")
    process = start(voice, tts, "-f", "pipe")
    writer = os.open(voice.home / "pipe", os.O_WRONLY)  # returns when the other end is open
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    os.close(writer)
    assert process.returncode == 130
    assert b"Traceback" not in err


def test_a_disk_that_is_full(voice: Any, tts: Any) -> None:
    limited = ["sh", "-c", 'ulimit -f 16; exec "$0" "$@"', str(Path(sys.executable).parent / "voice")]
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(voice.home),
        "PYTHONDONTWRITEBYTECODE": "1",
        **tts.environment,
    }
    old = voice.home / "out.wav"
    old.write_text("old")
    arguments = ["speak", "One two three. " * 20, "-o", "out.wav", *tts.options]
    result = subprocess.run([*limited, *arguments], env=environment, cwd=voice.home, capture_output=True, check=False)
    assert result.returncode == 2, result.stderr
    assert b"out.wav cannot be written: File too large" in result.stderr
    assert [(path.name, path.read_text()) for path in voice.home.iterdir()] == [("out.wav", "old")]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no such device here")
def test_standard_output_that_takes_nothing(voice: Any, tts: Any) -> None:
    command = ["sh", "-c", '"$0" "$@" >/dev/full', str(Path(sys.executable).parent / "voice")]
    environment = {"PATH": os.environ["PATH"], "HOME": str(voice.home), **tts.environment}
    result = subprocess.run(
        [*command, "speak", "Hi.", "-o", "-", *tts.options], env=environment, capture_output=True, check=False
    )
    assert (result.returncode, result.stderr.count(b"\n")) == (2, 1), result.stderr
    assert b"standard output cannot be written: No space left" in result.stderr
