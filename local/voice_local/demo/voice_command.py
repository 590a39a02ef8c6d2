"""Runs the `voice` command as a user would, and reads the JSON it prints."""

import contextlib
import json
import subprocess
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from voice_local.demo.errors import DemoError

COMMAND_SECONDS = 120.0
"""For one transcription or one spoken text of a few seconds; far above both."""


class VoiceCommand:
    """`voice`, in an environment that reaches the demo's cloud and nothing else.

    Args:
        executable: the `voice` script.
        environment: from `isolated_environment`.
        log: file for what the command says beside its result, where that is not shown.
    """

    def __init__(self, executable: Path, environment: Mapping[str, str], log: Path) -> None:
        self._executable = executable
        self._environment = dict(environment)
        self._log = log
        self._cancelled = threading.Event()

    def cancel(self) -> None:
        """End the command that runs now and refuse further ones; called from another thread."""
        self._cancelled.set()

    def result(self, *arguments: str, show: bool) -> dict[str, Any]:
        """Run the command with `--json` and return what it printed.

        Args:
            show: whether its live output goes to the terminal instead of the log.

        Raises:
            DemoError: it failed, took too long, was cancelled, or printed no JSON.
        """
        name = f"voice {arguments[0]}"
        with self._log.open("ab") as log:
            log.write(f"$ {name}\n".encode())
            log.flush()
            command = subprocess.Popen(
                [str(self._executable), *arguments, "--json"],
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=None if show else log,
            )
            with command:
                try:
                    printed = self._output(command, name)
                finally:
                    command.kill()
        if command.returncode != 0:
            raise DemoError(f"`{name}` failed (exit {command.returncode})", self._log)
        try:
            result: dict[str, Any] = json.loads(printed)
        except ValueError as error:
            raise DemoError(f"`{name}` printed no JSON", self._log) from error
        return result

    def _output(self, command: subprocess.Popen[bytes], name: str) -> bytes:
        deadline = time.monotonic() + COMMAND_SECONDS
        while time.monotonic() < deadline:
            if self._cancelled.is_set():
                raise DemoError(f"`{name}` was cancelled", self._log)
            with contextlib.suppress(subprocess.TimeoutExpired):
                return command.communicate(timeout=0.2)[0]
        raise DemoError(f"`{name}` took longer than {COMMAND_SECONDS:.0f} s", self._log)
