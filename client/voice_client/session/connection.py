"""One stream to a model with one reader: parses what comes, keeps it in order, and says why it ended."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol, Self

from voice_client.errors import ConnectionLostError, VoiceError
from voice_client.session.ending import end_tasks

QUEUED_EVENTS = 64
"""Events read ahead of the session. Then the reader waits, and backpressure reaches the server."""

CLOSE_SECONDS = 5.0
"""Longest wait for a stream to close before its reader is cancelled."""


class MessageStream(Protocol):
    """A two-way stream of messages, such as `voice_client.transport.BidiStream`.

    All its failures are `VoiceError`s, on sending and on receiving; iteration ends when the peer ended the stream.
    """

    async def send_text(self, text: str, /) -> None: ...

    def __aiter__(self) -> AsyncIterator[str | bytes]: ...

    async def end_input(self) -> None: ...

    async def close(self) -> None: ...


type StreamOpener = Callable[[], Awaitable[MessageStream]]
"""Opens a new stream to the model, each time it is called."""


@dataclass(frozen=True, slots=True)
class Received[E]:
    """An event and when it came (seconds of the event loop's clock)."""

    event: E
    at: float


@dataclass(frozen=True, slots=True)
class _End:
    error: BaseException


class Connection[E]:
    """A stream whose messages are read by one task into a bounded queue, so that no read is ever cancelled.

    Cancelling a pending read of the SDK's stream loses data; waiting on this queue can be cancelled freely.
    """

    def __init__(self, stream: MessageStream, parse: Callable[[str | bytes], E]) -> None:
        self._stream = stream
        self._parse = parse
        self._queue: asyncio.Queue[Received[E] | _End] = asyncio.Queue(QUEUED_EVENTS)
        self._closed = False
        self._reader = asyncio.create_task(self._read(), name="voice-reader")

    @classmethod
    async def open(cls, opener: StreamOpener, parse: Callable[[str | bytes], E]) -> Self:
        """Open a stream and start to read.

        Raises:
            VoiceError: the stream could not be opened.
        """
        return cls(await opener(), parse)

    @property
    def ended(self) -> bool:
        """Whether nothing more will come from the peer."""
        return self._closed or self._reader.done()

    async def send(self, message: str) -> None:
        """Send one message.

        Raises:
            VoiceError: the stream is broken or did not take the message in time.
        """
        await self._stream.send_text(message)

    async def receive(self) -> Received[E]:
        """Return the next event; may be cancelled.

        Raises:
            VoiceError: the stream ended, and why. Events that came before the end are returned first.
        """
        item = await self._queue.get()
        if isinstance(item, _End):
            self._queue.put_nowait(item)  # the end stays the end
            raise item.error
        return item

    async def close(self) -> None:
        """Close the stream and end the reader. Idempotent; a stream that is broken closes quietly."""
        if self._closed:
            return
        self._closed = True
        try:
            with suppress(TimeoutError, VoiceError):  # it is over either way, and its error was given to the reader
                async with asyncio.timeout(CLOSE_SECONDS):
                    await self._stream.close()
        finally:
            await end_tasks(self._reader)

    async def _read(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            async for message in self._stream:
                await self._queue.put(Received(self._parse(message), loop.time()))
            error: BaseException = ConnectionLostError("the server ended the stream before the conversation was over")
        except Exception as failure:  # noqa: BLE001 - raised again by receive()
            error = failure
        await self._queue.put(_End(error))
