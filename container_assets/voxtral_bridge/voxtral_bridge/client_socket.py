"""The client's side: a WebSocket whose closing reply is held back until everything was said.

SageMaker closes its half of the socket when a client ends its input. Servers on ASGI answer that Close at once,
after which nothing can be sent, so output still to come is lost. RFC 6455 (5.5.1) lets an endpoint delay the
answer; this one does, on the sans-I/O core of `websockets` (docs/decisions/bridge-half-close.md).
"""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from http import HTTPStatus
from typing import Any, NamedTuple, cast

from uvicorn.server import ServerState
from websockets.frames import Close, CloseCode, Frame, Opcode
from websockets.http11 import Request
from websockets.protocol import SEND_EOF, State
from websockets.server import ServerProtocol

from voxtral_bridge.errors import ClientGoneError
from voxtral_bridge.realtime import error_event
from voxtral_bridge.settings import BridgeSettings

PATHS = frozenset({"/invocations-bidirectional-stream", "/v1/realtime"})
"""SageMaker's default path, and vLLM's own, which a client may name as its model invocation path."""


class Message(NamedTuple):
    """One whole WebSocket message."""

    data: bytes
    is_text: bool


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


class ClientSocket(asyncio.Protocol):
    """One client's WebSocket; uvicorn hands the connection over when it sees the upgrade.

    `serve` runs as a task from the handshake on; `receive`, `send` and `close` are for it alone.
    """

    def __init__(
        self,
        settings: BridgeSettings,
        serve: Callable[["ClientSocket"], Coroutine[Any, Any, None]],
        server_state: ServerState,
    ) -> None:
        self._settings = settings
        self._serve = serve
        self._state = server_state
        self._protocol = _HalfClosable(max_size=settings.max_message_bytes)
        limit = f"a message may have {settings.max_message_bytes} bytes; send the audio in smaller pieces"
        self._protocol.too_big_event = error_event("message_too_big", limit)
        self._inbox: deque[Message] = deque()
        self._inbox_bytes = 0
        self._fragments: list[bytes] = []
        self._fragments_are_text = True
        self._readable = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()
        self._lost = asyncio.Event()
        self._transport: asyncio.Transport
        self.path = ""
        """Path and query the client asked for."""
        self.shutdown_requested = asyncio.Event()
        """Set when the server is asked to stop."""

    @property
    def client_closed(self) -> bool:
        """Whether the client ended its input by a Close frame and may still be listening."""
        return self._protocol.client_closed

    @property
    def gone(self) -> bool:
        """Whether nothing can be sent any more."""
        return self._lost.is_set() or self._protocol.state is not State.OPEN

    @property
    def failed(self) -> bool:
        """Whether the client broke the WebSocket protocol, so that the connection was failed on the spot."""
        return self._protocol.parser_exc is not None and self._protocol.close_sent is not None

    async def receive(self) -> Message | None:
        """Return the next message, None when the client sends no more: it closed (`client_closed`) or vanished."""
        while not self._inbox:
            if self.client_closed or self.gone:
                return None
            self._readable.clear()
            await self._readable.wait()
        message = self._inbox.popleft()
        self._inbox_bytes -= len(message.data)
        if self._inbox_bytes <= self._settings.inbox_bytes // 2 and not self._lost.is_set():
            self._transport.resume_reading()
        return message

    async def send(self, message: Message) -> None:
        """Send one message; waits while the client reads too slowly.

        Raises:
            ClientGoneError: the connection is lost.
        """
        await self._writable.wait()
        if self.gone:
            raise ClientGoneError("the client's connection is lost")
        if message.is_text:
            self._protocol.send_text(message.data)
        else:
            self._protocol.send_binary(message.data)
        self._flush()

    async def close(self, code: int, reason: str) -> None:
        """Send the Close, or answer the client's, and wait a bounded time until the connection is down."""
        try:
            async with asyncio.timeout(self._settings.drain_timeout):
                await self._writable.wait()  # a slow reader gets what is buffered
            if not self.gone:
                self._protocol.send_close(code, reason)
                self._flush()
            if self.client_closed:
                self._transport.close()  # the closing handshake is complete; what is buffered is still written
            elif not self._lost.is_set():
                # Go on reading: a TCP close over unread data would reset the connection and lose what was just sent.
                self._transport.resume_reading()
            async with asyncio.timeout(self._settings.close_timeout):
                await self._lost.wait()
        except TimeoutError:
            pass
        finally:
            self._transport.abort()

    # asyncio calls these

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._state.connections.add(cast("Any", self))

    def data_received(self, data: bytes) -> None:
        self._protocol.receive_data(data)
        for event in self._protocol.events_received():
            if isinstance(event, Request):
                self._answer_handshake(event)
            elif isinstance(event, Frame) and self._protocol.close_sent is None:
                self._take(event)
        self._flush()

    def eof_received(self) -> bool:
        if self.client_closed and not self.gone:
            return True  # the client closed its half of TCP after its Close frame, and may still read
        self._protocol.receive_eof()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._state.connections.discard(cast("Any", self))
        self._lost.set()
        self._readable.set()
        self._writable.set()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def shutdown(self) -> None:
        """uvicorn asks every connection to come to an end."""
        self.shutdown_requested.set()

    def _answer_handshake(self, request: Request) -> None:
        self.path = request.path
        if request.path.partition("?")[0] in PATHS:
            response = self._protocol.accept(request)
        else:
            response = self._protocol.reject(HTTPStatus.NOT_FOUND, f"no WebSocket here: use {' or '.join(PATHS)}\n")
        self._protocol.send_response(response)
        if self._protocol.state is State.OPEN:
            task = asyncio.get_running_loop().create_task(self._serve(self))
            self._state.tasks.add(task)
            task.add_done_callback(self._state.tasks.discard)

    def _take(self, frame: Frame) -> None:
        if frame.opcode in (Opcode.TEXT, Opcode.BINARY, Opcode.CONT):
            if frame.opcode is not Opcode.CONT:
                self._fragments_are_text = frame.opcode is Opcode.TEXT
            self._fragments.append(bytes(frame.data))
            if not frame.fin:
                return
            message = Message(b"".join(self._fragments), self._fragments_are_text)
            self._fragments.clear()
            self._inbox.append(message)
            self._inbox_bytes += len(message.data)
            if self._inbox_bytes > self._settings.inbox_bytes:
                self._transport.pause_reading()
        self._readable.set()

    def _flush(self) -> None:
        for data in self._protocol.data_to_send():
            if self._transport.is_closing():
                return
            if data != SEND_EOF:
                self._transport.write(data)
            elif self.client_closed or self._protocol.close_rcvd is not None:
                self._transport.close()
            else:
                # Failed: half-close, and read on until the client has seen why.
                self._transport.write_eof()
                self._readable.set()
