"""A real data plane and a real container, each a process; and proof that a test leaves nothing behind."""

import asyncio
import gc
import json
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import pytest

from voice_client.transport import Identity, StaticIdentity, StreamTarget, TransportSettings, VoiceTransport

HERE = Path(__file__).parent
READY_SECONDS = 20


def start(script: str, *arguments: str, folder: Path) -> tuple[subprocess.Popen[str], str]:
    """Start a script of this folder; return the process and the first line it prints."""
    with (folder / f"{script}.log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, str(HERE / script), *arguments], stdout=subprocess.PIPE, stderr=log, text=True
        )
    assert process.stdout is not None
    ready, _, _ = select.select([process.stdout], [], [], READY_SECONDS)
    line = process.stdout.readline() if ready else ""
    if not line:
        process.kill()
        process.wait()
        pytest.fail(f"{script} did not start: {(folder / f'{script}.log').read_text()[-2000:]}")
    process.stdout.close()
    return process, line


def stop(process: subprocess.Popen[str]) -> None:
    for number in (signal.SIGCONT, signal.SIGKILL):
        if process.poll() is None:
            process.send_signal(number)
    process.wait()


@dataclass
class Platform:
    """A data plane that runs."""

    process: subprocess.Popen[str]
    url: str
    ca_bundle: Path
    identity: StaticIdentity
    region: str

    @property
    def port(self) -> int:
        return int(self.url.rsplit(":", 1)[1])

    def target(self, endpoint_name: str = "ear", **changes: Any) -> StreamTarget:
        values: dict[str, Any] = {"endpoint_url": self.url, "ca_bundle": self.ca_bundle} | changes
        return StreamTarget(endpoint_name, self.region, **values)

    def transport(self, endpoint_name: str = "ear", **settings: Any) -> VoiceTransport:
        return VoiceTransport(
            self.target(endpoint_name), settings=TransportSettings(**settings), identity=self.identity
        )

    def kill(self) -> None:
        self.process.kill()

    def freeze(self) -> None:
        self.process.send_signal(signal.SIGSTOP)


@pytest.fixture(scope="session")
def container_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    process, line = start("container_process.py", folder=tmp_path_factory.mktemp("container"))
    yield int(line)
    stop(process)


@pytest.fixture(scope="session")
def hostile_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """URL and CA bundle of the server that breaks the rules."""
    folder = tmp_path_factory.mktemp("hostile")
    process, line = start("hostile_process.py", str(folder / "ca.pem"), folder=folder)
    yield f"https://127.0.0.1:{int(line)}", folder / "ca.pem"
    stop(process)


@pytest.fixture(scope="session")
def start_platform(tmp_path_factory: pytest.TempPathFactory, container_port: int) -> Iterator[Callable[..., Platform]]:
    processes = []

    def begin(**settings: Any) -> Platform:
        folder = tmp_path_factory.mktemp("platform")
        arguments = ["--container-port", str(container_port), "--folder", str(folder)]
        process, line = start("platform_process.py", *arguments, "--settings", json.dumps(settings), folder=folder)
        processes.append(process)
        said = json.loads(line)
        identity = StaticIdentity(Identity(said["access_key"], said["secret_key"]))
        return Platform(process, said["url"], Path(said["ca_bundle"]), identity, said["region"])

    yield begin
    for process in processes:
        stop(process)


@pytest.fixture(scope="session")
def platform(start_platform: Callable[..., Platform]) -> Platform:
    """A data plane shared by the tests that leave it as it is."""
    return start_platform()


@pytest.fixture
def own_platform(start_platform: Callable[..., Platform]) -> Iterator[Platform]:
    """A data plane for one test, which may kill or freeze it."""
    platform = start_platform(accept_seconds=20.0)
    yield platform
    stop(platform.process)


@pytest.fixture(autouse=True)
def no_configuration(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No AWS setting of the developer's machine reaches a test, and none leads to AWS."""
    for name in list(os.environ):
        if name.startswith("AWS_") or name == "SSL_CERT_FILE":
            monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "no-config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "no-credentials"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@pytest.fixture(autouse=True)
async def nothing_left() -> AsyncIterator[None]:
    """Fail a test that leaves a task, a descriptor or a thread, or an unheard exception."""
    unheard: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unheard.append(str(context)))
    tasks = asyncio.all_tasks()
    descriptors = _descriptors()
    threads = _threads()
    gc.freeze()  # what was there before need not be searched each time
    yield
    assert not _new_tasks(tasks)
    gc.collect()  # what nobody retrieved speaks up
    gc.unfreeze()
    assert not unheard
    for _ in range(100):  # a thread of `call_blocking` may be on its way out
        if _threads() <= threads and not _descriptors() - descriptors:
            break
        await asyncio.sleep(0.02)
    assert sorted(_descriptors() - descriptors) == []
    assert _threads() <= threads, [thread.name for thread in threading.enumerate()]


def _new_tasks(known: set[asyncio.Task[Any]]) -> set[asyncio.Task[Any]]:
    return {task for task in asyncio.all_tasks() - known if task is not asyncio.current_task()}


def _descriptors() -> set[str]:
    # With what each one is, for a number alone may be reused.
    found = set()
    for entry in Path("/dev/fd").iterdir():
        try:
            what = entry.readlink()
        except OSError:
            continue  # the listing's own
        if what != Path("/dev/urandom"):  # botocore loads the CRT where it is installed; that opens it once a process
            found.add(f"{entry.name} {what}")
    return found


def _threads() -> int:
    tasks = Path("/proc/self/task")
    return len(list(tasks.iterdir())) if tasks.exists() else threading.active_count()


class Proxy:
    """A TCP proxy that can go silent, or cut its connections with RST."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._silent = False
        self._writers: list[asyncio.StreamWriter] = []
        self._pumps: set[asyncio.Task[None]] = set()
        self.connections = 0

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        self.cut()
        for pump in tuple(self._pumps):
            pump.cancel()
        if self._pumps:
            await asyncio.wait(self._pumps)

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    def go_silent(self) -> None:
        """Take no more bytes from either side, and close nothing."""
        self._silent = True

    def cut(self) -> None:
        for writer in self._writers:
            writer.transport.abort()

    def speak_again(self) -> None:
        """Serve connections made from now on; those that fell silent stay so."""
        self._silent = False

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        there_reader, there_writer = await asyncio.open_connection("127.0.0.1", self._port)
        self._writers += [writer, there_writer]
        for source, sink in ((reader, there_writer), (there_reader, writer)):
            pump = asyncio.create_task(self._pump(source, sink))
            self._pumps.add(pump)
            pump.add_done_callback(self._pumps.discard)

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(65536):
                if self._silent:
                    await asyncio.get_running_loop().create_future()
                sink.write(data)
                await sink.drain()
        except ConnectionError:
            pass
        sink.transport.abort()


@pytest.fixture
async def proxy(platform: Platform) -> AsyncIterator[Proxy]:
    async with Proxy(platform.port) as proxy:
        yield proxy


@pytest.fixture
async def own_proxy(own_platform: Platform) -> AsyncIterator[Proxy]:
    async with Proxy(own_platform.port) as proxy:
        yield proxy
