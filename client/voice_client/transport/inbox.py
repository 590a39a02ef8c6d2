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
        self._taken = False
        self._arrival: asyncio.Future[None] | None = None
        self._space: asyncio.Future[None] | None = None

    def put_now(self, message: Message, size: int) -> bool:
        """Add a message of `size` bytes if there is room; an empty queue takes one of any size.

        After `end` it is dropped.

        Returns:
            False when it has to wait: see `put`.
        """
        if self._ended:
            return True
        if self._messages and not self._fits(size):
            return False
        self._messages.append((message, size))
        self._bytes += size
        _wake(self._arrival)
        return True

    async def put(self, message: Message, size: int) -> None:
        """Add a message as `put_now` does, waiting while the queue is full. One task puts."""
        while not self.put_now(message, size):
            self._space = asyncio.get_running_loop().create_future()
            try:
                await self._space
            finally:
                self._space = None

    def end(self, failure: VoiceError | None) -> None:
        """Say that nothing follows: in order, or with what went wrong. The first one counts."""
        if not self._ended:
            self._ended = True
            self._failure = failure
        _wake(self._arrival)
        _wake(self._space)

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
            while not self._messages and not self._ended:
                self._arrival = asyncio.get_running_loop().create_future()
                try:
                    await self._arrival
                finally:
                    self._arrival = None
        finally:
            self._taken = False
        if self._messages:
            message, size = self._messages.popleft()
            self._bytes -= size
            _wake(self._space)
            return message
        if self._failure is not None:
            raise copy.copy(self._failure) from self._failure.__cause__
        return None

    def _fits(self, size: int) -> bool:
        return len(self._messages) < self._max_messages and self._bytes + size <= self._max_bytes


def _wake(waiter: "asyncio.Future[None] | None") -> None:
    if waiter is not None and not waiter.done():
        waiter.set_result(None)
