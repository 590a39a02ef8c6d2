"""Events on their way to a listener: bounded, and cut off at once when nobody wants to hear more."""

import asyncio
from collections import deque

from voice_client.session.events import Restarted, SpeechChunk, SpeechEvent


class Outlet:
    """What was spoken and not yet taken. One task puts, one takes.

    Args:
        limit_bytes: audio that waits at most; then `put` waits, and with it the model.
    """

    def __init__(self, *, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._events: deque[SpeechEvent] = deque()
        self._bytes = 0
        self._taken: int | None = None
        """The sentence of the chunk that was taken last."""
        self._ended = False
        self._error: Exception | None = None
        self._filled = asyncio.Event()
        self._emptied = asyncio.Event()

    async def put(self, chunk: SpeechChunk) -> None:
        """Add a chunk; waits while there is too much audio already. After an end it is dropped."""
        while self._bytes and self._bytes + len(chunk.pcm) > self._limit and not self._ended:
            self._emptied.clear()
            await self._emptied.wait()
        if not self._ended:
            self._events.append(chunk)
            self._bytes += len(chunk.pcm)
            self._filled.set()

    def restart(self, event: Restarted) -> None:
        """Void a sentence's chunks: those not taken yet are dropped, and the listener is told of those that were."""
        if self._ended:
            return
        while self._events and self._events[-1].sentence == event.sentence:
            dropped = self._events.pop()
            self._bytes -= len(dropped.pcm) if isinstance(dropped, SpeechChunk) else 0
        self._emptied.set()
        if self._taken == event.sentence:
            self._events.append(event)
            self._filled.set()

    def end(self, error: Exception | None = None) -> None:
        """Say that nothing follows, or what went wrong; the first one counts."""
        if not self._ended:
            self._ended, self._error = True, error
        self._filled.set()
        self._emptied.set()

    def cut(self) -> None:
        """Drop everything and end without an error."""
        self._events.clear()
        self._bytes = 0
        self._ended, self._error = True, None
        self._filled.set()
        self._emptied.set()

    async def get(self) -> SpeechEvent | None:
        """Return the next event, None after the last; may be cancelled.

        Raises:
            Exception: what went wrong, after every event before it.
        """
        while not self._events and not self._ended:
            self._filled.clear()
            await self._filled.wait()
        if self._events:
            event = self._events.popleft()
            if isinstance(event, SpeechChunk):
                self._bytes -= len(event.pcm)
                self._taken = event.sentence
                self._emptied.set()
            else:
                self._taken = None
            return event
        if self._error is not None:
            raise self._error
        return None
