"""What the measuring process used itself, so that a slow client is never blamed on the server."""

import asyncio
import time
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import numpy as np

from voice_client.session.ending import end_tasks

LOOK_EVERY = 0.01
"""Seconds between two looks at the event loop: short against everything that is measured."""

BUSY_SHARE = 0.8
"""Share of the time the event loop may be at work. Above it, waiting for one's turn grows without bound."""

LATE_MS = 25.0
"""99th percentile of how late the event loop may be. Each moment that is measured, and each chunk that is sent, is late
by as much: a tenth of a good first sound (250 ms)."""


@dataclass(frozen=True, slots=True)
class OwnLoad:
    """The load of one process over a measured window."""

    cpu_cores: float
    """CPU time of all its threads, divided by the time that went by: 1.0 is one core."""
    loop_busy: float
    """CPU time of the event loop's thread, divided by the time that went by; 1.0 is all there is."""
    lag_p50_ms: float
    """How much later than due the event loop did what was due."""
    lag_p99_ms: float
    lag_max_ms: float

    @property
    def saturated(self) -> bool:
        """Whether the figures of the window tell more about this process than about the server."""
        return self.loop_busy >= BUSY_SHARE or self.lag_p99_ms >= LATE_MS


class LoopWatch:
    """Watches the running event loop from `async with` on.

    The lag is how late a sleep ends: the loop was busy with something else, or the machine was.
    """

    def __init__(self) -> None:
        self._lags: list[float] = []
        self._task: asyncio.Task[None] | None = None
        self._began = self._thread = self._process = 0.0
        self._due = 0.0

    async def __aenter__(self) -> Self:
        self._began, self._thread, self._process = time.monotonic(), time.thread_time(), time.process_time()
        self._due = self._began + LOOK_EVERY
        self._task = asyncio.create_task(self._watch(), name="voice-bench-loop-watch")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._task is not None:
            await end_tasks(self._task)

    def load(self) -> OwnLoad:
        """Return what was seen so far."""
        passed = max(time.monotonic() - self._began, 1e-9)
        # What is due and has not been done yet is late too: a loop that stands still does not look.
        lags = np.array([*self._lags, *_lateness(self._due)]) * 1000
        p50, p99 = np.quantile(lags, [0.5, 0.99])
        return OwnLoad(
            cpu_cores=(time.process_time() - self._process) / passed,
            loop_busy=(time.thread_time() - self._thread) / passed,
            lag_p50_ms=float(p50),
            lag_p99_ms=float(p99),
            lag_max_ms=float(lags.max()),
        )

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(max(0.0, self._due - time.monotonic()))
            self._lags += _lateness(self._due)
            self._due = time.monotonic() + LOOK_EVERY


def _lateness(due: float) -> list[float]:
    """Return how late is what was due at a moment, and all that became due since: seconds, one for each look missed."""
    late = max(0.0, time.monotonic() - due)
    return [late - missed * LOOK_EVERY for missed in range(int(late / LOOK_EVERY) + 1)]
