"""Shows every message of a stream to an observer, on its way up and down."""

from collections.abc import AsyncIterator, Callable
from typing import Literal

from voice_client.session.connection import MessageStream, StreamOpener

type Direction = Literal["sent", "received"]

type Observer = Callable[[Direction, str | bytes], None]
"""Is shown each message as it is. It holds audio and spoken words: whoever writes it down has to leave those out."""


def observed(opener: StreamOpener, observer: Observer) -> StreamOpener:
    """Return an opener whose streams show their messages."""

    async def open_stream() -> MessageStream:
        return _ObservedStream(await opener(), observer)

    return open_stream


class _ObservedStream:
    def __init__(self, stream: MessageStream, observer: Observer) -> None:
        self._stream = stream
        self._observe = observer
        self.end_input = stream.end_input
        self.close = stream.close

    async def send_text(self, text: str, /) -> None:
        self._observe("sent", text)
        await self._stream.send_text(text)

    async def __aiter__(self) -> AsyncIterator[str | bytes]:
        async for message in self._stream:
            self._observe("received", message)
            yield message
