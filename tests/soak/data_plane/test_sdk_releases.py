"""Every generation of the SDK completes a speech-to-text and a text-to-speech stream: built to the contract."""

import asyncio
import json
import os
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from voice_local.data_plane import DataPlane, DataPlaneSettings, TlsMaterial
from voice_local.identity import LocalIdentity
from voice_local.interfaces import EndpointStatus, EndpointView, ServingContainer

pytestmark = pytest.mark.soak

DEADLINE = 90.0
ROOT = Path(__file__).parents[3]
OLD_SDKS = ROOT / "build" / "old-sdks"
PROGRAM = Path(__file__).with_name("sdk_program.py")


class Directory:
    """Two endpoints in service."""

    def __init__(self, ports: dict[str, int]) -> None:
        self._views = {
            name: EndpointView(name, EndpointStatus.IN_SERVICE, (ServingContainer("AllTraffic", port, True),))
            for name, port in ports.items()
        }

    def find(self, endpoint_name: str) -> EndpointView | None:
        return self._views.get(endpoint_name)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


@asynccontextmanager
async def server(module: str, port: int, *arguments: str, **environment: str) -> AsyncIterator[None]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", module, *arguments), env={**os.environ, **environment}
    )
    try:
        async with asyncio.timeout(DEADLINE):
            while not await _listens(port):
                assert process.returncode is None, f"{module} ended with {process.returncode}"
                await asyncio.sleep(0.1)
        yield
    finally:
        if process.returncode is None:
            process.terminate()
        await asyncio.wait_for(process.wait(), DEADLINE)


async def _listens(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True


@pytest.fixture
async def stand_ins() -> AsyncIterator[dict[str, int]]:
    """The two servers, with engines whose answers are exact."""
    ports = {"ear": free_port(), "voice": free_port()}
    arguments = ("serve", "/opt/ml/model", "--served-model-name", "mistralai/Voxtral-Mini-4B-Realtime-2602")
    async with (
        server(
            *("voice_local.containers.stand_in_vllm", ports["ear"], *arguments, "--port", str(ports["ear"])),
            VOICE_LOCAL_STT_ENGINE="deterministic",
            VOICE_LOCAL_VLLM_RELEASE="0.27",
        ),
        server(
            *("voice_local.containers.stand_in_omni", ports["voice"], "serve"),
            SM_VLLM_MODEL="Qwen/Qwen3-TTS-12Hz-1.7B-CustomVoice",
            SAGEMAKER_BIND_TO_PORT=str(ports["voice"]),
            VOICE_LOCAL_TTS_ENGINE="deterministic",
        ),
    ):
        yield ports


@pytest.mark.parametrize("release", ["0.4", "0.9", "0.12"])
async def test_a_release_of_the_sdk_hears_and_speaks(release: str, stand_ins: dict[str, int], tmp_path: Path) -> None:
    python = Path(sys.executable) if release == "0.12" else OLD_SDKS / release / "bin" / "python"
    if not python.exists():
        pytest.skip(f"SDK {release} is not set up: run scripts/setup-old-sdks")
    identity = LocalIdentity()
    settings = DataPlaneSettings(accept_seconds=5.0)
    tls = TlsMaterial.create(tmp_path)
    async with DataPlane(Directory(stand_ins), identity, tls=tls, settings=settings) as plane:
        told = {
            "url": plane.url,
            "region": identity.region,
            "access_key": identity.access_key_id,
            "secret_key": identity.secret_access_key,
            "ear": "ear",
            "voice": "voice",
        }
        process = await asyncio.create_subprocess_exec(
            *(str(python), str(PROGRAM)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={"SSL_CERT_FILE": str(tls.ca_bundle), "PATH": os.defpath},
        )
        try:
            output, errors = await asyncio.wait_for(process.communicate(json.dumps(told).encode() + b"\n"), DEADLINE)
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
    assert process.returncode == 0, errors.decode()
    answer = json.loads(output)
    assert answer["release"].startswith(f"{release}.")
    assert answer["heard"].split() == [f"w{number}" for number in range(12)]  # a word for each 240 ms of 3 s
    assert answer["spoken"] == 4 * 12_000  # a tone of a quarter second, 24 kHz, for each word
