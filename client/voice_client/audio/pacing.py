"""Lets audio go at the speed at which it is spoken."""

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    """Time that only goes forward; tests hand in one of their own."""

    def now(self) -> float:
        """Return seconds since some fixed moment."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait for so many seconds."""
        ...


class MonotonicClock:
    """The machine's monotonic clock, which no change of the wall clock moves."""

    def now(self) -> float:
        """Return seconds since some fixed moment."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Wait for so many seconds."""
        await asyncio.sleep(seconds)


class Pacer:
    """Holds each chunk back until its last sample would have been spoken, as a microphone does.

    Every moment is counted from the start of the audio and not from the chunk before, so late wake-ups do not add
    up: an hour of audio takes an hour. After a pause (a reconnect) the audio catches up at once.
    """

    def __init__(self, clock: Clock, bytes_per_second: int) -> None:
        self._clock = clock
        self._bytes_per_second = bytes_per_second
        self._started: float | None = None
        self._bytes = 0

    async def wait_for(self, chunk: bytes) -> None:
        """Return when the chunk may go."""
        if self._started is None:
            self._started = self._clock.now()
        self._bytes += len(chunk)
        ahead = self._started + self._bytes / self._bytes_per_second - self._clock.now()
        if ahead > 0:
            await self._clock.sleep(ahead)
