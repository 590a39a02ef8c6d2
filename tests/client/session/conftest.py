"""The stand-in servers as processes, sockets that break on demand, and streams straight to them."""

import asyncio
import gc
import json
import signal
import subprocess
import tempfile
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
import websockets
from websockets.asyncio.client import ClientConnection, connect
from websockets.asyncio.server import ServerConnection, serve

from tests.server_process import announced, answers, free_port, server_process
from voice_client.errors import ConnectError, ConnectionLostError
from voice_client.transport import Identity, StaticIdentity, StreamTarget, TransportSettings, VoiceTransport

STT_MODEL = "mistralai/Voxtral-Mini-4B-Realtime-2602"
TTS_MODEL = "Qwen/Qwen3-TTS-12Hz-1.7B-CustomVoice"


class RawStream:
    """A WebSocket without SageMaker in between, as the sessions want a stream."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self.sent: list[str] = []

    async def send_text(self, text: str, /) -> None:
        self.sent.append(text)
        try:
            async with asyncio.timeout(10):
                await self._socket.send(text)
        except websockets.ConnectionClosed as error:
            raise ConnectionLostError("the socket is closed") from error

    async def __aiter__(self) -> AsyncIterator[str | bytes]:
        try:
            async for message in self._socket:
                yield message
        except websockets.ConnectionClosed as error:
            raise ConnectionLostError("the socket broke") from error

    async def end_input(self) -> None:
        return

    async def close(self) -> None:
        await self._socket.close()


@dataclass
class RawEndpoint:
    """Opens streams to one address, and remembers them."""

    url: str
    streams: list[RawStream] = field(default_factory=list)

    async def __call__(self) -> RawStream:
        try:
            socket = await connect(self.url, compression=None, max_size=None, close_timeout=1, open_timeout=5)
        except OSError as error:
            raise ConnectError(f"nothing listens: {error.strerror}") from error
        except (websockets.InvalidMessage, websockets.InvalidStatus, TimeoutError) as error:
            raise ConnectError("the handshake failed") from error
        self.streams.append(RawStream(socket))
        return self.streams[-1]


@dataclass
class Server:
    """A stand-in server that runs."""

    process: subprocess.Popen[bytes]
    port: int
    path: str
    log: Path

    def endpoint(self, port: int | None = None) -> RawEndpoint:
        return RawEndpoint(f"ws://127.0.0.1:{port or self.port}/{self.path}")

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(10)


@contextmanager
def _running(*arguments: str, port: int, path: str, **environment: str) -> Iterator[Server]:
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "server.log"
        ready = answers(port, "/health")
        with server_process("-m", *arguments, log=log, ready=ready, **environment) as process:
            yield Server(process, port, path, log)


def _stt_server() -> AbstractContextManager[Server]:
    port = free_port()
    return _running(
        *("voice_local.containers.stand_in_vllm", "serve", STT_MODEL, "--port", str(port)),
        port=port,
        path="v1/realtime",
        VOICE_LOCAL_STT_ENGINE="deterministic",
    )


@pytest.fixture(scope="session")
def stt_server() -> Iterator[Server]:
    """A stand-in vLLM whose engine says `w{n}` for each 240 ms of audio."""
    with _stt_server() as server:
        yield server


@pytest.fixture
def mortal_stt_server() -> Iterator[Server]:
    """A stand-in vLLM for one test, which may kill it."""
    with _stt_server() as server:
        yield server


@pytest.fixture(scope="session")
def tts_server() -> Iterator[Server]:
    """A stand-in vLLM-Omni whose engine plays 0.25 s for each word."""
    port = free_port()
    with _running(
        *("voice_local.containers.stand_in_omni", "serve"),
        port=port,
        path="v1/audio/speech/stream",
        VOICE_LOCAL_TTS_ENGINE="deterministic",
        SM_VLLM_MODEL=TTS_MODEL,
        SAGEMAKER_BIND_TO_PORT=str(port),
    ) as server:
        yield server


@dataclass
class FaultyPlane:
    """A data plane, and the route by which things are made to go wrong on it."""

    ready: dict[str, str]

    def arm(self, fault: str) -> None:
        self._ask("POST", fault.encode())

    def clear(self) -> None:
        self._ask("DELETE")

    def fired(self) -> int:
        return len(json.loads(self._ask("GET"))["fired"])

    def transport(self, deadlines: TransportSettings) -> VoiceTransport:
        ready = self.ready
        target = StreamTarget(ready["endpoint"], ready["region"], ready["url"], Path(ready["ca_bundle"]))
        identity = StaticIdentity(Identity(ready["access_key"], ready["secret_key"]))
        return VoiceTransport(target, settings=deadlines, identity=identity)

    def _ask(self, method: str, body: bytes | None = None) -> bytes:
        request = urllib.request.Request(self.ready["faults_url"], data=body, method=method)  # noqa: S310 - loopback
        request.add_header("authorization", f"Bearer {self.ready['admin_token']}")
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=10) as answer:
            data: bytes = answer.read()
            return data


type PlaneBefore = Callable[[Server, str], AbstractContextManager[FaultyPlane]]


@pytest.fixture(scope="session")
def plane_before(tmp_path_factory: pytest.TempPathFactory) -> PlaneBefore:
    """Start a data plane before a server: `with plane_before(server, "name of the endpoint") as plane`."""

    @contextmanager
    def start(server: Server, name: str) -> Iterator[FaultyPlane]:
        log = tmp_path_factory.mktemp("plane") / "log"
        plane = ["voice_local.data_plane", "--container-port", str(server.port), "--endpoint-name", name]
        limits = ["--accept-seconds", "10", "--receive-window", "65536"]
        with server_process("-m", *plane, *limits, log=log, ready=lambda: announced(log)):
            ready = announced(log)
            assert ready is not None
            yield FaultyPlane(ready)

    return start


class FaultyWire:
    """A TCP relay that breaks: after so many bytes, or by silence."""

    def __init__(self, target: int) -> None:
        self._target = target
        self.port = 0
        self.connections = 0
        self.cut_after_up: list[int] = []
        """For each connection to come: bytes towards the server after which it is reset. Then none is."""
        self.cut_after_down: list[int] = []
        """The same for bytes from the server."""
        self._tasks: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def running(self) -> AsyncIterator["FaultyWire"]:
        server = await asyncio.start_server(self._relay, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        up = self.cut_after_up.pop(0) if self.cut_after_up else None
        down = self.cut_after_down.pop(0) if self.cut_after_down else None
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target)
        pumps = [
            asyncio.create_task(self._pump(reader, far_writer, up)),
            asyncio.create_task(self._pump(far_reader, writer, down)),
        ]
        self._tasks.update(pumps)
        await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        for end in (writer, far_writer):
            end.transport.abort()
        for pump in pumps:
            pump.cancel()

    @staticmethod
    async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, limit: int | None) -> None:
        passed = 0
        while data := await reader.read(4096):
            passed += len(data)
            if limit is not None and passed > limit:
                return
            writer.write(data)
            await writer.drain()


@pytest.fixture
async def stt_wire(stt_server: Server) -> AsyncIterator[FaultyWire]:
    """A wire to the stand-in vLLM that breaks on demand."""
    async with FaultyWire(stt_server.port).running() as wire:
        yield wire


@pytest.fixture
async def tts_wire(tts_server: Server) -> AsyncIterator[FaultyWire]:
    """A wire to the stand-in vLLM-Omni that breaks on demand."""
    async with FaultyWire(tts_server.port).running() as wire:
        yield wire


@pytest.fixture
async def scripted() -> AsyncIterator[
    Callable[[Callable[[ServerConnection], Awaitable[None]]], Awaitable[RawEndpoint]]
]:
    """Start a WebSocket server that behaves as a function says: for what the stand-ins never do."""
    servers = []

    async def start(behave: Callable[[ServerConnection], Awaitable[None]]) -> RawEndpoint:
        server = await serve(behave, "127.0.0.1", 0, max_size=None)
        servers.append(server)
        return RawEndpoint(f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}/")

    yield start
    for server in servers:
        server.close()
        await server.wait_closed()


class Sound:
    """Audio that is in memory: noise that can be heard, different in each chunk."""

    def __init__(self, seconds: float, *, live: bool = False, lead_silence: float = 0.0) -> None:
        noise = np.random.default_rng(5).integers(-8000, 8000, int(seconds * 16_000)).astype("<i2")
        noise[: int(lead_silence * 16_000)] = 0
        self.pcm = noise.tobytes()
        self.live = live

    @asynccontextmanager
    async def open(self, *, rate: int, chunk_bytes: int) -> AsyncIterator[AsyncIterator[bytes]]:
        assert rate == 16_000
        yield _Chunks([self.pcm[at : at + chunk_bytes] for at in range(0, len(self.pcm), chunk_bytes)])


class Pcm(Sound):
    """Audio that is in memory, as it was given."""

    def __init__(self, pcm: bytes, *, live: bool = False) -> None:
        super().__init__(0.0, live=live)
        self.pcm = pcm


class VirtualClock:
    """A clock that passes no real time: who sleeps finds it later at once, and a little too late, as in life."""

    def __init__(self, *, late: float = 0.0) -> None:
        self.time = 1000.0
        self._late = late

    def now(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        self.time += seconds + self._late
        await asyncio.sleep(0)


class _Chunks:
    def __init__(self, chunks: list[bytes]) -> None:
        self._chunks = chunks

    def __aiter__(self) -> "_Chunks":
        return self

    async def __anext__(self) -> bytes:
        if not self._chunks:
            raise StopAsyncIteration
        return self._chunks.pop(0)


@pytest.fixture
def sound() -> type[Sound]:
    """Make audio of a length: `sound(seconds)`."""
    return Sound


@pytest.fixture
def talk() -> Callable[..., Pcm]:
    """Make audio of words and pauses: `talk(2.0, -1.5, 3.0)` is 2 s of sound, 1.5 s of silence, 3 s of sound."""

    def make(*seconds: float, live: bool = False) -> Pcm:
        random = np.random.default_rng(11)
        pieces = [
            random.integers(-8000, 8000, int(length * 16_000)).astype("<i2")
            if length > 0
            else np.zeros(int(-length * 16_000), "<i2")
            for length in seconds
        ]
        return Pcm(np.concatenate(pieces).tobytes(), live=live)

    return make


@pytest.fixture
def virtual_clock() -> VirtualClock:
    """A clock that passes no real time."""
    return VirtualClock()


@pytest.fixture(autouse=True)
async def nothing_left_behind() -> AsyncIterator[None]:
    """Every test ends without a task of the sessions, and without an error that nobody took."""
    complaints: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(str(context)))
    gc.freeze()  # what was there before need not be searched after each test
    yield
    await asyncio.sleep(0)
    gc.collect()
    gc.unfreeze()
    assert [text for text in complaints if "voice-" in text] == []
    left = [task.get_name() for task in asyncio.all_tasks() if task.get_name().startswith("voice-")]
    assert left == []
