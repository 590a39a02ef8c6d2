"""Leaves no process behind, whenever and however the demo ends."""

import contextlib
import ctypes
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import psutil

GRACE_SECONDS = 5.0
"""Between asking what is left to end and killing it."""

_PR_SET_CHILD_SUBREAPER = 36
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def interrupt_on_signals() -> None:
    """Make SIGTERM and a closed terminal (but under nohup) end the demo the way Ctrl-C does."""
    for number in _SIGNALS:
        if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _interrupt)


def _interrupt(number: int, frame: FrameType | None) -> None:
    # Once: a second Ctrl-C must not cut the clean-up short, which is bounded by itself.
    for other in _SIGNALS:
        signal.signal(other, signal.SIG_IGN)
    raise KeyboardInterrupt


def adopt_orphans() -> None:
    """Make descendants whose parent ended this process's own children, so that none is out of sight (Linux only)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


@contextmanager
def no_child_left(keep: set[int]) -> Iterator[None]:
    """End every descendant of this process with the block; `keep` holds process ids to leave alone, with theirs."""
    adopt_orphans()
    try:
        yield
    finally:
        _end(_descendants(psutil.Process(os.getpid()), keep))


def _descendants(process: psutil.Process, keep: set[int]) -> list[psutil.Process]:
    found: list[psutil.Process] = []
    with contextlib.suppress(psutil.NoSuchProcess):
        for child in process.children():
            if child.pid not in keep:
                found += [child, *_descendants(child, keep)]
    return found


def _end(processes: list[psutil.Process]) -> None:
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.terminate()
    _, alive = psutil.wait_procs(processes, timeout=GRACE_SECONDS)
    for process in alive:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(alive, timeout=GRACE_SECONDS)
