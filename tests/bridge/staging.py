"""Real processes for the bridge's tests: the bridge, and a scripted vLLM that can be killed, stopped or flooded."""

import asyncio
import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from jsonschema import Draft202012Validator  # type: ignore[import-untyped]
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

CONTEXT = Path(__file__).parents[2] / "container_assets" / "voxtral_bridge"
SCRIPTED_VLLM = Path(__file__).with_name("scripted_vllm.py")
DEADLINE = 15.0
PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None)

AUDIO = "AAAA" * 854  # 80 ms of silence in base64, as clients send it
UPDATE = {"type": "session.update", "model": "m"}
COMMIT = {"type": "input_audio_buffer.commit"}
FINAL = {"type": "input_audio_buffer.commit", "final": True}
APPEND = {"type": "input_audio_buffer.append", "audio": AUDIO}


def log_contract() -> dict[str, Any]:
    """The schema of each event, by the event's name."""
    events = json.loads((CONTEXT / "voxtral_bridge" / "log_events.json").read_text())["$defs"]
    assert isinstance(events, dict)
    return events


_VALIDATORS = {event: Draft202012Validator(schema) for event, schema in log_contract().items()}


def assert_in_contract(line: dict[str, Any]) -> None:
    """Fail when a line of the bridge's log is not what docs/bridge-log.md promises to those who read it."""
    assert line.get("event") in _VALIDATORS, f"not in log_events.json: {line}"
    _VALIDATORS[line["event"]].validate(line)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_until(condition: Callable[[], Any], what: str, limit: float = DEADLINE) -> Any:
    """Poll until the condition holds and return what it gave."""
    end = monotonic() + limit
    while monotonic() < end:
        if result := condition():
            return result
        sleep(0.02)
    raise AssertionError(f"{what}: not within {limit} s")


def json_lines(path: Path) -> list[dict[str, Any]]:
    """The whole JSON lines of a file; other lines and a line still being written are left out."""
    lines = []
    for line in path.read_text().splitlines() if path.exists() else []:
        with suppress(ValueError):
            lines.append(json.loads(line))
    return lines


def listens(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1.0):
        return True
    return False


@dataclass
class Process:
    """A started process with the file of its output."""

    popen: "subprocess.Popen[bytes]"
    port: int
    output: Path
    is_container: bool = field(default=False, kw_only=True)
    forgotten: int = field(default=0, kw_only=True)

    def signal(self, number: int) -> None:
        self.popen.send_signal(number)

    def wait(self, limit: float = DEADLINE) -> int:
        return self.popen.wait(limit)

    def log(self, event: str = "") -> list[dict[str, Any]]:
        """The JSON lines it wrote, of one event or all."""
        return [line for line in json_lines(self.output)[self.forgotten :] if event in ("", line.get("event"))]

    def forget(self) -> None:
        """Leave what was written so far out of the log, once no session is open any more."""
        wait_until(lambda: len(self.log("session_opened")) == len(self.log("session_closed")), "sessions are closed")
        self.forgotten = len(json_lines(self.output))


@dataclass
class Vllm(Process):
    notes_file: Path

    def notes(self, event: str = "") -> list[dict[str, Any]]:
        return [line for line in json_lines(self.notes_file)[self.forgotten :] if event in ("", line["event"])]

    def forget(self) -> None:
        wait_until(lambda: len(self.notes("opened")) == len(self.notes("closed")), "conversations are closed")
        self.forgotten = len(json_lines(self.notes_file))


def ping(port: int) -> int:
    """Status of GET /ping; fails when it takes SageMaker's 2 s."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/ping", timeout=2.0) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def _die_with_the_tests() -> None:
    """Runs in the child: SIGKILL for it should the test run be killed (Linux; elsewhere only orderly ends count)."""
    if sys.platform == "linux":
        _LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Stage:
    """Starts processes and ends them all after the test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.started: list[Process] = []
        self.vllm_port = free_port()

    def _spawn(
        self, name: str, command: list[str], environment: dict[str, str]
    ) -> tuple["subprocess.Popen[bytes]", Path]:
        output = self.folder / f"{name}-{len(self.started)}.log"
        inherited = {
            key: value for key, value in os.environ.items() if not key.startswith(("BRIDGE_", "SM_VLLM_", "VLLM_"))
        }
        with output.open("wb") as sink:
            popen = subprocess.Popen(
                command,
                env=inherited | environment,
                stdout=sink,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=_die_with_the_tests,  # noqa: PLW1509 - one system call, loaded before
            )
        return popen, output

    def vllm(self, **environment: str) -> Vllm:
        notes = self.folder / f"notes-{len(self.started)}.jsonl"
        command = [sys.executable, str(SCRIPTED_VLLM), "--port", str(self.vllm_port)]
        popen, output = self._spawn("vllm", command, {"SCRIPTED_VLLM_NOTES": str(notes)} | environment)
        started = Vllm(popen, self.vllm_port, output, notes)
        self.started.append(started)
        wait_until(lambda: started.notes("listening"), "scripted vLLM listens")
        return started

    def bridge(self, *, healthy: bool = True, **environment: str) -> Process:
        port = free_port()
        variables = {
            "BRIDGE_PORT": str(port),
            "VLLM_PORT": str(self.vllm_port),
            "BRIDGE_PROBE_INTERVAL": "0.1",
            "BRIDGE_PROBE_TIMEOUT": "0.5",
            "PYTHONPATH": str(CONTEXT),
        }
        popen, output = self._spawn("bridge", [sys.executable, "-m", "voxtral_bridge"], variables | environment)
        started = Process(popen, port, output)
        self.started.append(started)
        wait_until(lambda: listens(port), f"bridge listens: {output.read_text()}")
        if healthy:
            wait_until(lambda: ping(port) == 200, "bridge is healthy")
        return started

    def entrypoint(self, *arguments: str, wait: bool = True, **environment: str) -> Vllm:
        """Start the container's entrypoint with the scripted server as `vllm` on PATH."""
        programs = self.folder / "bin"
        programs.mkdir(exist_ok=True)
        program = programs / "vllm"
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{SCRIPTED_VLLM}" "$@"\n')
        program.chmod(0o755)
        port, notes = free_port(), self.folder / f"notes-{len(self.started)}.jsonl"
        variables = {
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "BRIDGE_PORT": str(port),
            "VLLM_PORT": str(self.vllm_port),
            "SCRIPTED_VLLM_NOTES": str(notes),
            "SM_VLLM_MODEL": "some/model",
            "BRIDGE_PROBE_INTERVAL": "0.1",
        }
        command = [sys.executable, str(CONTEXT / "entrypoint.py"), *arguments]
        popen, output = self._spawn("entrypoint", command, variables | environment)
        started = Vllm(popen, port, output, notes, is_container=True)
        self.started.append(started)
        if wait:
            wait_until(lambda: listens(port) and ping(port) == 200, f"container is healthy: {output.read_text()}")
        return started

    def close(self) -> None:
        """End all processes and hold every line of a log against the contract."""
        self._end_all()
        for process in self.started:
            for line in json_lines(process.output):
                assert_in_contract(line)

    def _end_all(self) -> None:
        for process in reversed(self.started):
            if process.popen.poll() is None:
                # Only the container has children to end in order.
                process.signal(signal.SIGTERM if process.is_container else signal.SIGKILL)
                try:
                    process.wait(10.0)
                except subprocess.TimeoutExpired:
                    process.signal(signal.SIGKILL)
                    process.wait()


def client(bridge: Process, path: str = "/invocations-bidirectional-stream", **options: Any) -> connect:
    """A client without a proxy or limits of its own."""
    settings: dict[str, Any] = {"proxy": None, "max_size": None, "compression": None, "close_timeout": DEADLINE}
    return connect(f"ws://127.0.0.1:{bridge.port}{path}", **settings | options)


async def say(connection: ClientConnection, *events: dict[str, Any]) -> None:
    for event in events:
        await connection.send(json.dumps(event))


async def hear(connection: ClientConnection) -> dict[str, Any]:
    async with asyncio.timeout(DEADLINE):
        event = json.loads(await connection.recv())
    assert isinstance(event, dict)
    return event


async def hear_until_close(connection: ClientConnection, limit: float = DEADLINE) -> list[dict[str, Any]]:
    """Every event up to the close, whose code is then `connection.close_code`."""
    events: list[dict[str, Any]] = []
    async with asyncio.timeout(limit):
        with suppress(ConnectionClosed):
            while True:
                events.append(json.loads(await connection.recv()))
    return events


async def hear_until(connection: ClientConnection, kind: str) -> list[dict[str, Any]]:
    events = [await hear(connection)]
    while events[-1]["type"] != kind:
        events.append(await hear(connection))
    return events


async def eventually(condition: Callable[[], Any], what: str) -> Any:
    """Like wait_until, without blocking the loop."""
    return await asyncio.to_thread(wait_until, condition, what)
