"""The local cloud of the demo: `voice local up` in a process of its own, as a user would run it."""

import os
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

from voice_local.demo.errors import DemoError
from voice_local.running_cloud import CloudDescription

START_SECONDS = 60.0
"""Until the cloud prints its line: 3 to 5 s on two idle cores; a cold disk and a busy machine take longer."""

STOP_SECONDS = 20.0
"""For an orderly end, containers included; after that it is killed."""

END_SECONDS = 2.0
"""Between what a dying cloud no longer answers and the end of its process, which says why."""


class CloudProcess:
    """Starts the cloud on free ports; it ends with this process unless it is kept."""

    def __init__(
        self, voice: Path, *, run_dir: Path, log: Path, environment: Mapping[str, str], keep: bool, lock: int
    ) -> None:
        """Prepare; nothing runs yet.

        Args:
            voice: the `voice` script.
            run_dir: the cloud's run folder.
            log: takes what it writes to stderr.
            environment: of the cloud.
            keep: it is to stay when this process ends.
            lock: descriptor that locks the folder; a cloud that stays keeps it.
        """
        self._command = [
            *(str(voice), "local", "up", "--control-port", "0", "--data-port", "0", "--run-dir", str(run_dir)),
            *([] if keep else ["--until-stdin-closes"]),
        ]
        self._log = log
        self._environment = dict(environment)
        self._keep = keep
        self._lock = lock
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> CloudDescription:
        """Start the cloud and wait for its line.

        Raises:
            DemoError: it ended, or said nothing in time; the log has the reason.
        """
        with self._log.open("ab") as log:
            # The pipe to its stdin closes when this process ends, however it ends: then the cloud ends too.
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL if self._keep else subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=self._environment,
                text=True,
                start_new_session=True,
                pass_fds=(self._lock,) if self._keep else (),
            )
        return CloudDescription.model_validate_json(self._first_line(self._process))

    def _first_line(self, process: subprocess.Popen[str]) -> str:
        assert process.stdout is not None  # noqa: S101 (a pipe was asked for)
        deadline = time.monotonic() + START_SECONDS
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while not selector.select(timeout=0.2):
                if time.monotonic() > deadline:
                    raise DemoError(f"the local cloud did not come up within {START_SECONDS:.0f} s", self._log)
        line = process.stdout.readline()
        if not line.strip():
            said = self._log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
            reason = f": {said[-1]}" if said else ""
            how = _ended(process.wait(STOP_SECONDS))
            raise DemoError(f"the local cloud {how} before it was up{reason}", self._log)
        return line

    @contextmanager
    def needed(self, *give_up: Callable[[], None]) -> Iterator[None]:
        """Have what is under way given up when the cloud ends within the block, instead of waiting for its answers.

        Args:
            give_up: each ends one kind of work; called from another thread.

        Raises:
            DemoError: the cloud ended; whatever the block raised is its cause.
        """
        process = self._process
        if process is None:
            raise RuntimeError("the local cloud does not run")
        left = threading.Event()

        def watch() -> None:
            while process.poll() is None:
                if left.wait(0.2):
                    return
            for end in give_up:
                end()

        watching = threading.Thread(target=watch, name="cloud-watch", daemon=True)
        watching.start()
        try:
            yield
        except Exception as error:
            if (how := _end_of(process)) is not None:
                raise DemoError(f"the local cloud {how} while it was needed", self._log) from error
            raise
        finally:
            left.set()
            watching.join()

    def keep(self) -> int:
        """Let the cloud run on when this object ends; return its process id."""
        process, self._process = self._process, None
        if process is None:
            raise RuntimeError("the local cloud does not run")
        return process.pid

    def stop(self) -> None:
        """End the cloud, its containers included; idempotent."""
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(STOP_SECONDS)
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()

    def __enter__(self) -> "CloudProcess":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def _end_of(process: subprocess.Popen[str]) -> str | None:
    try:
        return _ended(process.wait(END_SECONDS))
    except subprocess.TimeoutExpired:
        return None


def _ended(code: int) -> str:
    return f"ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
