"""The process between the container host and a container: none of the container's processes outlives it, or the host.

`python -m voice_local.containers.leash GRACE_SECONDS COMMAND...` runs the command as Docker runs a container's main
process: SIGTERM is passed on to it alone, its exit code becomes the leash's own, and when it ends, whatever it left
behind is killed. The host holds the other end of the leash's stdin; when the host is gone, even by SIGKILL, stdin ends,
and the command gets SIGTERM, and SIGKILL after the grace period. No log is read or written here.
"""

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress

import psutil

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_LINUX = sys.platform == "linux"

REMAINS_SECONDS = 5.0
"""How long killed processes may take to disappear."""

COMMAND_NOT_STARTED = 127
"""Exit code when the command cannot be started, as a shell has it."""


def main(arguments: Sequence[str]) -> int:
    """Run the command until it ends; return its exit code, 128 + n when signal n ended it."""
    grace_seconds, command = float(arguments[0]), list(arguments[1:])
    if _LINUX:
        # Orphans of the container become children of the leash, so that it can find them.
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)
    try:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, process_group=0, preexec_fn=_die_with_leash)  # noqa: PLW1509 - no thread yet
    except OSError as problem:
        sys.stderr.write(f"The container's main process cannot be started: {problem}\n")
        return COMMAND_NOT_STARTED
    signal.signal(signal.SIGTERM, lambda *_: _send(process, signal.SIGTERM))
    threading.Thread(target=_end_with_host, args=(process, grace_seconds), daemon=True).start()
    try:
        code = process.wait()
    finally:
        _kill_rest()
    return 128 - code if code < 0 else code


def _die_with_leash() -> None:
    """Runs in the command's process: SIGKILL should the leash itself be killed (Linux only)."""
    if _LINUX:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _send(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        process.send_signal(number)


def _end_with_host(process: subprocess.Popen[bytes], grace_seconds: float) -> None:
    while os.read(0, 1024):
        pass
    _send(process, signal.SIGTERM)
    try:
        process.wait(grace_seconds)
    except subprocess.TimeoutExpired:
        _send(process, signal.SIGKILL)


def _kill_rest() -> None:
    """Kill every descendant that is left and wait until it is gone, at most `REMAINS_SECONDS`."""
    leash = psutil.Process()
    deadline = time.monotonic() + REMAINS_SECONDS
    while time.monotonic() < deadline:
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        rest = leash.children(recursive=True)
        if not rest:
            return
        for process in rest:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        time.sleep(0.01)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
