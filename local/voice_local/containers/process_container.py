"""One running container: the leash, the container's processes behind it, and its log file."""

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from voice_local.containers.serving import LOOPBACK
from voice_local.containers.settings import ContainerHostSettings

_MARK = "VOICE_LOCAL_CONTAINER"
"""Variable by which a container's processes are known even when leash and parents are gone."""

_TAIL_BYTES = 64 * 1024
_STATUS_LINE_BYTES = 1024
_OK = re.compile(rb"HTTP/1\.[01] 200\b")


class ContainerStopError(Exception):
    """Processes of a container are still there after SIGKILL."""


class ProcessContainer:
    """Implements `voice_local.interfaces.Container` with plain processes; safe from any thread."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        name: str,
        port: int,
        bidirectional: bool,
        environment: Mapping[str, str],
        working_directory: Path,
        log_file: Path,
        settings: ContainerHostSettings,
    ) -> None:
        """Start the command; it sees no variable but those of `environment`.

        Raises:
            OSError: the log file cannot be written, or no process can be started.
        """
        self.name = name
        self.log_file = log_file
        self._port = port
        self._bidirectional = bidirectional
        self._settings = settings
        self._stopping = threading.Lock()
        self._mark = f"{name}-{uuid.uuid4().hex}"
        with log_file.open("ab") as output:
            self._leash = subprocess.Popen(
                [sys.executable, "-m", "voice_local.containers.leash", str(settings.grace_seconds), *command],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**environment, _MARK: self._mark},
                cwd=working_directory,
                # A session of its own: Ctrl-C at the terminal reaches the host, which stops containers in order.
                start_new_session=True,
            )

    @property
    def port(self) -> int:
        """Port of the container's HTTP and WebSocket server on 127.0.0.1."""
        return self._port

    @property
    def bidirectional(self) -> bool:
        """Whether the image carries the label for bidirectional streaming."""
        return self._bidirectional

    @property
    def pid(self) -> int:
        """Process id of the leash; the container's main process is its child."""
        return self._leash.pid

    def ping(self) -> bool:
        """Ask `GET /ping`; True only for a 200 whose status line is here within 2 s."""
        deadline = time.monotonic() + self._settings.ping_seconds
        head = b""
        try:
            with socket.create_connection((LOOPBACK, self._port), timeout=self._settings.ping_seconds) as connection:
                connection.sendall(b"GET /ping HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                while b"\r\n" not in head and len(head) < _STATUS_LINE_BYTES:
                    connection.settimeout(max(0.001, deadline - time.monotonic()))
                    received = connection.recv(256)
                    if not received:
                        break
                    head += received
        except OSError:
            # Refused, reset or late: the container is not healthy now, and asking again is the caller's part.
            return False
        return _OK.match(head) is not None

    def exit_code(self) -> int | None:
        """Return the exit code of the main process, 128 + n after signal n; None while it runs."""
        code = self._leash.poll()
        return 128 - code if code is not None and code < 0 else code

    def output_tail(self, lines: int = 20) -> str:
        """Return the last lines of stdout and stderr, as far as 64 KiB go."""
        with self.log_file.open("rb") as log:
            log.seek(0, os.SEEK_END)
            log.seek(max(0, log.tell() - _TAIL_BYTES))
            return "\n".join(log.read().decode(errors="replace").splitlines()[-lines:])

    def stop(self) -> None:
        """SIGTERM to the main process, SIGKILL to all after the grace period; returns when none is left. Idempotent.

        Raises:
            ContainerStopError: a process survives SIGKILL (the kernel is busy with it).
        """
        with self._stopping:
            with suppress(ProcessLookupError):
                self._leash.send_signal(signal.SIGTERM)
            try:
                # The leash itself needs a moment longer than the container, to clear up what is left.
                self._leash.wait(self._settings.grace_seconds)
            except subprocess.TimeoutExpired:
                self._kill()
            else:
                self._kill()
            if self._leash.stdin is not None:
                self._leash.stdin.close()

    def _kill(self) -> None:
        deadline = time.monotonic() + self._settings.remains_seconds
        while (remaining := self._processes()) and time.monotonic() < deadline:
            for process in remaining:
                with suppress(psutil.NoSuchProcess):
                    process.kill()
            psutil.wait_procs(remaining, timeout=0.1)
        self._leash.poll()
        if remaining:
            raise ContainerStopError(
                f"Processes of container {self.name} are still there after SIGKILL: "
                + ", ".join(str(process.pid) for process in remaining)
            )

    def _processes(self) -> list[psutil.Process]:
        """Return the leash, its descendants, and whoever inherited the container's mark after losing its parent."""
        found: dict[int, psutil.Process] = {}
        with suppress(psutil.NoSuchProcess):
            if self._leash.poll() is None:
                leash = psutil.Process(self._leash.pid)
                found = {process.pid: process for process in [leash, *leash.children(recursive=True)]}
        for process in psutil.process_iter():
            # Processes of other users cannot be asked, and are none of ours.
            with suppress(psutil.NoSuchProcess, psutil.AccessDenied, OSError):
                if process.environ().get(_MARK) == self._mark and process.status() != psutil.STATUS_ZOMBIE:
                    found[process.pid] = process
        return list(found.values())
