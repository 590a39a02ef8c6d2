"""Events on their way to a caller, of which some may be taken back before they arrive."""

import asyncio
from collections import deque
from collections.abc import Callable


class Mailbox[E]:
    """One task takes what others put, in order, to the end."""

    def __init__(self) -> None:
        self._events: deque[E] = deque()
        self._ended = False
        self._changed = asyncio.Event()

    def put(self, event: E) -> None:
        """Add an event; never blocks."""
        self._events.append(event)
        self._changed.set()

    def end(self) -> None:
        """Say that nothing follows."""
        self._ended = True
        self._changed.set()

    def take_back(self, unwanted: Callable[[E], bool]) -> None:
        """Drop what was not taken yet and is unwanted."""
        self._events = deque(event for event in self._events if not unwanted(event))

    async def get(self) -> E | None:
        """Return the next event, None after the last; may be cancelled."""
        while not self._events:
            if self._ended:
                return None
            self._changed.clear()
            await self._changed.wait()
        return self._events.popleft()
