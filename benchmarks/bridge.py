"""What the bridge costs: `python benchmarks/bridge.py [--json] [--quick]`.

One upstream (a `websockets` server on loopback) is reached directly, through the bridge, and through a plain bridge of
FastAPI, uvicorn and `websockets` (plain_bridge.py). Every figure is taken in turns in small blocks, so that whatever
else the machine does meets all three alike; "added" is the difference of a bridge's figure to the direct one's, and
p50 and p99 are the medians over the blocks. Each bridge is one process on default settings.

- round trip: a blocking socket sends an `append` of 5.5 KB (four bytes of base64 for three of PCM, 128 ms of audio) and
  waits for the same message to come back
- CPU: user and system time of the bridge's process, from the kernel
- 100 sessions: 8 messages a second each, echoed
- one way: messages of one session to an upstream that counts and says so at the end
- memory: resident, after the first session has come and gone, and with 200 sessions open that each had one message
"""

import argparse
import asyncio
import base64
import json
import os
import socket
import statistics
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any

import psutil
from websockets.asyncio.client import ClientConnection, connect
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

BRIDGE = Path(__file__).resolve().parents[1] / "container_assets" / "voxtral_bridge"
PLAIN_BRIDGE = Path(__file__).with_name("plain_bridge.py")
PATH = "/invocations-bidirectional-stream"
START_TIMEOUT = 60.0
"""Seconds for a process to listen, on a machine that is busy."""
STEP_TIMEOUT = 120.0
"""Seconds for one step of the benchmark; far more than any takes."""

AUDIO = base64.b64encode(bytes(range(256)) * 16).decode()
MESSAGE = json.dumps({"type": "input_audio_buffer.append", "audio": AUDIO})
COUNT = "count"
"""Sent instead of an echo wanted: the upstream only counts from here on, until it hears it again."""


# The upstream, a process of its own


async def _converse(connection: ServerConnection) -> None:
    counted: int | None = None
    with suppress(ConnectionClosed):
        while True:
            message = await connection.recv()
            if message == COUNT:
                if counted is not None:
                    await connection.send(json.dumps({"type": "counted", "messages": counted}))
                counted = 0 if counted is None else None
            elif counted is not None:
                counted += 1
            else:
                await connection.send(message)


def _answer_health(connection: ServerConnection, request: Request) -> Response | None:
    return connection.respond(HTTPStatus.OK, "") if request.path == "/health" else None


async def _serve_upstream(port: int) -> None:
    async with serve(_converse, "127.0.0.1", port, process_request=_answer_health, compression=None, max_size=None):
        await asyncio.get_running_loop().create_future()


# Processes


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def _running(command: list[str], port: int, health: str, **environment: str) -> Iterator[psutil.Process]:
    process = subprocess.Popen(command, env=os.environ | environment, stdout=subprocess.DEVNULL)
    try:
        end = time.monotonic() + START_TIMEOUT
        while True:
            with suppress(OSError, urllib.error.URLError):
                urllib.request.urlopen(f"http://127.0.0.1:{port}{health}", timeout=2.0).close()
                break
            if process.poll() is not None or time.monotonic() > end:
                raise SystemExit(f"{' '.join(command)} did not come up")
            time.sleep(0.05)
        yield psutil.Process(process.pid)
    finally:
        process.kill()
        process.wait()


@dataclass
class Target:
    """One way to the upstream."""

    name: str
    port: int
    path: str
    process: psutil.Process
    figures: dict[str, float] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}{self.path}"

    def cpu(self) -> float:
        """Seconds of CPU its process, which has one busy thread, has used."""
        exact = Path(f"/proc/{self.process.pid}/schedstat")
        if exact.exists():
            return int(exact.read_text().split()[0]) / 1e9  # Linux; the other clock ticks every 10 ms only
        times = self.process.cpu_times()
        return float(times.user + times.system)

    def rss(self) -> int:
        return int(self.process.memory_info().rss)

    def connect(self) -> connect:
        return connect(self.url, proxy=None, compression=None, max_size=None, ping_interval=None)


# Steps


def _text_frame(text: str) -> bytes:
    payload = text.encode()
    return b"\x81" + bytes([0x80 | 126]) + len(payload).to_bytes(2, "big") + bytes(4) + payload


class PingPong:
    """One session on a blocking socket, so that the measuring itself adds as little as it can."""

    def __init__(self, target: Target) -> None:
        self._socket = socket.create_connection(("127.0.0.1", target.port), STEP_TIMEOUT)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.sendall(
            f"GET {target.path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
            "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n".encode()
        )
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += self._receive(1)
        if b" 101 " not in head:
            raise SystemExit(f"{target.url} refused the handshake: {head[:80]!r}")
        self._frame = _text_frame(MESSAGE)
        self._answer = memoryview(bytearray(4 + len(MESSAGE)))

    def _receive(self, count: int) -> bytes:
        data = self._socket.recv(count)
        if not data:
            raise SystemExit("a connection was closed in the middle of the benchmark")
        return data

    def round_trip(self) -> float:
        """Return the milliseconds until the message is back."""
        started = time.perf_counter()
        self._socket.sendall(self._frame)
        filled = 0
        while filled < len(self._answer):
            count = self._socket.recv_into(self._answer[filled:])
            if not count:
                raise SystemExit("a connection was closed in the middle of the benchmark")
            filled += count
        return (time.perf_counter() - started) * 1000

    def check(self) -> None:
        """Fail when the latest message came back changed."""
        if bytes(self._answer[4:]) != MESSAGE.encode():
            raise SystemExit("a message came back changed")

    def close(self) -> None:
        self._socket.close()


def measure_round_trips(targets: list[Target], blocks: int, messages: int) -> None:
    """Latency, and CPU per round trip, of one session that always has one message on its way."""
    p50: dict[str, list[float]] = {target.name: [] for target in targets}
    p99: dict[str, list[float]] = {target.name: [] for target in targets}
    cpu = dict.fromkeys(p50, 0.0)
    for block in range(blocks):
        for target in targets[block % len(targets) :] + targets[: block % len(targets)]:
            # A session for each block: it is over before the plain bridge's server pings, which nobody here answers.
            session = PingPong(target)
            for _ in range(20):
                session.round_trip()
            session.check()
            before = target.cpu()
            times = sorted(session.round_trip() for _ in range(messages))
            cpu[target.name] += target.cpu() - before
            session.close()
            p50[target.name].append(times[len(times) // 2])
            p99[target.name].append(times[len(times) * 99 // 100])
    direct = targets[0].name
    for target in targets[1:]:
        name = target.name
        target.figures["added_p50_ms"] = statistics.median(p50[name]) - statistics.median(p50[direct])
        target.figures["added_p99_ms"] = statistics.median(p99[name]) - statistics.median(p99[direct])
        target.figures["cpu_us_per_round_trip"] = cpu[name] / (blocks * messages) * 1e6


async def measure_hundred_sessions(targets: list[Target], blocks: int, seconds: float) -> None:
    """100 sessions at 8 messages a second each: CPU of the bridge in percent of one core, and the round trips."""
    for target in targets:
        target.figures["cpu_percent_100_sessions"] = 0.0
    times: dict[str, list[float]] = {target.name: [] for target in targets}
    for _ in range(blocks):
        for target in targets:
            async with asyncio.timeout(STEP_TIMEOUT):
                sessions = [await target.connect() for _ in range(100)]
                before, started = target.cpu(), time.monotonic()
                async with asyncio.TaskGroup() as tasks:
                    for number, session in enumerate(sessions):
                        tasks.create_task(_paced(session, number / 800, seconds, times[target.name]))
                percent = (target.cpu() - before) / (time.monotonic() - started) * 100
                target.figures["cpu_percent_100_sessions"] += percent / blocks
                await asyncio.gather(*(session.close() for session in sessions))
    for target in targets:
        ordered = sorted(times[target.name])
        target.figures["round_trip_p50_ms_100_sessions"] = ordered[len(ordered) // 2]
        target.figures["round_trip_p99_ms_100_sessions"] = ordered[len(ordered) * 99 // 100]


async def _paced(session: ClientConnection, offset: float, seconds: float, times: list[float]) -> None:
    start = time.monotonic() + offset
    for number in range(int(seconds * 8)):
        await asyncio.sleep(max(start + number / 8 - time.monotonic(), 0))
        sent = time.perf_counter()
        await session.send(MESSAGE)
        await session.recv()
        times.append((time.perf_counter() - sent) * 1000)


async def measure_one_way(targets: list[Target], blocks: int, messages: int) -> None:
    """Messages a second that get from one client to the upstream when it sends as fast as it may."""
    rates: dict[str, list[float]] = {target.name: [] for target in targets}
    for _ in range(blocks):
        for target in targets:
            async with asyncio.timeout(STEP_TIMEOUT), target.connect() as session:
                await session.send(COUNT)
                started = time.monotonic()
                for _ in range(messages):
                    await session.send(MESSAGE)
                await session.send(COUNT)
                if json.loads(await session.recv())["messages"] != messages:
                    raise SystemExit(f"{target.name} lost messages")
                rates[target.name].append(messages / (time.monotonic() - started))
    for target in targets:
        target.figures["messages_per_s_one_way"] = statistics.median(rates[target.name])


async def measure_memory(targets: list[Target], sessions: int) -> None:
    """Resident memory of fresh bridges, idle and for each session."""
    for target in targets:
        async with asyncio.timeout(STEP_TIMEOUT):
            await _one_message(target)
            await asyncio.sleep(0.5)
            idle = target.rss()
            opened = [await _one_message(target, stay=True) for _ in range(sessions)]
            await asyncio.sleep(0.5)
            target.figures["rss_mb_idle"] = idle / 1024**2
            target.figures["rss_kb_per_session"] = (target.rss() - idle) / 1024 / sessions
            await asyncio.gather(*(session.close() for session in opened))


async def _one_message(target: Target, *, stay: bool = False) -> ClientConnection:
    session = await target.connect()
    await session.send(MESSAGE)
    await session.recv()
    if not stay:
        await session.close()
    return session


# The run


@contextmanager
def _targets() -> Iterator[list[Target]]:
    """The upstream itself, the bridge and the plain bridge, all fresh."""
    with ExitStack() as stack:
        upstream, bridge, plain = _free_port(), _free_port(), _free_port()
        python = sys.executable
        process = stack.enter_context(
            _running([python, __file__, "--serve-upstream", str(upstream)], upstream, "/health")
        )
        targets = [Target("direct", upstream, "/v1/realtime", process)]
        environment = {"VLLM_PORT": str(upstream), "BRIDGE_PORT": str(bridge), "PYTHONPATH": str(BRIDGE)}
        process = stack.enter_context(_running([python, "-m", "voxtral_bridge"], bridge, "/ping", **environment))
        targets.append(Target("bridge", bridge, PATH, process))
        environment = {"VLLM_PORT": str(upstream), "BRIDGE_PORT": str(plain)}
        process = stack.enter_context(_running([python, str(PLAIN_BRIDGE)], plain, "/ping", **environment))
        targets.append(Target("plain", plain, PATH, process))
        yield targets


def measure(*, quick: bool) -> dict[str, Any]:
    """Run all steps and return the bridge's figures, with those of the plain bridge under `plain`."""
    with _targets() as targets:
        bridge, plain = targets[1:]
        # Memory first, while the processes are fresh.
        asyncio.run(measure_memory([bridge, plain], 50 if quick else 200))
        measure_round_trips(targets, 4 if quick else 60, 100 if quick else 300)
        asyncio.run(measure_hundred_sessions([bridge, plain], 1 if quick else 3, 2.0 if quick else 5.0))
        asyncio.run(measure_one_way([bridge, plain], 1 if quick else 7, 1000 if quick else 4000))
        return _rounded(bridge.figures) | {"plain": _rounded(plain.figures)}


def _rounded(figures: dict[str, float]) -> dict[str, float]:
    return {name: round(value, 3 if name.endswith("_ms") else 1) for name, value in figures.items()}


def main() -> None:
    """Print the figures as a table, or as JSON."""
    parser = argparse.ArgumentParser(description="What the bridge costs, beside a plain one.")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--quick", action="store_true", help="a few seconds only: whether it runs, not how fast")
    parser.add_argument("--serve-upstream", type=int, metavar="PORT", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve_upstream:
        asyncio.run(_serve_upstream(arguments.serve_upstream))
        return
    figures = measure(quick=arguments.quick)
    if arguments.json:
        print(json.dumps(figures, indent=2))
        return
    plain = figures.pop("plain")
    print(f"{'':32}{'bridge':>12}{'plain':>12}{'ratio':>8}")
    for name, value in figures.items():
        print(f"{name:32}{value:12}{plain[name]:12}{value / plain[name]:8.2f}")


if __name__ == "__main__":
    main()
