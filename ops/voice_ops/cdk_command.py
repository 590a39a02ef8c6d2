"""Runs the project's own CDK CLI beside something that watches: its output goes to a file, its end is looked for."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from voice_ops.assembly import PROJECT
from voice_ops.errors import OpsError

GRACE_SECONDS = 10.0
"""Between asking the CLI and its children to end and killing them."""

COMMON = ("--ci", "--no-color", "--no-notices", "--no-version-reporting")
"""For output that goes to a file."""

_LAST_LINES = 8


class CdkFailedError(OpsError):
    """A CDK command failed; its last words and its log are in the message."""


class CdkCommand:
    """One command of the CDK CLI, running.

    Args:
        words: command and options.
        log: file that its whole output is appended to.
        environment: further variables.
    """

    def __init__(self, words: Sequence[str], log: Path, environment: Mapping[str, str]) -> None:
        cli = PROJECT / "node_modules" / ".bin" / "cdk"
        if not cli.exists():
            raise OpsError(f"there is no CDK CLI in {cli}: run make setup")
        self.words = tuple(words)
        self._log = log
        log.parent.mkdir(parents=True, exist_ok=True)
        self._output: IO[bytes] = log.open("ab")
        self._output.write(f"$ cdk {' '.join(words)}\n".encode())
        self._output.flush()
        self._began = self._output.tell()
        try:
            self._process = subprocess.Popen(
                [str(cli), *words, *COMMON],
                cwd=PROJECT,
                env={**os.environ, "NODE_NO_WARNINGS": "1", **environment},
                stdin=subprocess.DEVNULL,
                stdout=self._output,
                stderr=subprocess.STDOUT,
                # A group of its own: Ctrl-C reaches it through us alone, and it is ended as a whole.
                start_new_session=True,
            )
        except OSError as error:
            self._output.close()
            raise OpsError(f"the CDK CLI cannot be started ({error}); is Node.js installed?") from error

    def has_ended(self) -> bool:
        """Return whether it has ended."""
        return self._process.poll() is not None

    def check(self) -> None:
        """Raise what it failed with.

        Raises:
            CdkFailedError: its exit code is not 0.
        """
        if self._process.wait() == 0:
            return
        with self._log.open("rb") as log:
            log.seek(self._began)
            lines = [line for line in log.read().decode(errors="replace").splitlines() if line.strip()]
        said = [line.strip() for line in lines if "❌" in line or "failed:" in line] or lines[-_LAST_LINES:]
        raise CdkFailedError(
            f"`cdk {self.words[0]}` failed:\n  " + "\n  ".join(dict.fromkeys(said)) + f"\nIts whole output: {self._log}"
        )

    def end(self) -> None:
        """End it and its children, if they run."""
        if not self.has_ended():
            _signal(self._process, signal.SIGTERM)
            deadline = time.monotonic() + GRACE_SECONDS
            while not self.has_ended() and time.monotonic() < deadline:
                time.sleep(0.1)
        _signal(self._process, signal.SIGKILL)
        self._process.wait()
        self._output.close()


@contextmanager
def cdk(words: Sequence[str], log: Path, environment: Mapping[str, str] | None = None) -> Iterator[CdkCommand]:
    """Run a command for as long as the block lasts.

    Raises:
        OpsError: there is no CLI, or no Node to run it.
    """
    command = CdkCommand(words, log, environment or {})
    try:
        yield command
    finally:
        command.end()


def run_cdk(words: Sequence[str], log: Path, environment: Mapping[str, str] | None = None, *, seconds: float) -> None:
    """Run a command to its end.

    Raises:
        CdkFailedError: it failed, or took longer than `seconds`.
        OpsError: there is no CLI, or no Node to run it.
    """
    deadline = time.monotonic() + seconds
    with cdk(words, log, environment) as command:
        while not command.has_ended():
            if time.monotonic() >= deadline:
                raise CdkFailedError(f"`cdk {words[0]}` did not end within {seconds:g} s. Its output: {log}")
            time.sleep(0.1)
        command.check()


def _signal(process: subprocess.Popen[bytes], number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)
