"""A stand-in vLLM-Omni behind a data plane, each a process."""

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.server_process import announced, answers, free_port, server_process
from voice_client.session.connection import MessageStream, StreamOpener
from voice_client.transport import Identity, StaticIdentity, StreamTarget, VoiceTransport

MODEL = "Qwen/Qwen3-TTS-12Hz-1.7B-CustomVoice"


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


@pytest.fixture(scope="module")
def mouth(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mouth]:
    """An endpoint on loopback."""
    folder, port = tmp_path_factory.mktemp("mouth"), free_port()
    log = folder / "plane.log"
    with (
        server_process(
            *("-m", "voice_local.containers.stand_in_omni", "serve"),
            log=folder / "omni.log",
            ready=answers(port, "/ping"),
            VOICE_LOCAL_TTS_ENGINE="deterministic",
            SM_VLLM_MODEL=MODEL,
            SAGEMAKER_BIND_TO_PORT=str(port),
        ) as container,
        server_process(
            *("-m", "voice_local.data_plane", "--container-port", str(port), "--endpoint-name", "mouth"),
            *("--accept-seconds", "10"),
            log=log,
            ready=lambda: announced(log),
        ),
    ):
        ready = announced(log)
        assert ready is not None
        yield Mouth(ready, container)
