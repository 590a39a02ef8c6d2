"""WebSockets of both sides: whole messages in and out, on the sans-I/O core of `websockets`.

No task and no queue stand between the two: a message is passed on within the call that read it, and a peer that takes
no more pauses the reading from the other (docs/decisions/bridge-server.md).
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import cast

from websockets.client import ClientProtocol
from websockets.exceptions import InvalidHandshake
from websockets.frames import Close, CloseCode, Frame, Opcode
from websockets.protocol import Protocol, Side, State
from websockets.server import ServerProtocol
from websockets.uri import parse_uri

from voxtral_bridge.frames import frame_bounds, text_frame, text_of
from voxtral_bridge.realtime import error_event

MAX_HEAD_BYTES = 64 * 1024
"""Of an HTTP request or answer before its body."""

_READ_BUFFER = memoryview(bytearray(64 * 1024))
"""One for all connections: what was read is taken in before the next read."""


async def change(changed: asyncio.Event, limit: float) -> None:
    """Wait until `changed` is set, for at most `limit` seconds."""
    changed.clear()
    with suppress(TimeoutError):
        async with asyncio.timeout(limit):
            await changed.wait()


async def until(changed: asyncio.Event, condition: Callable[[], bool], limit: float) -> None:
    """Wait for the condition, looked at whenever `changed` is set, for at most `limit` seconds."""
    end = asyncio.get_running_loop().time() + limit
    while not condition() and (left := end - asyncio.get_running_loop().time()) > 0:
        await change(changed, left)


class WebSocket(asyncio.BufferedProtocol):
    """One side's connection; `changed` is set when something happens to it that is no message."""

    def __init__(
        self, protocol: Protocol, max_message_bytes: int, changed: asyncio.Event, on_message: Callable[[bytes], None]
    ) -> None:
        self.protocol = protocol
        self._max_message_bytes = max_message_bytes
        self.changed = changed
        self.on_message = on_message
        self.other: WebSocket = self
        """The side whose messages go out here, so that it is read no faster than this one takes them."""
        self.paused_since: float | None = None
        """Loop time since which the peer takes no more, None while it does."""
        self.lost = False
        self.transport: asyncio.Transport
        self._is_server = protocol.side is Side.SERVER
        self._head_is_read = False
        self._unread = bytearray()
        self._fragments: bytearray | None = None

    @property
    def ended(self) -> bool:
        """Whether nothing can be sent any more."""
        return self.lost or self.protocol.state is not State.OPEN

    def send(self, data: bytes) -> None:
        """Send one message, as text; it is dropped when the connection has ended."""
        if not self.ended and not self.transport.is_closing():
            self.transport.write(text_frame(data, masked=not self._is_server))

    def hold(self) -> None:
        """Read no further from a peer that wants answers and takes none, so that they do not pile up."""
        if self.paused_since is not None:
            self.transport.pause_reading()

    async def close(self, code: int, reason: str, limit: float, *, drain: float = 0.0) -> None:
        """Close in order within `limit` seconds, and before it `drain` for what is buffered to get out.

        What still comes from the peer is passed on meanwhile.
        """
        try:
            await until(self.changed, lambda: self.paused_since is None or self.ended, drain)
            if not self.ended:
                self.protocol.send_close(code, reason)
                self.flush()
            # Read on: a TCP close over unread data would reset the connection and lose what was just sent.
            self.transport.resume_reading()
            await until(self.changed, lambda: self.lost, limit)
        finally:
            self.transport.abort()

    def receive(self, data: bytes | memoryview) -> None:
        """Take in what came: plain text is passed on, all else is the core's, whole frame by frame."""
        self._unread += data
        while self._unread:
            start, end = self._unit()
            if not end:
                return
            unit = self._unread[:end]
            del self._unread[:end]
            is_plain = start and self._fragments is None
            if is_plain and (text := text_of(unit, start, masked=self._is_server)) is not None:
                self.on_message(text)
                continue
            self.protocol.receive_data(unit)
            for event in self.protocol.events_received():
                self._take(event)
            self.flush()

    def _unit(self) -> tuple[int, int]:
        unread, state = self._unread, self.protocol.state
        if state is State.OPEN:
            return frame_bounds(unread, self._max_message_bytes)
        if state is State.CONNECTING and not self._head_is_read and len(unread) < MAX_HEAD_BYTES:
            end = unread.find(b"\r\n\r\n")
            self._head_is_read = end >= 0
            return 0, end + 4 if self._head_is_read else 0
        return 0, len(unread)

    def _take(self, event: object) -> None:
        if not isinstance(event, Frame) or event.opcode not in (Opcode.TEXT, Opcode.BINARY, Opcode.CONT):
            self.hold()  # a ping has been answered
            self.changed.set()
            return
        self._fragments = self._fragments or bytearray()
        self._fragments += event.data
        if event.fin:
            message, self._fragments = bytes(self._fragments), None
            self.on_message(message)

    def flush(self) -> None:
        """Write what the core has to say."""
        for data in self.protocol.data_to_send():
            if self.transport.is_closing():
                return
            if data:
                self.transport.write(data)
            elif self._is_server and self.protocol.close_rcvd is None:
                self.transport.write_eof()  # failed: read on until the client has seen why
            else:
                self.transport.close()
        if self.ended:
            self.changed.set()

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
        self.resume_writing()

    def pause_writing(self) -> None:
        self.paused_since = asyncio.get_running_loop().time()
        self.other.transport.pause_reading()
        self.changed.set()

    def resume_writing(self) -> None:
        self.paused_since = None
        self.other.transport.resume_reading()
        if self.other.paused_since is None:
            self.transport.resume_reading()
        self.changed.set()


class _HalfClosable(ServerProtocol):
    """A server, after its handshake, that notes the client's Close without answering it; `send_close` answers."""

    def __init__(self, max_message_bytes: int) -> None:
        super().__init__(state=State.OPEN, max_size=max_message_bytes)
        self.held_close: Close | None = None
        """The client ended its input by this, and may still be listening."""
        self._too_big = f"a message may have {max_message_bytes} bytes; send the audio in smaller pieces"

    def recv_frame(self, frame: Frame) -> None:
        if frame.opcode is Opcode.CLOSE and self.state is State.OPEN:
            self.held_close = Close.parse(frame.data)  # an error fails the connection, as RFC 6455 wants
            self.events.append(frame)
        elif self.held_close is None or frame.opcode is Opcode.PING:
            super().recv_frame(frame)

    def send_close(self, code: CloseCode | int | None = None, reason: str = "") -> None:
        super().send_close(code, reason)
        if self.held_close is not None:
            self.close_rcvd = self.held_close
            self.send_eof()

    def fail(self, code: CloseCode | int, reason: str = "") -> None:
        if code == CloseCode.MESSAGE_TOO_BIG and self.state is State.OPEN:
            self.send_text(error_event("message_too_big", self._too_big))
        super().fail(code, reason)


class ClientSocket(WebSocket):
    """The client's side: its Close is answered only when everything was said.

    SageMaker closes its half of the socket when a client ends its input. Servers on ASGI answer that Close at once,
    after which nothing can be sent, so output still to come is lost. RFC 6455 (5.5.1) lets an endpoint delay the
    answer (docs/decisions/bridge-half-close.md).
    """

    protocol: _HalfClosable

    def __init__(self, max_message_bytes: int, target: str) -> None:
        protocol = _HalfClosable(max_message_bytes)
        super().__init__(protocol, max_message_bytes, asyncio.Event(), lambda data: None)
        self.target = target
        """Path and query that the client asked for."""
        self.early = b""
        """What came before this socket was there to take it."""

    def start(self, on_message: Callable[[bytes], None]) -> None:
        """Begin to pass messages on; those before are dropped."""
        self.on_message = on_message
        self.receive(self.early)
        self.transport.resume_reading()

    def eof_received(self) -> bool:
        if self.protocol.held_close is not None and not self.ended:
            return True  # the client closed its half of TCP after its Close frame, and may still read
        return super().eof_received()


async def open_web_socket(
    url: str, *, max_message_bytes: int, changed: asyncio.Event, on_message: Callable[[bytes], None]
) -> WebSocket:
    """Open a session on the server at `url`; the caller has a deadline.

    Raises:
        OSError: nobody listens, or the connection broke.
        websockets.exceptions.WebSocketException: the server refused, or `url` is none.
    """
    uri = parse_uri(url)
    protocol = ClientProtocol(uri, max_size=max_message_bytes)
    socket = WebSocket(protocol, max_message_bytes, changed, on_message)
    await asyncio.get_running_loop().create_connection(lambda: socket, uri.host, uri.port)
    protocol.send_request(protocol.connect())
    socket.flush()
    try:
        while protocol.state is State.CONNECTING and not socket.lost:
            changed.clear()
            await changed.wait()
    finally:
        if socket.ended:
            socket.transport.abort()
    if socket.ended:
        raise protocol.handshake_exc or InvalidHandshake("the connection broke before a session was open")
    return socket
