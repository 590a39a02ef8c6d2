"""A server as a process of its own, for as long as a test needs it."""

import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

READY_SECONDS = 90
"""From the start to the first answer. A busy machine takes its time to import a server, or to load a model."""

_ASK_SECONDS = 2


@contextmanager
def server_process(
    *arguments: str, log: Path, ready: Callable[[], object], **environment: str
) -> Iterator[subprocess.Popen[bytes]]:
    """Run `python arguments...` until the block ends; the block begins when `ready` says true.

    Args:
        arguments: `-m` and a module, or a script; and what it is given.
        log: takes what the process writes to its two outputs.
        ready: asked over and over.
        environment: variables beside those of this process.
    """
    process = start_server(*arguments, log=log, **environment)
    try:
        wait_until(ready, process, log)
        yield process
    finally:
        process.kill()
        process.wait(10)


def start_server(*arguments: str, log: Path, **environment: str) -> subprocess.Popen[bytes]:
    """Start `python arguments...`; for a server whose life no block frames."""
    with log.open("ab") as output:
        return subprocess.Popen(
            [sys.executable, *arguments], env=os.environ | environment, stdout=output, stderr=output
        )


def wait_until(ready: Callable[[], object], process: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until a server that was started is ready; when it ended, or never is, fail with what it wrote."""
    end = time.monotonic() + READY_SECONDS
    while not ready():
        assert process.poll() is None, log.read_text(errors="replace")
        assert time.monotonic() < end, log.read_text(errors="replace")
        time.sleep(0.05)


def answers(port: int, path: str) -> Callable[[], bool]:
    """Return what asks a server on loopback for a path, and says whether it answered with success."""

    def ask() -> bool:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=_ASK_SECONDS).close()
        except OSError:
            return False
        return True

    return ask


def announced(log: Path) -> dict[str, Any] | None:
    """Return what a data plane says of itself when it is ready: the line of JSON in its log."""
    found = re.search(r"^\{.*\}$", log.read_text(errors="replace"), re.MULTILINE)
    return json.loads(found[0]) if found else None


def free_port() -> int:
    """Return a port on loopback that nothing listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
