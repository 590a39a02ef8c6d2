"""Stand-in servers as processes of their own, with the engines whose answers are exact."""

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

import pytest

VOXTRAL = "mistralai/Voxtral-Mini-4B-Realtime-2602"
QWEN_TTS = "Qwen/Qwen3-TTS-12Hz-1.7B-CustomVoice"
START_SECONDS = 30.0


@dataclass(frozen=True)
class RunningServer:
    port: int
    process: subprocess.Popen[bytes]

    def url(self, path: str, scheme: str = "ws") -> str:
        return f"{scheme}://127.0.0.1:{self.port}{path}"


def take_free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def running(module: str, arguments: list[str], environment: Mapping[str, str], port: int) -> Iterator[RunningServer]:
    process = subprocess.Popen([sys.executable, "-m", module, *arguments], env={**os.environ, **environment})
    try:
        deadline = time.monotonic() + START_SECONDS
        while not answers(port):
            assert process.poll() is None, f"{module} ended with {process.returncode}"
            assert time.monotonic() < deadline, f"{module} did not answer /health in time"
            time.sleep(0.05)
        yield RunningServer(port, process)
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(10)


def answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2) as response:
            return bool(response.status == 200)
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return False


def start_vllm(release: str, *flags: str, engine: str = "deterministic") -> AbstractContextManager[RunningServer]:
    port = take_free_port()
    arguments = ["serve", "/opt/ml/model", "--served-model-name", VOXTRAL, "--port", str(port), *flags]
    environment = {"VOICE_LOCAL_STT_ENGINE": engine, "VOICE_LOCAL_VLLM_RELEASE": release}
    return running("voice_local.containers.stand_in_vllm", arguments, environment, port)


def start_omni(engine: str = "deterministic") -> AbstractContextManager[RunningServer]:
    port = take_free_port()
    environment = {
        "SM_VLLM_MODEL": QWEN_TTS,
        "SAGEMAKER_BIND_TO_PORT": str(port),
        "VOICE_LOCAL_TTS_ENGINE": engine,
    }
    return running("voice_local.containers.stand_in_omni", ["serve"], environment, port)


@pytest.fixture
def free_port() -> int:
    return take_free_port()


@pytest.fixture(scope="session")
def omni_server() -> Callable[..., AbstractContextManager[RunningServer]]:
    """Starts a server with an engine: `with omni_server("piper") as server`."""
    return start_omni


@pytest.fixture(scope="session")
def vllm_server() -> Callable[..., AbstractContextManager[RunningServer]]:
    """Starts a server of a release with further flags: `with vllm_server("0.27", "--max-model-len", "6") as server`."""
    return start_vllm


@pytest.fixture(scope="session")
def vllm_027() -> Iterator[RunningServer]:
    with start_vllm("0.27") as server:
        yield server


@pytest.fixture(scope="session")
def vllm_017() -> Iterator[RunningServer]:
    with start_vllm("0.17") as server:
        yield server


@pytest.fixture(scope="session")
def omni() -> Iterator[RunningServer]:
    with start_omni() as server:
        yield server
