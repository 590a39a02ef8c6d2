"""A stand-in vLLM-Omni behind a data plane, each a process."""

import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from voice_client.session.connection import MessageStream, StreamOpener
from voice_client.transport import Identity, StaticIdentity, StreamTarget, VoiceTransport

MODEL = "Qwen/Qwen3-TTS-12Hz-1.7B-CustomVoice"
READY_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Mouth:
    """An endpoint that speaks tones: 0.25 s a word."""

    ready: dict[str, str]
    container: subprocess.Popen[bytes]

    def transport(self) -> VoiceTransport:
        ready = self.ready
        target = StreamTarget(ready["endpoint"], ready["region"], ready["url"], Path(ready["ca_bundle"]))
        return VoiceTransport(target, identity=StaticIdentity(Identity(ready["access_key"], ready["secret_key"])))

    @staticmethod
    def opener(transport: VoiceTransport) -> StreamOpener:
        async def open_stream() -> MessageStream:
            return await transport.open_stream("v1/audio/speech/stream")

        return open_stream

    def sockets_of_the_container(self) -> int:
        """How many WebSockets the container holds now."""
        held = 0
        for entry in Path(f"/proc/{self.container.pid}/fd").iterdir():
            try:
                held += str(entry.readlink()).startswith("socket:")
            except OSError:
                continue
        return held


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def _process(
    log: Path, ready: Callable[[], object], *arguments: str, **environment: str
) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as output:
        running = subprocess.Popen(
            [sys.executable, "-m", *arguments], env=os.environ | environment, stdout=output, stderr=output
        )
    try:
        end = time.monotonic() + READY_SECONDS
        while not ready():
            assert running.poll() is None, log.read_text()
            assert time.monotonic() < end, log.read_text()
            time.sleep(0.05)
        yield running
    finally:
        running.kill()
        running.wait(10)


def _answers(port: int) -> bool:
    try:
        urllib.request.urlopen(f"http://127.0.0.1:{port}/ping", timeout=2).close()
    except OSError:
        return False
    return True


@pytest.fixture(scope="module")
def mouth(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mouth]:
    """An endpoint on loopback."""
    folder, port = tmp_path_factory.mktemp("mouth"), _free_port()
    plane_log = folder / "plane.log"
    with ExitStack() as stack:
        container = stack.enter_context(
            _process(
                folder / "omni.log",
                lambda: _answers(port),
                "voice_local.containers.stand_in_omni",
                "serve",
                VOICE_LOCAL_TTS_ENGINE="deterministic",
                SM_VLLM_MODEL=MODEL,
                SAGEMAKER_BIND_TO_PORT=str(port),
            )
        )
        stack.enter_context(
            _process(
                plane_log,
                lambda: re.search(r"^\{.*\}$", plane_log.read_text(), re.MULTILINE),
                *("voice_local.data_plane", "--container-port", str(port), "--endpoint-name", "mouth"),
                *("--accept-seconds", "10"),
            )
        )
        found = re.search(r"^\{.*\}$", plane_log.read_text(), re.MULTILINE)
        assert found is not None
        yield Mouth(json.loads(found[0]), container)
