"""What the command says before it connects to anything."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest


def one_line(text: str) -> str:
    assert text.count("\n") == 1, text
    assert "Traceback" not in text
    assert text.startswith("voice: ")
    return text


@pytest.mark.parametrize("command", ["transcribe", "speak"])
def test_help_has_examples_defaults_and_every_option(voice_here: Any, command: str) -> None:
    result = voice_here(command, "--help")
    assert result.returncode == 0
    assert f"voice {command} " in result.stdout.split("Examples:")[1]
    for option in ("--stage", "--endpoint", "--region", "--endpoint-url", "--ca-bundle", "--json", "--no-retry"):
        assert option in result.stdout
    assert "default: dev" in result.stdout


def test_the_group_names_its_exit_codes(voice_here: Any) -> None:
    result = voice_here("--help")
    assert result.returncode == 0
    assert "3 credentials or endpoint" in result.stdout
    assert {"transcribe", "speak"} <= set(result.stdout.split())
    assert "Run the local cloud" in result.stdout, "what a command of another package does is not told"


def test_the_version_is_the_packages(voice_here: Any) -> None:
    result = voice_here("--version")
    assert (result.returncode, result.stdout) == (0, f"sagemaker-voice {version('sagemaker-voice')}\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_a_full_disk_is_told_as_one() -> None:
    with Path("/dev/full").open("w") as full:
        command = [Path(sys.executable).parent / "voice", "voices"]
        result = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    assert result.returncode == 1
    assert "no room left" in one_line(result.stderr)


SAYING_WORDS = """
import sys
import typer
from voice_client.cli.failure import run

async def work():
    print("words")

try:
    run(work())
except typer.Exit as exit:
    sys.exit(exit.exit_code)
"""


def test_a_reader_who_has_gone_is_no_fault() -> None:
    """`voice ... | head` ends as every command of a pipeline does, without a word."""
    reads, writes = os.pipe()
    os.close(reads)
    command = [sys.executable, "-c", SAYING_WORDS]
    result = subprocess.run(command, stdout=writes, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    os.close(writes)
    assert (result.returncode, result.stderr) == (128 + signal.SIGPIPE, "")


INTERRUPTED = """
import os, signal, sys

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == "voice_client.cli.transcribe":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
sys.argv = ["voice", "transcribe", "--help"]
from voice_client.cli import main
main()
"""


def test_ctrl_c_while_the_commands_are_loaded() -> None:
    result = subprocess.run(
        [sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, timeout=60, check=False
    )
    assert (result.returncode, result.stdout, result.stderr) == (130, "", "")


@pytest.mark.parametrize(
    "arguments", [("transcribe",), ("transcribe", "a.wav", "--nope"), ("nope",), ("speak",), ("speak", "a", "b")]
)
def test_wrong_usage_is_2(voice_here: Any, arguments: tuple[str, ...]) -> None:
    result = voice_here(*arguments)
    assert result.returncode == 2
    assert not result.stdout
    assert "Traceback" not in result.stderr


def test_a_text_file_named_wav_is_2_with_the_reason(voice_here: Any, tmp_path: Path) -> None:
    path = tmp_path / "note.wav"
    path.write_text("no sound here\n" * 20)
    result = voice_here("transcribe", path, "--endpoint", "any")
    assert result.returncode == 2
    assert not result.stdout
    assert "note.wav is not audio" in one_line(result.stderr)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("transcribe", "gone.wav"), "gone.wav cannot be read: No such file"),
        (("transcribe", "gone.wav", "--stage", "a", "--endpoint", "b"), "--stage and --endpoint exclude each other"),
        (("speak", "Hi.", "--endpoint", "b", "--ca-bundle", "gone.pem"), "--ca-bundle gone.pem is no file"),
        (("speak", "   "), "there is no text to speak"),
        (("speak", "Hi.", "-o", "out.ogg"), "out.ogg: speech is written as WAV, FLAC or MP3"),
        (("speak", "Hi.", "-f", "text.txt"), "TEXT and -f exclude each other"),
        (("speak", "-f", "gone.txt"), "gone.txt cannot be read"),
        (("speak", "😀 ..."), "there is no text to speak"),
        (("speak", "Hi.", "-o", "-", "--json"), "--json and -o - exclude each other"),
        (("speak", "Hi.", "--speed", "9", "--device", "2"), "--device is for --play; a speed of 9"),
        (("speak", "Hi.", "--format", "raw"), "--format is for -o -"),
        (("speak", "Hi.", "-o", "no/folder/out.wav"), "cannot be written"),
    ],
)
def test_bad_input_is_2_with_the_reason(voice_here: Any, arguments: tuple[str, ...], reason: str) -> None:
    result = voice_here(*arguments)
    assert result.returncode == 2, result.stderr
    assert reason in one_line(result.stderr)
    assert not result.stdout


def test_problems_are_told_together(voice_here: Any) -> None:
    result = voice_here("speak", "Hi.", "--stage", "a", "--endpoint", "b", "--ca-bundle", "gone.pem")
    assert "exclude each other" in result.stderr
    assert "gone.pem" in result.stderr


def test_the_traceback_is_there_for_those_who_ask(voice: Any) -> None:
    assert "Traceback" in voice("transcribe", "gone.wav", "--debug").stderr
    assert "Traceback" in voice("transcribe", "gone.wav", VOICE_DEBUG="1").stderr


def test_help_loads_neither_sdk_nor_boto3_nor_decoders() -> None:
    heavy = ("boto3", "awscrt", "aws_sdk_sagemaker_runtime_http2", "moto", "numpy", "av")
    code = f"import sys, voice_client.cli; print([m for m in {heavy} if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30)
    assert result.stdout.strip() == "[]"


class TestCommandsOfOtherPackages:
    """Entry-point group `voice.commands`."""

    @pytest.fixture
    def install(self, tmp_path: Path) -> Callable[[str, str], str]:
        def install(name: str, code: str) -> str:
            site = tmp_path / "site"
            info = site / f"plugin_{name}-1.0.dist-info"
            info.mkdir(parents=True)
            (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: plugin-{name}\nVersion: 1.0\n")
            (info / "entry_points.txt").write_text(f"[voice.commands]\n{name} = plugin_{name}:app\n")
            (site / f"plugin_{name}.py").write_text(code)
            return str(site)

        return install

    def test_a_command_is_found_by_its_name(self, voice: Any, install: Callable[[str, str], str]) -> None:
        site = install(
            "hello",
            "import typer\napp = typer.Typer(help='Greets.')\n"
            "@app.command()\ndef up(): print('hello')\n@app.command()\ndef down(): raise typer.Exit(7)\n",
        )
        assert "voice hello --help" in voice("--help", PYTHONPATH=site).stdout
        assert "Greets." in voice("hello", "--help", PYTHONPATH=site).stdout
        assert voice("hello", "up", PYTHONPATH=site).stdout == "hello\n"
        assert voice("hello", "down", PYTHONPATH=site).returncode == 7

    @pytest.mark.parametrize("arguments", [(), ("up", "--port", "3"), ("--help",)])
    def test_a_missing_extra_is_named_and_hurts_no_other(
        self, voice: Any, install: Callable[[str, str], str], arguments: tuple[str, ...]
    ) -> None:
        site = install("engine", "import no_such_package_xyz\n")
        result = voice("engine", *arguments, PYTHONPATH=site)
        assert result.returncode == 1
        assert "no_such_package_xyz" in one_line(result.stderr)
        assert "install plugin-engine[engine]" in result.stderr
        assert voice("transcribe", "--help", PYTHONPATH=site).returncode == 0
        assert voice("--help", PYTHONPATH=site).returncode == 0

    def test_a_broken_one_is_named_and_hurts_no_other(self, voice: Any, install: Callable[[str, str], str]) -> None:
        site = install("broken", "raise ValueError('half written')\n")
        result = voice("broken", PYTHONPATH=site)
        assert result.returncode == 1
        assert "cannot be loaded: ValueError: half written" in one_line(result.stderr)
        assert voice("--help", PYTHONPATH=site).returncode == 0

    def test_a_crash_in_one_is_one_line(self, voice: Any, install: Callable[[str, str], str]) -> None:
        site = install("crash", "import typer\napp = typer.Typer()\n@app.command()\ndef crash(): 1 / 0\n")
        result = voice("crash", PYTHONPATH=site)
        assert result.returncode == 1
        assert "ZeroDivisionError" in one_line(result.stderr)
