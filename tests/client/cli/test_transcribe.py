"""`voice transcribe`: formats, files, turns, raw audio, and what is shown of the wire."""

import json
import os
import re
import signal
import sys
import time
import types
import wave
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from voice_client.cli.captions import captions, srt, vtt
from voice_client.cli.wire_log import WireLog


def words(count: int) -> list[str]:
    return [f"w{number}" for number in range(count)]


@pytest.fixture
def talk(tmp_path: Path) -> Callable[..., Path]:
    """Write a WAV file of sound (positive seconds) and silence (negative ones)."""

    def make(name: str, *seconds: float) -> Path:
        random = np.random.default_rng(4)
        path = tmp_path / name
        with wave.open(str(path), "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(2)
            file.setframerate(16_000)
            for length in seconds:
                size = int(abs(length) * 16_000)
                file.writeframes((random.integers(-9000, 9000, size) * (length > 0)).astype("<i2").tobytes())
        return path

    return make


def hear(voice_here: Any, stt: Any, *arguments: str | Path, expect: int = 0) -> Any:
    return voice_here("transcribe", "--no-pace", *arguments, *stt.options, expect=expect, **stt.environment)


class TestTurns:
    def test_each_turn_is_a_line(self, voice_here: Any, stt: Any, talk: Callable[..., Path]) -> None:
        result = hear(voice_here, stt, "--turns", talk("a.wav", 2, -2, 3, -2))
        first, second = result.stdout.splitlines()
        assert first.split() == words(len(first.split()))
        assert 8 <= len(first.split()) <= 13
        assert 12 <= len(second.split()) <= 18

    def test_the_json_has_the_turns_with_their_places(
        self, voice_here: Any, stt: Any, talk: Callable[..., Path]
    ) -> None:
        result = hear(voice_here, stt, "--turns", "--json", "--pause", "0.5", talk("a.wav", -1, 2, -2, 3, -2))
        answer = json.loads(result.stdout)
        first, second = answer["turns"]
        assert first["start"] == pytest.approx(0.7, abs=0.06)
        assert first["end"] == pytest.approx(3.5, abs=0.06)
        assert second["start"] == pytest.approx(4.7, abs=0.06)
        assert answer["text"] == f"{first['text']}\n{second['text']}"
        assert answer["metrics"]["audio_seconds"] == pytest.approx(6.6, abs=0.2)
        assert answer["usage"]["completion_tokens"] > 0

    def test_silence_is_no_error_and_says_so(self, voice_here: Any, stt: Any, talk: Callable[..., Path]) -> None:
        result = hear(voice_here, stt, "--turns", talk("a.wav", -2))
        assert result.stdout.strip() == ""
        assert "nobody spoke" in result.stderr

    def test_subtitles(self, voice_here: Any, stt: Any, talk: Callable[..., Path], tmp_path: Path) -> None:
        path = tmp_path / "out.srt"
        result = hear(voice_here, stt, "-f", "srt", "-o", path, talk("a.wav", 2, -2, 3, -2))
        assert result.stdout == f"{path}\n"
        cues = path.read_text().strip().split("\n\n")
        assert [cue.splitlines()[0] for cue in cues] == [str(number) for number in range(1, len(cues) + 1)]
        assert cues[0].splitlines()[1].startswith("00:00:00,000 --> 00:00:0")
        assert "00:00:03,7" in path.read_text()
        result = hear(voice_here, stt, "-f", "vtt", talk("a.wav", 2, -2))
        assert result.stdout.startswith("WEBVTT\n\n00:00:00.000 --> ")


class TestFiles:
    def test_several_texts_each_under_its_name(self, voice_here: Any, stt: Any, talk: Callable[..., Path]) -> None:
        result = hear(voice_here, stt, talk("a.wav", 1), talk("b.wav", 2))
        first, second = re.findall(r"==> (?:.*?) <==\n(.*)\n", result.stdout)
        assert first.split() == words(4)
        assert second.split() == words(8)
        assert "a.wav" in result.stdout

    def test_several_into_a_folder(self, voice_here: Any, stt: Any, talk: Callable[..., Path], tmp_path: Path) -> None:
        folder = tmp_path / "texts"
        folder.mkdir()
        hear(voice_here, stt, talk("a.wav", 1), talk("b.wav", 2), "--format", "json", "-o", folder)
        assert sorted(path.name for path in folder.iterdir()) == ["a.json", "b.json"]
        assert json.loads((folder / "b.json").read_text())["text"].split() == words(8)

    def test_several_as_one_json_object(self, voice_here: Any, stt: Any, talk: Callable[..., Path]) -> None:
        result = hear(voice_here, stt, talk("a.wav", 1), talk("b.wav", 2), "--json")
        files = json.loads(result.stdout)["files"]
        assert [Path(file["file"]).name for file in files] == ["a.wav", "b.wav"]
        assert [file["text"].split() for file in files] == [words(4), words(8)]

    def test_a_text_file_is_written_whole_or_not_at_all(
        self, voice_here: Any, stt: Any, talk: Callable[..., Path], tmp_path: Path
    ) -> None:
        path = tmp_path / "out.txt"
        hear(voice_here, stt, talk("a.wav", 1), "-o", path)
        assert path.read_text().split() == words(4)
        options = [option.replace(stt.name, "nowhere") for option in stt.options]
        result = voice_here("transcribe", talk("a.wav", 1), "-o", path, *options, **stt.environment)
        assert result.returncode == 3
        assert path.read_text().split() == words(4)
        assert [name.name for name in tmp_path.iterdir() if name.suffix == ".part"] == []

    def test_raw_audio(self, voice_here: Any, stt: Any, tmp_path: Path) -> None:
        path = tmp_path / "line.raw"
        path.write_bytes(np.random.default_rng(1).bytes(8_000 * 2))  # two seconds of mu-law
        result = hear(voice_here, stt, path, "--raw", "mulaw", "--rate", "8000")
        assert result.stdout.split() == words(8)

    def test_chunks_of_another_size(self, voice_here: Any, stt: Any, talk: Callable[..., Path]) -> None:
        result = hear(voice_here, stt, talk("a.wav", 1), "--chunk-bytes", "640", "--verbose")
        assert result.stderr.count("[640 bytes]") == 50
        assert result.stdout.split() == words(4)


@pytest.mark.parametrize(
    ("arguments", "reasons"),
    [
        (("--mic", "a.wav"), ["exclude each other"]),
        ((), ["give files, or --mic"]),
        (("gone.wav", "gone2.wav"), ["gone.wav cannot be read", "gone2.wav cannot be read"]),
        (("a.wav", "--chunk-bytes", "3", "--pause", "99", "--turns"), ["3 bytes", "pause"]),
        (("a.wav", "--show-words", "--json", "-f", "srt"), ["--show-words is for", "--json and --format"]),
        (("a.wav", "b.wav", "-f", "vtt"), ["-o FOLDER"]),
        (("a.wav", "--raw", "s8", "--rate", "1"), ["'s8'", "1 Hz"]),
        (("-", "-"), ["can be read once"]),
        (("a.wav", "-o", "no/such/out.txt"), ["no folder"]),
        (("a.wav", "--device", "3"), ["--device is for --mic"]),
        (("a.wav", "-o", "a.wav"), ["a.wav is an input"]),
        (("a.wav", "--rate", "8000", "--pause", "1"), ["are for --raw", "--pause is for --turns"]),
    ],
)
def test_what_cannot_be_is_2_and_all_of_it_is_named(
    arguments: tuple[str, ...], reasons: list[str], voice_here: Any, talk: Callable[..., Path]
) -> None:
    for name in ("a.wav", "b.wav"):
        talk(name, 0.1).rename(voice_here.home / name)
    result = voice_here("transcribe", *arguments, "--endpoint", "any", expect=2)
    assert result.stderr.count("\n") == 1
    for reason in reasons:
        assert reason in result.stderr


class TestVerbose:
    def test_the_wire_is_shown_without_words(self, voice_here: Any, stt: Any, talk: Callable[..., Path]) -> None:
        result = hear(voice_here, stt, talk("a.wav", 1), "--verbose")
        assert '-> {"type": "input_audio_buffer.append", "audio": "[4096 bytes]"}' in result.stderr
        assert re.search(r'<- \{"type": "transcription.done", "text": "\[\d+ characters\]"', result.stderr)
        assert not re.search(r"\bw\d\b", result.stderr)
        assert result.stdout.split() == words(4)

    def test_the_words_are_shown_to_who_asks(self, voice_here: Any, stt: Any, talk: Callable[..., Path]) -> None:
        result = hear(voice_here, stt, talk("a.wav", 1), "--verbose", "--show-words")
        assert '"delta": "w0 ' in result.stderr

    def test_the_messages_of_both_protocols_are_redacted(self) -> None:
        log = WireLog(show_words=False)
        assert log.line('{"type": "input.text", "text": "rhubarb"}') == (
            '{"type": "input.text", "text": "[7 characters]"}'
        )
        assert log.line(b"1234") == "[4 bytes]"
        assert "rhubarb" not in log.line("rhubarb")
        assert log.line('{"audio": "AAAAAA=="}') == '{"audio": "[4 bytes]"}'


def test_a_request_to_end_leaves_no_half_file(voice: Any, tts: Any, tmp_path: Path) -> None:
    path = tmp_path / "speech.wav"
    process = voice.start("speak", "Word " * 2000, "-o", path, *tts.options, **tts.environment)
    end = time.monotonic() + 30
    while not list(tmp_path.glob(".speech.wav.*.part")):
        assert time.monotonic() < end
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    output, errors = process.communicate(timeout=20)
    assert process.returncode == 143, errors
    assert not output
    assert b"Traceback" not in errors
    assert [found.name for found in tmp_path.iterdir() if found.is_file()] == []


class TestCaptions:
    def test_two_lines_each_and_the_time_is_given_out_by_length(self) -> None:
        pieces = captions("word " * 60, start=10.0, end=22.0)
        assert all(len(line) <= 42 for piece in pieces for line in piece.text.splitlines())
        assert all(len(piece.text.splitlines()) <= 2 for piece in pieces)
        assert pieces[0].start == 10.0
        assert pieces[-1].end == pytest.approx(22.0)
        assert all(a.end == b.start for a, b in pairwise(pieces))
        assert " ".join(piece.text for piece in pieces).split() == ["word"] * 60

    def test_no_words_no_caption(self) -> None:
        assert captions("  ", start=0.0, end=1.0) == []

    def test_the_two_forms(self) -> None:
        pieces = captions("a < b & c", start=3599.9996, end=3661.5)
        assert srt(pieces) == "1\n01:00:00,000 --> 01:01:01,500\na < b & c\n\n"
        assert vtt(pieces) == "WEBVTT\n\n01:00:00.000 --> 01:01:01.500\na &lt; b &amp; c\n\n"


class FakeDevice(types.ModuleType):
    """What `sounddevice` is to us, on a machine that has no microphone: it "records" noise at 48 kHz only."""

    class PortAudioError(Exception):
        pass

    def __init__(self, seconds: float) -> None:
        super().__init__("sounddevice")
        self._seconds = seconds
        self.done = False

    def check_input_settings(self, *, samplerate: int, **_: Any) -> None:
        if samplerate != 48_000:
            raise self.PortAudioError("Invalid sample rate")

    def query_devices(self, device: Any, kind: str) -> dict[str, float]:
        assert kind == "input"
        return {"default_samplerate": 48_000.0}

    def RawInputStream(self, *, callback: Any, blocksize: int, **_: Any) -> Any:  # noqa: N802 - theirs
        import contextlib
        import threading

        status = types.SimpleNamespace(input_overflow=False)

        @contextlib.contextmanager
        def recording() -> Any:
            def run() -> None:
                noise = np.random.default_rng(1).integers(-9000, 9000, int(self._seconds * 48_000)).astype("<i2")
                for block in (noise, np.zeros(2 * 48_000, "<i2")):
                    for at in range(0, len(block), blocksize):
                        callback(memoryview(block[at : at + blocksize].tobytes()), blocksize, None, status)
                os.kill(os.getpid(), signal.SIGINT)  # the user ends it

            thread = threading.Thread(target=run)
            thread.start()
            yield
            thread.join()
            self.done = True

        return recording()


class TestMicrophone:
    def test_until_ctrl_c_turn_by_turn(self, voice_here: Any, stt: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        device = FakeDevice(2.0)
        monkeypatch.setitem(sys.modules, "sounddevice", device)
        result = hear(voice_here, stt, "--mic")
        assert device.done
        text = result.stdout.split()
        assert text == words(len(text))
        assert 8 <= len(text) <= 12
        assert "listening" in result.stderr

    def test_without_the_extra_it_says_what_to_install(
        self, voice_here: Any, stt: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(sys.modules, "sounddevice", None)
        result = hear(voice_here, stt, "--mic", expect=2)
        assert "sagemaker-voice[mic]" in result.stderr
        assert "listening" not in result.stderr
