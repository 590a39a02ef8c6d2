"""WebSockets of both sides: whole messages in and out, on the sans-I/O core of `websockets`.

No task and no queue stand between the two: a message is passed on within the call that read it, and a peer that takes
no more pauses the reading from the other (docs/decisions/bridge-server.md).
"""

import asyncio
from collections.abc import Callable
from typing import Any, Self, cast

from websockets.client import ClientProtocol
from websockets.exceptions import InvalidHandshake
from websockets.frames import Close, CloseCode, Frame, Opcode
from websockets.http11 import Request
from websockets.protocol import SEND_EOF, Protocol, Side, State
from websockets.server import ServerProtocol
from websockets.uri import parse_uri

from voxtral_bridge.frames import frame_size, message_frame, text_of
from voxtral_bridge.realtime import error_event

_READ_BUFFER = memoryview(bytearray(64 * 1024))
"""One for all connections: what was read is taken in before the next read."""


MAX_HEAD_BYTES = 64 * 1024
"""Of an HTTP request or answer before its body."""


async def until(changed: asyncio.Event, condition: Callable[[], bool], limit: float) -> bool:
    """Wait for the condition, looked at whenever `changed` is set; return whether it holds within `limit` seconds."""
    try:
        async with asyncio.timeout(limit):
            while not condition():
                changed.clear()
                await changed.wait()
    except TimeoutError:
        return False
    return True


class WebSocket[P: Protocol](asyncio.BufferedProtocol):
    """One side's connection.

    `changed` is set when it ends, or when its peer takes no more or takes more again. `on_message` gets each message
    and whether it is text, from the moment it is assigned.
    """

    def __init__(self, protocol: P, max_payload: int, changed: asyncio.Event) -> None:
        self.protocol = protocol
        self.changed = changed
        self.on_message: Callable[[bytes, bool], None]
        self.other: WebSocket[Any] | None = None
        """The side whose messages go out here, so that it is read no faster than this one takes them."""
        self.paused_since: float | None = None
        """Loop time since which the peer takes no more, None while it does."""
        self.lost = False
        self.transport: asyncio.Transport
        self._reading_paused = False
        self._partial: bytearray | None = None
        self._partial_is_text = True
        self._unread = bytearray()
        self._max_payload = max_payload
        self._is_client = protocol.side is Side.CLIENT
        self._head_is_read = False
        self._close_seen = False

    @property
    def ended(self) -> bool:
        """Whether nothing can be sent any more."""
        return self.lost or self.protocol.state is not State.OPEN

    def send(self, data: bytes, *, is_text: bool = True) -> None:
        """Send one message; it is dropped when the connection has ended."""
        if not self.ended and not self.transport.is_closing():
            self.transport.write(message_frame(data, is_text=is_text, masked=self._is_client))

    def pause_reading(self) -> None:
        if not self._reading_paused and not self.lost:
            self._reading_paused = True
            self.transport.pause_reading()

    def resume_reading(self) -> None:
        if self._reading_paused and not self.lost:
            self._reading_paused = False
            self.transport.resume_reading()

    def receive(self, data: bytes | memoryview) -> None:
        """Take in what came from the peer: plain text is passed on, all else is the core's, whole frame by frame."""
        unread = self._unread
        unread += data
        while unread:
            is_open = self.protocol.state is State.OPEN
            size = frame_size(unread, self._max_payload) if is_open else self._head_size(unread)
            if size == 0:
                return
            unit = unread[:size] if size > 0 else unread[:]
            del unread[: len(unit)]
            may_be_text = is_open and size > 0 and self._partial is None and not self._close_seen
            text = text_of(unit, masked=not self._is_client) if may_be_text else None
            if text is not None:
                self.on_message(text, True)
            else:
                self.protocol.receive_data(unit)
                for event in self.protocol.events_received():
                    self._take(event)
                self._flush()

    def _head_size(self, unread: bytearray) -> int:
        """Bytes of the handshake's head, 0 while it is not whole; afterwards all there is, as -1."""
        if self.protocol.state is not State.CONNECTING or self._head_is_read:
            return -1
        end = unread.find(b"\r\n\r\n")
        if end < 0 and len(unread) < MAX_HEAD_BYTES:
            return 0
        self._head_is_read = True
        return end + 4

    # asyncio calls these

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        del sizehint
        return _READ_BUFFER

    def buffer_updated(self, nbytes: int) -> None:
        self.receive(_READ_BUFFER[:nbytes])

    def eof_received(self) -> bool:
        self.protocol.receive_eof()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self.lost = True
        if self.other is not None:
            self.other.resume_reading()
        self.changed.set()

    def pause_writing(self) -> None:
        self.paused_since = asyncio.get_running_loop().time()
        if self.other is not None:
            self.other.pause_reading()
        self.changed.set()

    def resume_writing(self) -> None:
        self.paused_since = None
        if self.other is not None:
            self.other.resume_reading()
        self.changed.set()

    def _take(self, event: Any) -> None:
        if not isinstance(event, Frame):
            self.changed.set()
        elif event.opcode is Opcode.CLOSE:
            self._close_seen = True
            self.changed.set()
        elif event.opcode in (Opcode.TEXT, Opcode.BINARY, Opcode.CONT) and self.protocol.close_sent is None:
            if event.opcode is not Opcode.CONT:
                self._partial, self._partial_is_text = bytearray(), event.opcode is Opcode.TEXT
            partial = cast("bytearray", self._partial)  # the core fails a continuation of nothing
            partial += event.data
            if event.fin:
                message, self._partial = bytes(partial), None
                self.on_message(message, self._partial_is_text)

    def _flush(self) -> None:
        for data in self.protocol.data_to_send():
            if self.transport.is_closing():
                return
            if data == SEND_EOF:
                self._send_eof()
            else:
                self.transport.write(data)

    def _send_eof(self) -> None:
        self.transport.close()


class _HalfClosable(ServerProtocol):
    """A server that notes the client's Close without answering it; `send_close` is the answer."""

    client_closed = False
    too_big_event = b""
    """Sent before the connection is failed for a message that is too long."""

    def recv_frame(self, frame: Frame) -> None:
        if frame.opcode is Opcode.CLOSE and self.state is State.OPEN:
            Close.parse(frame.data)  # raises ProtocolError, which fails the connection as RFC 6455 wants
            self.client_closed = True
            self.events.append(frame)
        elif not self.client_closed or frame.opcode is Opcode.PING:
            super().recv_frame(frame)

    def fail(self, code: CloseCode | int, reason: str = "") -> None:
        if code == CloseCode.MESSAGE_TOO_BIG and self.state is State.OPEN:
            self.send_text(self.too_big_event)
        super().fail(code, reason)


class ClientSocket(WebSocket[_HalfClosable]):
    """The client's side: its Close is answered only when everything was said.

    SageMaker closes its half of the socket when a client ends its input. Servers on ASGI answer that Close at once,
    after which nothing can be sent, so output still to come is lost. RFC 6455 (5.5.1) lets an endpoint delay the
    answer (docs/decisions/bridge-half-close.md).
    """

    def __init__(self, max_message_bytes: int, serve: Callable[["ClientSocket"], None]) -> None:
        """`serve` is called once the handshake is answered with success."""
        super().__init__(_HalfClosable(max_size=max_message_bytes), max_message_bytes, asyncio.Event())
        limit = f"a message may have {max_message_bytes} bytes; send the audio in smaller pieces"
        self.protocol.too_big_event = error_event("message_too_big", limit)
        self._serve = serve
        self.path = ""
        """Path and query the client asked for."""

    @property
    def client_closed(self) -> bool:
        """Whether the client ended its input by a Close frame and may still be listening."""
        return self.protocol.client_closed

    @property
    def failed(self) -> bool:
        """Whether the client broke the WebSocket protocol, so that the connection was failed on the spot."""
        return self.protocol.parser_exc is not None and self.protocol.close_sent is not None

    async def close(self, code: int, reason: str, *, drain: float, limit: float) -> None:
        """Send the Close, or answer the client's, once what is buffered is out; times in seconds."""
        try:
            await until(self.changed, lambda: self.paused_since is None or self.ended, drain)
            if not self.ended:
                self.protocol.send_close(code, reason)
                self._flush()
            if self.client_closed:
                self.transport.close()  # the closing handshake is complete; what is buffered is still written
            # Read on: a TCP close over unread data would reset the connection and lose what was just sent.
            self.resume_reading()
            await until(self.changed, lambda: self.lost, limit)
        finally:
            self.transport.abort()

    def eof_received(self) -> bool:
        if self.client_closed and not self.ended:
            return True  # the client closed its half of TCP after its Close frame, and may still read
        return super().eof_received()

    def _take(self, event: Any) -> None:
        if not isinstance(event, Request):
            super()._take(event)
            return
        self.path = event.path
        self.protocol.send_response(self.protocol.accept(event))
        if self.protocol.state is State.OPEN:
            self._serve(self)

    def _send_eof(self) -> None:
        if self.client_closed or self.protocol.close_rcvd is not None or self.protocol.handshake_exc is not None:
            self.transport.close()
        else:
            # Failed: half-close, and read on until the client has seen why.
            self.transport.write_eof()
            self.changed.set()


class VllmSocket(WebSocket[ClientProtocol]):
    """vLLM's side."""

    def __init__(
        self,
        protocol: ClientProtocol,
        max_payload: int,
        changed: asyncio.Event,
        on_message: Callable[[bytes, bool], None],
    ) -> None:
        super().__init__(protocol, max_payload, changed)
        self.on_message = on_message
        self._pinged_at = asyncio.get_running_loop().time()
        self._ping_unanswered = False

    @classmethod
    async def connect(
        cls, url: str, *, max_message_bytes: int, changed: asyncio.Event, on_message: Callable[[bytes, bool], None]
    ) -> Self:
        """Open a session on the server at `url`, which is on loopback; the caller has a deadline.

        Raises:
            OSError: nobody listens, or the connection broke.
            websockets.exceptions.WebSocketException: the server refused, or `url` is none.
        """
        uri = parse_uri(url)
        self = cls(ClientProtocol(uri, max_size=max_message_bytes), max_message_bytes, changed, on_message)
        await asyncio.get_running_loop().create_connection(lambda: self, uri.host, uri.port)
        try:
            await self._shake_hands()
        except BaseException:
            self.transport.abort()
            raise
        return self

    async def _shake_hands(self) -> None:
        self.protocol.send_request(self.protocol.connect())
        self._flush()
        while self.protocol.state is State.CONNECTING and not self.lost:
            self.changed.clear()
            await self.changed.wait()
        if self.protocol.handshake_exc is not None:
            raise self.protocol.handshake_exc
        if self.ended:
            raise InvalidHandshake("the connection broke before the handshake was answered")

    def keep_alive(self, interval: float) -> bool:
        """Ping every `interval` seconds; return False when a ping went unanswered for as long."""
        now = asyncio.get_running_loop().time()
        if self._reading_paused:
            self._pinged_at, self._ping_unanswered = now, False  # an answer would wait where nobody reads
        elif now - self._pinged_at >= interval and not self.ended:
            if self._ping_unanswered:
                return False
            self._pinged_at, self._ping_unanswered = now, True
            self.protocol.send_ping(b"")
            self._flush()
        return True

    async def close(self, limit: float) -> None:
        """Close in order, within `limit` seconds; what still comes is passed on meanwhile."""
        try:
            if not self.ended:
                self.protocol.send_close(CloseCode.NORMAL_CLOSURE)
                self._flush()
            await until(self.changed, lambda: self.lost, limit)
        finally:
            self.transport.abort()

    def _take(self, event: Any) -> None:
        if isinstance(event, Frame) and event.opcode is Opcode.PONG:
            self._ping_unanswered = False
        else:
            super()._take(event)
