"""Runs the `voice` command as a user would, and reads the JSON it prints."""

import json
import subprocess
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

    def result(self, *arguments: str, show: bool) -> dict[str, Any]:
        """Run the command with `--json` and return what it printed.

        Args:
            show: whether its live output goes to the terminal instead of the log.

        Raises:
            DemoError: it failed, took too long, or printed no JSON.
        """
        name = f"voice {arguments[0]}"
        with self._log.open("ab") as log:
            log.write(f"$ {name}\n".encode())
            log.flush()
            try:
                done = subprocess.run(
                    [str(self._executable), *arguments, "--json"],
                    env=self._environment,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=None if show else log,
                    timeout=COMMAND_SECONDS,
                    check=False,
                )
            except subprocess.TimeoutExpired as error:
                raise DemoError(f"`{name}` took longer than {COMMAND_SECONDS:.0f} s", self._log) from error
        if done.returncode != 0:
            raise DemoError(f"`{name}` failed (exit {done.returncode})", self._log)
        try:
            result: dict[str, Any] = json.loads(done.stdout)
        except ValueError as error:
            raise DemoError(f"`{name}` printed no JSON", self._log) from error
        return result
