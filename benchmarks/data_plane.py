"""What the local data plane adds to a round trip, with many streams at once.

    python benchmarks/data_plane.py [--streams 100] [--rate 8] [--seconds 20] [--json]

Three processes share the machine: a container that answers each text message (5.5 KB, about what 250 ms of audio take
as JSON) with a binary one (4 KB), the data plane in front of it, and the load. The load runs twice with the same
schedule: over the data plane with a bare HTTP/2 client, every event signed, and straight to the container over
WebSocket. The difference of the two is what the data plane (and HTTP/2 and the signatures in the client) adds.

The goal is an added p99 of at most 40 ms for 100 streams of 8 messages a second on 2 cores. CPU times are the data
plane's own and hold on a machine that is busy with other things; latencies do not.
"""

import argparse
import asyncio
import contextlib
import json
import os
import random
import statistics
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import psutil
from websockets.asyncio.client import connect
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import WebSocketException

from tests.local.data_plane.bare_client import BareConnection, Signer, bare_connection

ENDPOINT = "bench-voice"
UP = "x" * 5_500
DOWN = bytes(4_000)
WARM_UP_SECONDS = 2.0
WINDOW = 16 * 1024 * 1024
GOAL_MS = 40.0

type Answer = Callable[[], Awaitable[object]]


@dataclass
class Load:
    """What one run sends."""

    streams: int
    rate: float
    seconds: float

    @property
    def deadline(self) -> float:
        """Seconds after which a stream counts as failed, however slow the machine is."""
        return self.seconds * 3 + 30


@dataclass
class Measured:
    """Round trips of one run, in seconds."""

    round_trips: list[float]
    errors: int

    def describe(self) -> dict[str, float]:
        cuts = statistics.quantiles(self.round_trips, n=1000)
        milliseconds = {"p50": cuts[499], "p95": cuts[949], "p99": cuts[989], "max": max(self.round_trips)}
        return {name: round(value * 1000, 2) for name, value in milliseconds.items()}


async def talk(send: Answer, receive: Answer, load: Load, phase: float, measured: Measured) -> None:
    """Send on schedule whatever comes back, and measure each answer; answers come in order."""
    sent: asyncio.Queue[float] = asyncio.Queue()
    started = time.perf_counter()

    async def write() -> None:
        for number in range(int(load.seconds * load.rate)):
            await asyncio.sleep(max(0.0, started + phase + number / load.rate - time.perf_counter()))
            sent.put_nowait(time.perf_counter())
            await send()

    async def read() -> None:
        for _ in range(int(load.seconds * load.rate)):
            await receive()
            now = time.perf_counter()
            if (since := sent.get_nowait()) >= started + WARM_UP_SECONDS:
                measured.round_trips.append(now - since)

    try:
        async with asyncio.timeout(load.deadline), asyncio.TaskGroup() as group:
            group.create_task(write())
            group.create_task(read())
    except* (AssertionError, OSError, TimeoutError, WebSocketException) as failure:
        measured.errors += 1
        print("stream failed:", *map(repr, failure.exceptions), file=sys.stderr)


def phases(load: Load) -> list[float]:
    draws = random.Random(1)  # noqa: S311 - no secret
    return [draws.uniform(0, 1 / load.rate) for _ in range(load.streams)]


async def over_data_plane(ready: dict[str, Any], load: Load) -> Measured:
    measured = Measured([], 0)
    signer = Signer(ready["access_key"], ready["secret_key"], ready["region"])
    async with bare_connection(ready["url"], Path(ready["ca_bundle"]), signer) as connection:
        connection.deadline = load.deadline
        # The default of 64 KiB for all streams together would be measured instead: a hundred streams fill it in 20 ms.
        connection.h2.increment_flow_control_window(WINDOW)
        streams = [await opened(connection) for _ in range(load.streams)]

        async def run(stream: Any, phase: float) -> None:
            await talk(lambda: stream.send(UP.encode(), DataType="UTF8"), stream.next_event, load, phase, measured)
            await stream.end_input()
            await stream.end()

        async with asyncio.TaskGroup() as group:
            for stream, phase in zip(streams, phases(load), strict=True):
                group.create_task(run(stream, phase))
    return measured


async def opened(connection: BareConnection) -> Any:
    stream = await connection.open(ENDPOINT)
    if await stream.response() != 200:
        raise RuntimeError(f"refused: {stream.status} {bytes(stream.body)!r}")
    return stream


async def straight(port: int, load: Load) -> Measured:
    measured = Measured([], 0)
    async with contextlib.AsyncExitStack() as held:
        sockets = [
            await held.enter_async_context(connect(f"ws://127.0.0.1:{port}/", compression=None, proxy=None))
            for _ in range(load.streams)
        ]
        async with asyncio.TaskGroup() as group:
            for websocket, phase in zip(sockets, phases(load), strict=True):
                group.create_task(talk(lambda ws=websocket: ws.send(UP), websocket.recv, load, phase, measured))  # type: ignore[misc]
    return measured


async def container() -> None:
    """Be the container: print the port, answer every message with the same bytes."""

    async def answer(websocket: ServerConnection) -> None:
        async for _ in websocket:
            await websocket.send(DOWN)

    async with serve(answer, "127.0.0.1", 0, compression=None, max_size=None, ping_interval=None) as server:
        print(next(iter(server.sockets)).getsockname()[1], flush=True)
        await asyncio.get_running_loop().create_future()


@contextlib.asynccontextmanager
async def process(*arguments: str) -> AsyncIterator[tuple[psutil.Process, str]]:
    """Run a Python program; yields its process and the first line it prints."""
    child = await asyncio.create_subprocess_exec(
        sys.executable, *arguments, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
    )
    try:
        reader = cast("asyncio.StreamReader", child.stdout)
        line = await asyncio.wait_for(reader.readline(), 60)
        yield psutil.Process(child.pid), line.decode()
    finally:
        child.terminate()
        await asyncio.wait_for(child.wait(), 30)


def cpu_seconds(measured: psutil.Process) -> float:
    times = measured.cpu_times()
    return float(times.user + times.system)


async def benchmark(load: Load) -> dict[str, Any]:
    async with process(__file__, "--container") as (_, port):
        options = ("--container-port", port.strip(), "--endpoint-name", ENDPOINT, "--accept-seconds", "5")
        async with process("-m", "voice_local.data_plane", *options) as (plane, line):
            before, cpu_before, own_before = time.perf_counter(), cpu_seconds(plane), time.process_time()
            through = await over_data_plane(json.loads(line), load)
            cpu, seconds = cpu_seconds(plane) - cpu_before, time.perf_counter() - before
            own = time.process_time() - own_before
        direct = await straight(int(port), load)
    through_ms, direct_ms = through.describe(), direct.describe()
    messages = 2 * int(load.seconds * load.rate) * load.streams
    return {
        "streams": load.streams,
        "messages_per_second_per_stream": load.rate,
        "errors": through.errors + direct.errors,
        "round_trip_ms": through_ms,
        "round_trip_straight_ms": direct_ms,
        "added_ms": {name: round(through_ms[name] - direct_ms[name], 2) for name in through_ms},
        "goal_p99_added_ms": GOAL_MS,
        "goal_met": through_ms["p99"] - direct_ms["p99"] <= GOAL_MS,
        "data_plane_cpu_us_per_message": round(cpu / messages * 1e6, 1),
        "data_plane_cpu_share_of_a_core": round(cpu / seconds, 3),
        "load_cpu_share_of_a_core": round(own / seconds, 3),
        "machine": {"cores": os.cpu_count(), "load_average": [round(value, 2) for value in os.getloadavg()]},
    }


def show(result: dict[str, Any]) -> None:
    print(f"{result['streams']} streams, {result['messages_per_second_per_stream']:g} messages/s each")
    for name in ("round_trip_ms", "round_trip_straight_ms", "added_ms"):
        print(f"  {name:24}" + "  ".join(f"{key} {value:8.2f}" for key, value in result[name].items()))
    share = result["data_plane_cpu_share_of_a_core"]
    print(f"  data plane: {result['data_plane_cpu_us_per_message']} us of CPU a message, {share:.0%} of a core")
    print(f"  the load itself: {result['load_cpu_share_of_a_core']:.0%} of a core")
    verdict = "met" if result["goal_met"] else "missed"
    print(f"  errors: {result['errors']}; goal of {GOAL_MS:g} ms added at p99: {verdict}; load {result['machine']}")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--streams", type=int, default=100)
    parser.add_argument("--rate", type=float, default=8.0, help="messages a second of each stream")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    parser.add_argument("--container", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.container:
        asyncio.run(container())
        return 0
    result = asyncio.run(benchmark(Load(options.streams, options.rate, options.seconds)))
    if options.json:
        print(json.dumps(result, indent=2))
    else:
        show(result)
    return 0 if result["errors"] == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
