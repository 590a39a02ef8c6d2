"""A stand-in vLLM behind a data plane, each a process; a wire between it and the client that can be cut."""

import asyncio
import random
import wave
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.server_process import announced, answers, free_port, server_process
from voice_client.transport import Identity, StaticIdentity, StreamTarget, VoiceTransport

MODEL = "mistralai/Voxtral-Mini-4B-Realtime-2602"
RATE = 16_000
RECORDINGS = Path(__file__).parents[2] / "recordings"


@dataclass(frozen=True, slots=True)
class Platform:
    """A data plane in front of one container."""

    port: int
    ca_bundle: Path
    identity: StaticIdentity
    region: str

    def transport(self, port: int | None = None) -> VoiceTransport:
        """Return a transport to it, or to a wire that leads there."""
        url = f"https://127.0.0.1:{port or self.port}"
        return VoiceTransport(StreamTarget("ear", self.region, url, self.ca_bundle), identity=self.identity)


@pytest.fixture(scope="session")
def vllm_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """A stand-in vLLM whose engine says `w{n}` for each 240 ms of audio."""
    port = free_port()
    server = ["-m", "voice_local.containers.stand_in_vllm", "serve", MODEL, "--port", str(port)]
    log = tmp_path_factory.mktemp("vllm") / "log"
    with server_process(*server, log=log, ready=answers(port, "/health"), VOICE_LOCAL_STT_ENGINE="deterministic"):
        yield port


@pytest.fixture
def platform_for(tmp_path: Path) -> Iterator[Callable[[int], Platform]]:
    """Start a data plane in front of a container's port."""
    with ExitStack() as stack:

        def start(container_port: int) -> Platform:
            log = tmp_path / f"plane-{container_port}.log"
            plane = ["-m", "voice_local.data_plane", "--container-port", str(container_port), "--endpoint-name", "ear"]
            running = server_process(*plane, "--accept-seconds", "20", log=log, ready=lambda: announced(log))
            stack.enter_context(running)
            said = announced(log)
            assert said is not None
            identity = StaticIdentity(Identity(said["access_key"], said["secret_key"]))
            return Platform(int(said["url"].rsplit(":", 1)[1]), Path(said["ca_bundle"]), identity, said["region"])

        yield start


class Wire:
    """A TCP relay whose connections can be reset."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._ends: set[asyncio.StreamWriter] = set()
        self.port = 0
        self.cuts = 0

    def cut(self) -> None:
        """Reset all connections."""
        self.cuts += 1
        for end in self._ends:
            end.transport.abort()
        self._ends.clear()

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Wire"]:
        tasks: set[asyncio.Task[None]] = set()

        async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            there_reader, there_writer = await asyncio.open_connection("127.0.0.1", self._target)
            self._ends |= {writer, there_writer}
            for source, sink in ((reader, there_writer), (there_reader, writer)):
                task = asyncio.create_task(self._pump(source, sink))
                tasks.add(task)
                task.add_done_callback(tasks.discard)

        server = await asyncio.start_server(relay, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()
            self.cut()
            await asyncio.gather(*tasks, return_exceptions=True)

    @staticmethod
    async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(65_536):
                sink.write(data)
                await sink.drain()
        except ConnectionError:
            pass
        sink.transport.abort()


@pytest.fixture
def make_wire() -> Callable[[int], object]:
    """Put a wire that can be cut in front of a port: `async with make_wire(port) as wire`."""
    return lambda port: Wire(port).running()


def _ten_minutes(seed: int) -> bytes:
    """Clips of one reader in random order, with pauses of a quiet room between them, as PCM16 at 16 kHz."""
    clips = []
    for path in sorted(RECORDINGS.glob("*.wav")):
        with wave.open(str(path)) as file:
            assert (file.getframerate(), file.getnchannels()) == (RATE, 1)
            clips.append(np.frombuffer(file.readframes(file.getnframes()), "<i2"))
    draw = random.Random(seed)  # noqa: S311 - a test's own order
    room = np.random.default_rng(seed)
    pieces: list[Any] = []
    while sum(map(len, pieces)) < 600 * RATE:
        pieces.append(draw.choice(clips))
        pieces.append(np.rint(room.normal(0, 20, int(draw.uniform(0.2, 3.0) * RATE))).astype("<i2"))
    return np.concatenate(pieces)[: 600 * RATE].astype("<i2").tobytes()


@pytest.fixture(scope="session")
def ten_minutes() -> Callable[[int], bytes]:
    """Make ten minutes of speech: clips of one reader in an order drawn by a seed, pauses between them."""
    return _ten_minutes
