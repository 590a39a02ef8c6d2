"""A bounded queue between the one reader of a stream and its one consumer."""

import asyncio
import copy
from collections import deque

from voice_client.errors import ProtocolError, VoiceError

type Message = str | bytes
"""A WebSocket message as the container sent it: text, or bytes."""


class Inbox:
    """Messages that were read and not yet taken, bounded by bytes and by count.

    Cancelling `get` loses nothing: a message is taken only as it is returned.
    """

    def __init__(self, *, max_bytes: int, max_messages: int) -> None:
        self._max_bytes = max_bytes
        self._max_messages = max_messages
        self._messages: deque[tuple[Message, int]] = deque()
        self._bytes = 0
        self._ended = False
        self._failure: VoiceError | None = None
        self._changed = asyncio.Condition()
        self._taken = False

    async def put(self, message: Message, size: int) -> None:
        """Add a message of `size` bytes; waits while the queue is full. An empty queue takes one of any size.

        After `end` it is dropped.
        """
        async with self._changed:
            await self._changed.wait_for(lambda: self._ended or not self._messages or self._fits(size))
            if self._ended:
                return
            self._messages.append((message, size))
            self._bytes += size
            self._changed.notify_all()

    async def end(self, failure: VoiceError | None) -> None:
        """Say that nothing follows: in order, or with what went wrong. The first one counts."""
        async with self._changed:
            if not self._ended:
                self._ended = True
                self._failure = failure
            self._changed.notify_all()

    async def get(self) -> Message | None:
        """Return the next message, None after the last.

        Raises:
            VoiceError: what ended the stream, after every message that came before it.
            ProtocolError: someone else is already waiting.
        """
        if self._taken:
            raise ProtocolError("two readers on one stream")
        self._taken = True
        try:
            async with self._changed:
                await self._changed.wait_for(lambda: self._messages or self._ended)
                if self._messages:
                    message, size = self._messages.popleft()
                    self._bytes -= size
                    self._changed.notify_all()
                    return message
        finally:
            self._taken = False
        if self._failure is not None:
            raise copy.copy(self._failure) from self._failure.__cause__
        return None

    def _fits(self, size: int) -> bool:
        return len(self._messages) < self._max_messages and self._bytes + size <= self._max_bytes
