"""What the client's transport costs, beside raw `websockets` and beside the AWS SDK with its stock transport.

    python benchmarks/client.py [--rounds 5] [--exchanges 300] [--streams 50,100,120] [--seconds 5]
                                [--ways client,raw,stock] [--parts pingpong,cpu,streams] [--json]

Three processes share the machine: a container (a WebSocket that answers each text message of 5.5 KB with a binary one
of 4 KB, about what 250 ms of speech take up and down), the local data plane in front of it, and this one. The three
ways take turns in short rounds, so that what else the machine does hits all of them:

    client   voice_client's transport, over the data plane: HTTP/2, TLS, every event signed
    stock    the same SDK with the transport it brings, over the same data plane
    raw      `websockets` straight to the container: no TLS, no signatures, no data plane

Measured for each: a ping-pong (one message up, one down, and so on; median and 99th percentile over all rounds), the
CPU time of this process for one message sent (one way, nothing comes back until the end), and how many streams of 8
messages a second it holds at once with a 99th percentile of at most 30 ms, counted from when each message was due.
CPU times hold on a busy machine; latencies do not, and the data plane's share of them is in `client` and `stock`.
"""

import argparse
import asyncio
import contextlib
import gc
import json
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

from aws_sdk_sagemaker_runtime_http2 import models  # type: ignore[import-untyped]
from aws_sdk_sagemaker_runtime_http2.client import AsyncSageMakerRuntimeHTTP2Client  # type: ignore[import-untyped]
from aws_sdk_sagemaker_runtime_http2.config import AsyncSageMakerRuntimeHTTP2Config  # type: ignore[import-untyped]
from smithy_aws_core.identity.components import AWSCredentialsIdentity
from smithy_http.aio.crt import AWSCRTHTTPClient, AWSCRTHTTPClientConfig
from websockets.asyncio.client import ClientConnection, connect
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from voice_client.transport import BidiStream, Identity, StaticIdentity, StreamTarget, VoiceTransport

UP = "x" * 5_500
DOWN = bytes(4_000)
RATE = 8.0
GOALS = {"pingpong_p99_ms": 3.0, "cpu_us_per_message": 150.0, "streams_held": 100, "held_p99_ms": 30.0}
WAYS = ("client", "raw", "stock")
PARTS = ("pingpong", "cpu", "streams")
STEP_SECONDS = 60.0
"""Longest time of one step of the measurement; a step that takes longer has failed."""


class Stream(Protocol):
    """One open stream of any of the three ways."""

    async def send(self, text: str) -> None: ...

    async def receive(self) -> str | bytes: ...


type Opening = Callable[[str], "contextlib.AbstractAsyncContextManager[Stream]"]
"""Opens a stream to a path of the container."""


@dataclass
class Measured:
    """The figures of one way."""

    pingpong_p50_ms: float = 0.0
    pingpong_p99_ms: float = 0.0
    pingpong_cpu_us: float = 0.0
    """CPU time of this process for one message up and one down."""
    cpu_us_per_message: float = 0.0
    """CPU time of this process for one message sent, one way."""
    one_way_per_second: float = 0.0
    streams_held: int = 0
    held_p99_ms: float = 0.0
    """99th percentile at that number of streams."""
    first_failed: str = ""
    """What was too much: number of streams and the percentile there."""


@dataclass
class Rounds:
    """Raw results of one way."""

    latencies: list[float] = field(default_factory=list)
    pingpong_cpu: float = 0.0
    one_way_cpu: float = 0.0
    one_way_seconds: float = 0.0
    one_way_messages: int = 0


async def behave(connection: ServerConnection) -> None:
    """Be the container: `/answer` answers each message, `/count` only the last one."""
    path = connection.request.path if connection.request is not None else ""
    with contextlib.suppress(ConnectionClosed):
        async for message in connection:
            if "count" not in path or message == "last":
                await connection.send(DOWN)


async def serve_container() -> None:
    """Serve until the process ends; prints the port."""
    async with serve(behave, "127.0.0.1", 0, compression=None, max_size=None) as server:
        print(server.sockets[0].getsockname()[1], flush=True)
        await asyncio.get_running_loop().create_future()


@contextmanager
def first_line(arguments: list[str], log: Path) -> Iterator[str]:
    """Run a process; gives the first line it prints."""
    with (
        log.open("wb") as errors,
        subprocess.Popen([sys.executable, *arguments], stdout=subprocess.PIPE, stderr=errors, text=True) as process,
    ):
        try:
            line = process.stdout.readline() if process.stdout is not None else ""
            if not line:
                raise SystemExit(f"{arguments} did not start: {log.read_text()[-2000:]}")
            yield line
        finally:
            process.kill()


class RawStream:
    """A WebSocket."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket

    async def send(self, text: str) -> None:
        await self._socket.send(text)

    async def receive(self) -> str | bytes:
        return await self._socket.recv()


def raw_way(port: int) -> Opening:
    """Return the way without anything in between."""

    @asynccontextmanager
    async def opening(path: str) -> AsyncIterator[Stream]:
        uri = f"ws://127.0.0.1:{port}/{path}"
        async with connect(uri, compression=None, max_size=None, close_timeout=1, ping_interval=None) as socket:
            yield RawStream(socket)

    return opening


class ClientStream:
    """A stream of the client's transport."""

    def __init__(self, stream: BidiStream) -> None:
        self._stream = stream

    async def send(self, text: str) -> None:
        await self._stream.send_text(text)

    async def receive(self) -> str | bytes:
        return await anext(self._stream)


@asynccontextmanager
async def client_way(plane: dict[str, str]) -> AsyncIterator[Opening]:
    """Return the way over the client's transport; its streams share connections."""
    target = StreamTarget(plane["endpoint"], plane["region"], plane["url"], Path(plane["ca_bundle"]))
    identity = StaticIdentity(Identity(plane["access_key"], plane["secret_key"]))
    async with VoiceTransport(target, identity=identity) as transport:

        @asynccontextmanager
        async def opening(path: str) -> AsyncIterator[Stream]:
            async with await transport.open_stream(path) as stream:
                yield ClientStream(stream)

        yield opening


class StockStream:
    """A stream of the SDK as it comes."""

    def __init__(self, publisher: Any, receiver: Any) -> None:
        self._publisher = publisher
        self._receiver = receiver

    async def send(self, text: str) -> None:
        part = models.RequestPayloadPart(bytes_=text.encode(), data_type="UTF8", completion_state="COMPLETE")
        await self._publisher.send(models.RequestStreamEventPayloadPart(value=part))

    async def receive(self) -> bytes:
        data: bytes = (await self._receiver.receive()).value.bytes_
        return data


@asynccontextmanager
async def stock_way(plane: dict[str, str]) -> AsyncIterator[Opening]:
    """Return the way over the SDK's own transport."""

    class Resolver:
        async def get_identity(self, *, properties: Any) -> AWSCredentialsIdentity:
            return AWSCredentialsIdentity(access_key_id=plane["access_key"], secret_access_key=plane["secret_key"])

    config = await AsyncSageMakerRuntimeHTTP2Config.resolve(
        region=plane["region"],
        endpoint_uri=plane["url"],
        transport=AWSCRTHTTPClient(client_config=AWSCRTHTTPClientConfig(force_http_2=True)),
        aws_credentials_identity_resolver=Resolver(),
    )
    client = AsyncSageMakerRuntimeHTTP2Client(config=config)

    @asynccontextmanager
    async def opening(path: str) -> AsyncIterator[Stream]:
        call = await client.invoke_endpoint_with_bidirectional_stream(
            models.InvokeEndpointWithBidirectionalStreamInput(
                endpoint_name=plane["endpoint"], model_invocation_path=path
            )
        )
        _, receiver = await call.await_output()
        try:
            yield StockStream(call.input_stream, receiver)
        finally:
            with contextlib.suppress(Exception):  # the stock transport raises what it will
                async with asyncio.timeout(5):
                    await call.close()

    yield opening


async def pingpong(opening: Opening, exchanges: int, rounds: Rounds) -> None:
    """Send a message when the answer to the last one has come."""
    gc.collect()  # what another way left behind is not this one's
    async with asyncio.timeout(STEP_SECONDS), opening("answer") as stream:
        for _ in range(20):
            await stream.send(UP)
            await stream.receive()
        cpu = time.process_time()
        for _ in range(exchanges):
            began = time.perf_counter()
            await stream.send(UP)
            await stream.receive()
            rounds.latencies.append(time.perf_counter() - began)
        rounds.pingpong_cpu += time.process_time() - cpu


async def one_way(opening: Opening, messages: int, rounds: Rounds) -> None:
    """Send as fast as it goes, until the container says that it has all of it."""
    gc.collect()
    async with asyncio.timeout(STEP_SECONDS), opening("count") as stream:
        cpu, began = time.process_time(), time.perf_counter()
        for _ in range(messages):
            await stream.send(UP)
        await stream.send("last")
        await stream.receive()
        rounds.one_way_cpu += time.process_time() - cpu
        rounds.one_way_seconds += time.perf_counter() - began
        rounds.one_way_messages += messages


async def paced(opening: Opening, streams: int, seconds: float) -> list[float]:
    """Hold streams of 8 messages a second; returns how long after it was due each answer came."""
    gc.collect()
    late: list[float] = []
    start = time.perf_counter() + 1.0 + streams * 0.02

    async def one(offset: float) -> None:
        async with opening("answer") as stream:
            due = [start + offset + number / RATE for number in range(int(seconds * RATE))]

            async def answers() -> None:
                for moment in due:
                    await stream.receive()
                    if moment - start > 1.0:  # the first second warms up
                        late.append(time.perf_counter() - moment)

            reading = asyncio.create_task(answers())
            for moment in due:
                await asyncio.sleep(max(0.0, moment - time.perf_counter()))
                await stream.send(UP)
            await reading

    async with asyncio.timeout(seconds * 2 + STEP_SECONDS), asyncio.TaskGroup() as tasks:
        for _ in range(streams):
            tasks.create_task(one(random.random() / RATE))  # noqa: S311 - no secret
    return late


def percentile(values: list[float], share: float) -> float:
    """Return a percentile of seconds, in milliseconds."""
    return sorted(values)[min(len(values) - 1, int(len(values) * share))] * 1000


async def hold(opening: Opening, counts: list[int], seconds: float, result: Measured) -> None:
    """Find the most streams that are served in time."""
    for count in counts:
        try:
            p99 = percentile(await paced(opening, count, seconds), 0.99)
        except (Exception, BaseExceptionGroup) as error:  # noqa: BLE001 - any failure is too many streams
            result.first_failed = f"{count} streams: {type(error).__name__}"
            return
        if p99 > GOALS["held_p99_ms"]:
            result.first_failed = f"{count} streams: p99 {p99:.1f} ms"
            return
        result.streams_held, result.held_p99_ms = count, round(p99, 2)


async def measure(options: argparse.Namespace, container_port: int, plane: dict[str, str]) -> dict[str, Measured]:
    """Let the three ways take turns."""
    counts = [int(count) for count in options.streams.split(",")]
    found = {name: Measured() for name in options.ways}
    async with client_way(plane) as client, stock_way(plane) as stock:
        every = {"client": client, "raw": raw_way(container_port), "stock": stock}
        ways = {name: every[name] for name in options.ways}
        rounds = {name: Rounds() for name in ways}
        for _ in range(options.rounds):
            for name, way in ways.items():
                if "pingpong" in options.parts:
                    await pingpong(way, options.exchanges, rounds[name])
                if "cpu" in options.parts:
                    await one_way(way, options.exchanges if name == "stock" else 4 * options.exchanges, rounds[name])
        for name, way in ways.items():
            summarize(rounds[name], found[name])
            if "streams" in options.parts:
                await hold(way, counts, options.seconds, found[name])
    return found


def summarize(rounds: Rounds, result: Measured) -> None:
    """Put the figures of what was measured into `result`."""
    if rounds.latencies:
        result.pingpong_p50_ms = round(statistics.median(rounds.latencies) * 1000, 3)
        result.pingpong_p99_ms = round(percentile(rounds.latencies, 0.99), 3)
        result.pingpong_cpu_us = round(rounds.pingpong_cpu / len(rounds.latencies) * 1e6, 1)
    if rounds.one_way_messages:
        result.cpu_us_per_message = round(rounds.one_way_cpu / rounds.one_way_messages * 1e6, 1)
        result.one_way_per_second = round(rounds.one_way_messages / rounds.one_way_seconds)


def show(found: dict[str, Measured]) -> None:
    """Print a table and whether the goals are met."""
    names = list(found)
    print(f"{'':22}" + "".join(f"{name:>12}" for name in names))
    for key in asdict(Measured()):
        print(f"{key:22}" + "".join(f"{asdict(found[name])[key]!s:>12}" for name in names))
    if "client" not in found:
        return
    client = found["client"]
    print(
        f"goals: ping-pong p99 {client.pingpong_p99_ms} ms of {GOALS['pingpong_p99_ms']}, "
        f"CPU {client.cpu_us_per_message} us of {GOALS['cpu_us_per_message']}, "
        f"{client.streams_held} streams of {GOALS['streams_held']}"
    )


def subset(known: Sequence[str]) -> Callable[[str], list[str]]:
    """Return a parser of comma-separated names that are known."""

    def parse(given: str) -> list[str]:
        names = given.split(",")
        if unknown := [name for name in names if name not in known]:
            raise argparse.ArgumentTypeError(f"unknown: {', '.join(unknown)}; there are {', '.join(known)}")
        return names

    return parse


def main() -> None:
    """Start the processes and measure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--rounds", type=int, default=5, help="turns of each way (default: 5)")
    parser.add_argument("--exchanges", type=int, default=300, help="ping-pongs in a round (default: 300)")
    parser.add_argument("--streams", default="50,100,120", help="numbers of paced streams, rising")
    parser.add_argument("--seconds", type=float, default=5.0, help="length of a run of paced streams (default: 5)")
    parser.add_argument("--ways", type=subset(WAYS), default=WAYS, help=f"some of {','.join(WAYS)} (default: all)")
    parser.add_argument("--parts", type=subset(PARTS), default=PARTS, help=f"some of {','.join(PARTS)} (default: all)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--container", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.container:
        asyncio.run(serve_container())
        return
    with (
        tempfile.TemporaryDirectory() as folder,
        first_line([__file__, "--container"], Path(folder, "container.log")) as port,
        first_line(
            ["-m", "voice_local.data_plane", "--container-port", port.strip(), "--endpoint-name", "bench-voice"],
            Path(folder, "plane.log"),
        ) as ready,
    ):
        plane = json.loads(re.findall(r"\{.*\}", ready)[0])
        # The stock transport takes authorities from here only; nothing else of AWS is to be read.
        os.environ["SSL_CERT_FILE"] = plane["ca_bundle"]
        os.environ["AWS_EC2_METADATA_DISABLED"] = "true"
        found = asyncio.run(measure(options, int(port), plane))
    if options.json:
        client = asdict(found.pop("client")) if "client" in found else {}
        print(json.dumps({**client, **{name: asdict(result) for name, result in found.items()}}))
    else:
        show(found)


if __name__ == "__main__":
    main()
