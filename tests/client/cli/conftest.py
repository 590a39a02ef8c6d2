"""The `voice` command as a user runs it, and real endpoints on loopback: data plane, bridge and stand-in servers."""

import os
import signal
import subprocess
import sys
import tempfile
import time
import wave
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from tests.server_process import announced, answers, free_port, server_process
from voice_client.cli import app

VOICE = Path(sys.executable).parent / "voice"
STT_MODEL = "mistralai/Voxtral-Mini-4B-Realtime-2602"
TTS_MODEL = "Qwen/Qwen3-TTS-12Hz-1.7B-CustomVoice"


@dataclass
class Voice:
    """Runs `voice` with an environment in which nothing leads to AWS."""

    home: Path
    environment: dict[str, str] = field(default_factory=dict)

    def start(
        self, *arguments: str | Path, stderr: int = subprocess.PIPE, **environment: str
    ) -> subprocess.Popen[bytes]:
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "PYTHONPATH") if name in os.environ}
        variables = {
            **kept,
            "HOME": str(self.home),
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_ENDPOINT_URL": "https://127.0.0.1:9",
            "COLUMNS": "120",
            **self.environment,
            **environment,
        }
        return subprocess.Popen(
            [VOICE, *map(str, arguments)],
            env=variables,
            cwd=self.home,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
        )

    def __call__(
        self, *arguments: str | Path, stdin: bytes | None = None, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        process = self.start(*arguments, stderr=subprocess.PIPE, **environment)
        try:
            output, errors = process.communicate(stdin, timeout=60)
        finally:
            process.kill()
        return subprocess.CompletedProcess(process.args, process.returncode, output.decode(), errors.decode())


@pytest.fixture
def voice(tmp_path: Path) -> Voice:
    """The command, with a home folder of its own."""
    home = tmp_path / "home"
    home.mkdir()
    return Voice(home)


@dataclass
class VoiceHere:
    """Runs `voice` inside this process: the same command without a second of start-up."""

    home: Path

    def __call__(
        self, *arguments: str | Path, expect: int | None = None, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        variables: dict[str, str | None] = {name: None for name in os.environ if name.startswith(("AWS_", "VOICE_"))}
        variables |= {
            "HOME": str(self.home),
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_ENDPOINT_URL": "https://127.0.0.1:9",
            "SSL_CERT_FILE": None,
            "COLUMNS": "120",
            "TERMINAL_WIDTH": "120",
            **environment,
        }
        result = CliRunner().invoke(app, list(map(str, arguments)), env=variables)
        if expect is not None:
            assert result.exit_code == expect, (result.stderr, result.exception)
        return subprocess.CompletedProcess(arguments, result.exit_code, result.stdout, result.stderr)


@pytest.fixture
def voice_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> VoiceHere:
    """The command in this process, in a home folder of its own."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.chdir(home)
    return VoiceHere(home)


@dataclass
class LocalEndpoint:
    """One endpoint of a data plane, and how to reach it."""

    name: str
    options: tuple[str, ...]
    environment: dict[str, str]
    processes: list[subprocess.Popen[bytes]]
    """The container's processes; killing them is what a dying container is."""
    logs: Path

    def kill_container(self) -> None:
        for process in self.processes:
            process.send_signal(signal.SIGKILL)

    def wait_for_log(self, text: str, count: int) -> None:
        """Wait until the container has logged a text so many times."""
        end = time.monotonic() + 30
        while self.log_text().count(text) < count:
            assert time.monotonic() < end, self.log_text()
            time.sleep(0.05)

    def log_text(self) -> str:
        return "".join(log.read_text() for log in self.logs.iterdir())


@contextmanager
def _endpoint(kind: str) -> Iterator[LocalEndpoint]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        port = free_port()
        if kind == "stt":
            inner = free_port()
            engine = server_process(
                *("-m", "voice_local.containers.stand_in_vllm", "serve", STT_MODEL, "--port", str(inner)),
                log=folder / "vllm.log",
                ready=lambda: True,  # the bridge answers when this does
                VOICE_LOCAL_STT_ENGINE="deterministic",
            )
            bridge = server_process(
                *("-m", "voxtral_bridge"),
                log=folder / "container.log",
                ready=answers(port, "/ping"),
                BRIDGE_PORT=str(port),
                VLLM_PORT=str(inner),
            )
            processes = [stack.enter_context(engine), stack.enter_context(bridge)]
        else:
            speaker = server_process(
                *("-m", "voice_local.containers.stand_in_omni", "serve"),
                log=folder / "container.log",
                ready=answers(port, "/ping"),
                VOICE_LOCAL_TTS_ENGINE="deterministic",
                SM_VLLM_MODEL=TTS_MODEL,
                SAGEMAKER_BIND_TO_PORT=str(port),
            )
            processes = [stack.enter_context(speaker)]

        name, log = f"test-voice-{kind}", folder / "plane.log"
        plane = ["-m", "voice_local.data_plane", "--container-port", str(port), "--endpoint-name", name]
        stack.enter_context(server_process(*plane, "--accept-seconds", "5", log=log, ready=lambda: announced(log)))
        ready = announced(log)
        assert ready is not None
        yield LocalEndpoint(
            name=name,
            options=("--endpoint", name, "--endpoint-url", ready["url"], "--ca-bundle", ready["ca_bundle"]),
            environment={
                "AWS_ACCESS_KEY_ID": ready["access_key"],
                "AWS_SECRET_ACCESS_KEY": ready["secret_key"],
                "AWS_REGION": ready["region"],
            },
            processes=processes,
            logs=folder,
        )


@pytest.fixture(scope="session")
def stt() -> Iterator[LocalEndpoint]:
    """A speech-to-text endpoint whose engine says `w{n}` for each 240 ms of audio."""
    with _endpoint("stt") as endpoint:
        yield endpoint


@pytest.fixture
def mortal_stt() -> Iterator[LocalEndpoint]:
    """A speech-to-text endpoint for one test, which may kill its container."""
    with _endpoint("stt") as endpoint:
        yield endpoint


@pytest.fixture(scope="session")
def tts() -> Iterator[LocalEndpoint]:
    """A text-to-speech endpoint whose engine plays 0.25 s for each word."""
    with _endpoint("tts") as endpoint:
        yield endpoint


@pytest.fixture
def recording(tmp_path: Path) -> Callable[[float], Path]:
    """Return a function that makes a WAV file of so many seconds of noise."""

    def make(seconds: float) -> Path:
        path = tmp_path / f"noise-{seconds}.wav"
        with wave.open(str(path), "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(2)
            file.setframerate(16_000)
            noise = np.random.default_rng(2).integers(-9000, 9000, int(seconds * 16_000)).astype("<i2")
            file.writeframes(noise.tobytes())
        return path

    return make
