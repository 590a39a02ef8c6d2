"""HTTP/2 connections and streams over the AWS CRT, shaped as a duplex transport for the AWS SDK.

The SDK's stock CRT transport hides faults: a lost connection looks like the end of a stream or hangs, nothing bounds
what is buffered, every concurrent open makes a connection. This one is written against the CRT's public classes and the
SDK's public extension points (`DuplexClientTransport`, a per-call plugin, an interceptor); what still rests on
behaviour that neither documents is in this file, and tests/client/transport/test_pinned_sdk.py fails when it moves.

The CRT calls back in a thread of its own. Every callback here only posts to the event loop.
"""

import asyncio
import contextlib
import copy
import os
import socket
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future as ThreadFuture
from io import BytesIO
from typing import Any, Literal, Self

from awscrt import http as crt_http
from awscrt import io as crt_io
from smithy_http import Field, Fields
from smithy_http.aio.interfaces import HTTPRequest

from voice_client.errors import ConnectionLostError, ProtocolError, VoiceError
from voice_client.transport.address import StreamAddress, certificate_problem
from voice_client.transport.faults import HttpAnswer, connect_failure, connection_loss, untrusted_certificate
from voice_client.transport.settings import TransportSettings

STREAMS_BEFORE_SETTINGS = 100
"""Streams a connection may carry when the server sets no limit: the least RFC 9113 recommends a server to allow."""

_GOAWAY = "AWS_ERROR_HTTP_GOAWAY_RECEIVED"


class Exchange:
    """One request and its response on one HTTP/2 stream, both as streams of bytes.

    `failure` is set once, by whichever ends the exchange first, and from then on every call raises it.
    """

    def __init__(self, connection: "Connection", *, endpoint: str, settings: TransportSettings) -> None:
        self.connection = connection
        self.failure: VoiceError | None = None
        self.started = False
        self.unprocessed = False
        """True when the server certainly did nothing with the request: it can be sent again on another connection."""
        self.ended: asyncio.Event = asyncio.Event()
        """Set when the CRT is done with the stream, in whichever way."""
        self._endpoint = endpoint
        self._settings = settings
        self._loop = asyncio.get_running_loop()
        self._stream: Any = None
        self._answer: asyncio.Future[HttpAnswer] = self._loop.create_future()
        self._answer.add_done_callback(_retrieve)
        self._chunks: deque[bytes] = deque()
        self._arrival: asyncio.Future[None] | None = None
        self._room: asyncio.Future[None] | None = None
        self._in_flight = 0
        self._input_ended = False
        self._remote_ended = False
        self._discarding = False

    @property
    def request_id(self) -> str | None:
        """The service's id of the request, once it answered."""
        return self._answer.result().request_id if self._answered else None

    @property
    def output_ended(self) -> bool:
        """Whether the peer ended its side in order."""
        return self._remote_ended

    @property
    def _answered(self) -> bool:
        return self._answer.done() and not self._answer.cancelled() and self._answer.exception() is None

    def start(self, request: Any) -> None:
        """Send the request's head. `request` is a CRT request."""
        self.raise_failure()
        try:
            stream = self.connection.binding.request(
                request, on_response=self._on_response, on_body=self._on_body, manual_write=True
            )
            stream.remote_end_stream_future.add_done_callback(self._on_remote_end)
            stream.completion_future.add_done_callback(self._on_complete)
            stream.activate()
        except RuntimeError as error:  # what the CRT raises for a connection that is closing
            self.connection.retired = True
            self.unprocessed = True
            failure = ConnectionLostError("the connection closed before the request was sent", endpoint=self._endpoint)
            failure.__cause__ = error
            self.fail(failure)
            raise failure from error
        self._stream = stream
        self.started = True

    async def answer(self) -> HttpAnswer:
        """Wait for the response's head."""
        return await asyncio.shield(self._answer)

    async def next_chunk(self) -> bytes | None:
        """Return the next bytes of the response in the order they came, None at its end; raises `failure`."""
        while True:
            if self._chunks:
                chunk = self._chunks.popleft()
                self._open_window(len(chunk))
                return chunk
            if self._remote_ended:
                return None
            self.raise_failure()
            self._arrival = self._loop.create_future()
            try:
                await self._arrival
            finally:
                self._arrival = None

    async def room(self, size: int) -> None:
        """Wait until `size` more bytes may be under way, or nothing is. Cancelling this does no harm."""
        while self._in_flight and self._in_flight + size > self._settings.send_buffer_bytes:
            self.raise_if_closed()
            self._room = self._loop.create_future()
            try:
                await self._room
            finally:
                self._room = None
        self.raise_if_closed()

    def write(self, data: bytes) -> None:
        """Hand bytes of the request's body to the connection; never waits, see `room`."""
        self.raise_if_closed()
        self._in_flight += len(data)
        written = self._stream.write_data(BytesIO(data), False)
        written.add_done_callback(lambda done: self._post(self._written, len(data), done.exception()))

    def end_input(self) -> None:
        """End the request's body (END_STREAM). Idempotent; does nothing on an exchange that is over."""
        if self._input_ended or self._stream is None:
            return
        self._input_ended = True
        self._stream.write_data(None, True).add_done_callback(_retrieve)

    def discard_output(self) -> None:
        """Drop what has come and what will come, so that an unread response cannot keep the stream from ending."""
        self._discarding = True
        while self._chunks:
            self._open_window(len(self._chunks.popleft()))

    def fail(self, failure: VoiceError) -> None:
        """End the exchange with an error for both directions; the first one counts."""
        if self.failure is None:
            self.failure = failure
            if not self._answer.done():
                self._answer.set_exception(failure)
            _wake(self._arrival)
            _wake(self._room)

    def raise_failure(self) -> None:
        """Raise what ended the exchange, if anything did."""
        if self.failure is not None:
            # A copy: one error raised to several callers would collect all their tracebacks.
            raise copy.copy(self.failure) from self.failure.__cause__

    def raise_if_closed(self) -> None:
        """Raise when nothing can be sent any more: failed, or ended by either side."""
        self.raise_failure()
        if self._input_ended:
            raise ProtocolError("the stream's input was ended; nothing more can be sent", endpoint=self._endpoint)
        if self._remote_ended or self._stream is None:
            raise ConnectionLostError(
                "the endpoint has ended the stream", endpoint=self._endpoint, request_id=self.request_id
            )

    async def error_body(self) -> bytes:
        """Read the body of an error's response, up to the limits."""
        body = b""
        with contextlib.suppress(VoiceError, TimeoutError):  # what came until then is what there is to say
            async with asyncio.timeout(self._settings.error_body_seconds):
                while len(body) < self._settings.error_body_bytes and (chunk := await self.next_chunk()) is not None:
                    body += chunk
        return body

    def _open_window(self, size: int) -> None:
        if self._stream is not None and not self._remote_ended:
            self._stream.update_window(size)

    # In the CRT's thread:

    def _on_response(self, *, status_code: int, headers: list[tuple[str, str]], **_: Any) -> None:
        answer = HttpAnswer(status_code, {name.lower(): value for name, value in headers})
        self._post(self._answer_came, answer)

    def _on_body(self, *, chunk: bytes, **_: Any) -> None:
        self._post(self._chunk_came, bytes(chunk))

    def _on_remote_end(self, ended: "ThreadFuture[None]") -> None:
        if ended.exception() is None:
            self._post(self._remote_end_came)

    def _on_complete(self, completed: "ThreadFuture[int]") -> None:
        self._post(self._completed, completed.exception())

    def _post(self, callback: Callable[..., None], *args: Any) -> None:
        with contextlib.suppress(RuntimeError):  # the event loop is closed, and with it everyone who listened
            self._loop.call_soon_threadsafe(callback, *args)

    # In the event loop again:

    def _answer_came(self, answer: HttpAnswer) -> None:
        if not self._answer.done():
            self._answer.set_result(answer)

    def _chunk_came(self, chunk: bytes) -> None:
        if self._discarding:
            self._open_window(len(chunk))
        else:
            self._chunks.append(chunk)
            _wake(self._arrival)

    def _remote_end_came(self) -> None:
        self._remote_ended = True
        _wake(self._arrival)
        _wake(self._room)

    def _written(self, size: int, error: BaseException | None) -> None:
        del error  # a failed write is followed by the stream's completion, which says why
        self._in_flight -= size
        _wake(self._room)

    def _completed(self, error: BaseException | None) -> None:
        self._stream = None  # breaks the cycle with the CRT's stream, which holds our callbacks
        if not self._remote_ended:
            # Also without an error code: a stream that is over though its peer never ended it was cut.
            if getattr(error, "name", "") == _GOAWAY:
                # The server is leaving, and by RFC 9113, 6.8, has not processed and will not process this stream.
                self.connection.retired = True
                self.unprocessed = True
            cut = error or ConnectionError("the stream was cut")
            failure = connection_loss(cut, endpoint=self._endpoint, request_id=self.request_id)
            failure.__cause__ = error
            self.fail(failure)
        self.ended.set()
        _wake(self._arrival)
        _wake(self._room)
        self.connection.release(self)


class Connection:
    """One HTTP/2 connection and how many streams it carries."""

    def __init__(self, binding: Any) -> None:
        self.binding = binding
        self.limit = STREAMS_BEFORE_SETTINGS
        self.retired = False
        """True when no further stream may be opened on it."""
        self._reserved = 0
        self._abandoned: set[Exchange] = set()

    @property
    def usable(self) -> bool:
        """Whether one more stream may be opened."""
        return not self.retired and self._reserved < self.limit and self.open

    @property
    def open(self) -> bool:
        """Whether it is still connected."""
        return bool(self.binding.is_open())

    def reserve(self) -> Self:
        """Count one more stream."""
        self._reserved += 1
        return self

    def release(self, exchange: Exchange) -> None:
        """Count one stream less: it is over, or was never begun."""
        self._reserved -= 1
        self._abandoned.discard(exchange)
        self._close_when_idle()

    def abandon(self, exchange: Exchange) -> None:
        """Give up on a stream that does not end.

        The CRT cannot reset a single stream from Python, so the connection takes no new ones, and closes as soon as
        only abandoned streams are left on it.
        """
        self._abandoned.add(exchange)
        self.retired = True
        self._close_when_idle()

    def _close_when_idle(self) -> None:
        if self.retired and self._reserved <= len(self._abandoned):
            self.close()

    def close(self) -> "ThreadFuture[None]":
        """Close it, with all its streams. Idempotent; the future completes when the socket is gone."""
        self.retired = True
        closing: ThreadFuture[None] = self.binding.close()
        return closing


class ConnectionPool:
    """Connections to one address, shared by streams; a further one is made when all are full.

    Owns the CRT's event-loop thread; `close` ends it.
    """

    def __init__(self, address: StreamAddress, *, endpoint: str, settings: TransportSettings) -> None:
        self._address = address
        self._endpoint = endpoint
        self._settings = settings
        self._connections: list[Connection] = []
        self._connecting: asyncio.Task[Connection] | None = None
        self._closed = False
        self._event_loops = crt_io.EventLoopGroup(1)
        self._bootstrap = crt_io.ClientBootstrap(self._event_loops, crt_io.DefaultHostResolver(self._event_loops))
        tls = crt_io.TlsContextOptions()
        if address.authorities is not None:
            tls.override_default_trust_store(address.authorities)
        self._tls = crt_io.ClientTlsContext(tls)

    async def acquire(self) -> Connection:
        """Return a connection with one stream reserved on it.

        Raises:
            ConnectError: it cannot be made, within the connect deadline.
        """
        while True:
            if self._closed:
                raise ProtocolError("the transport is closed", endpoint=self._endpoint)
            self._connections = [connection for connection in self._connections if connection.open]
            for connection in self._connections:
                if connection.usable:
                    return connection.reserve()
            # One attempt at a time, which all waiting opens share with its outcome.
            if self._connecting is None:
                self._connecting = asyncio.create_task(self._connect(), name="voice: connect")
                self._connecting.add_done_callback(self._connected)
            attempt = self._connecting
            await asyncio.wait({attempt})
            if attempt.cancelled():
                raise ProtocolError("the transport was closed while connecting", endpoint=self._endpoint)
            if (error := attempt.exception()) is not None:
                raise copy.copy(error) from error.__cause__

    async def close(self) -> None:
        """Close all connections and end the CRT's thread; returns within the close deadline."""
        self._closed = True
        if self._connecting is not None:
            self._connecting.cancel()
            await asyncio.wait({self._connecting})
        closing = [asyncio.wrap_future(connection.close()) for connection in self._connections]
        self._connections.clear()
        for future in closing:
            future.add_done_callback(_retrieve)
        if closing:
            await asyncio.wait(closing, timeout=self._settings.close_seconds)
        del self._bootstrap, self._tls, self._event_loops

    def _connected(self, attempt: "asyncio.Task[Connection]") -> None:
        self._connecting = None
        if not attempt.cancelled() and attempt.exception() is None:
            self._connections.append(attempt.result())

    async def _connect(self) -> Connection:
        known_sockets = _open_descriptors()
        limits: asyncio.Queue[int | None] = asyncio.Queue()
        pending = self._begin_connecting(limits)
        try:
            connection = Connection(await self._connection(pending))
        except BaseException:
            # It may yet succeed, when nobody wants it any more.
            pending.add_done_callback(_close_late)
            raise
        _tune_new_sockets(
            known_sockets, self._address.port, unacknowledged_seconds=self._settings.unacknowledged_seconds
        )
        await self._learn_limit(connection, limits)
        return connection

    async def _connection(self, pending: "ThreadFuture[Any]") -> Any:
        """Wait for the CRT's connection within the connect deadline, or find out why it does not come."""
        url = self._address.url
        connecting = asyncio.wrap_future(pending)
        connecting.add_done_callback(_retrieve)
        patience = min(self._settings.certificate_check_after_seconds, self._settings.connect_seconds)
        remaining = self._settings.connect_seconds - patience
        # asyncio.wait, for it leaves the future alone: the CRT's thread must find it uncancelled.
        await asyncio.wait({connecting}, timeout=patience)
        if not connecting.done() or connecting.exception() is not None:
            problem = await certificate_problem(self._address, deadline_seconds=max(remaining, patience))
            if problem is not None:
                raise untrusted_certificate(url, problem, endpoint=self._endpoint)
        await asyncio.wait({connecting}, timeout=remaining)
        if not connecting.done():
            reason = f"no connection within {self._settings.connect_seconds:g} s"
            raise connect_failure(url, reason, endpoint=self._endpoint)
        if (error := connecting.exception()) is not None:
            raise connect_failure(url, _crt_reason(error), endpoint=self._endpoint) from error
        return connecting.result()

    def _begin_connecting(self, limits: "asyncio.Queue[int | None]") -> "ThreadFuture[Any]":
        loop = asyncio.get_running_loop()

        def on_settings(settings: list[crt_http.Http2Setting]) -> None:
            limit = {s.id: s.value for s in settings}.get(crt_http.Http2SettingID.MAX_CONCURRENT_STREAMS)
            with contextlib.suppress(RuntimeError):  # the event loop is closed
                loop.call_soon_threadsafe(limits.put_nowait, limit)

        tls = self._tls.new_connection_options()
        tls.set_server_name(self._address.host)
        tls.set_alpn_list(["h2"])
        options = crt_io.SocketOptions()
        options.connect_timeout_ms = round(self._settings.connect_seconds * 1000)
        options.keep_alive = True
        options.keep_alive_timeout_secs = self._settings.keepalive_idle_seconds
        options.keep_alive_interval_secs = self._settings.keepalive_interval_seconds
        options.keep_alive_max_probes = self._settings.keepalive_probes
        pending: ThreadFuture[Any] = crt_http.Http2ClientConnection.new(
            host_name=self._address.host,
            port=self._address.port,
            bootstrap=self._bootstrap,
            socket_options=options,
            tls_connection_options=tls,
            on_remote_settings_changed=on_settings,
            # Each stream's window opens only as its bytes are read: this is what bounds memory.
            manual_window_management=True,
            initial_window_size=self._settings.receive_window_bytes,
        )
        return pending

    async def _learn_limit(self, connection: Connection, limits: "asyncio.Queue[int | None]") -> None:
        # A server's first frame is its SETTINGS (RFC 9113, 3.4). The CRT lets streams beyond the limit wait for ever.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._settings.certificate_check_after_seconds):
                connection.limit = await limits.get() or STREAMS_BEFORE_SETTINGS


class StreamTransport:
    """What the SDK takes for its transport: sends one request, on one exchange."""

    TIMEOUT_EXCEPTIONS: tuple[type[Exception], ...] = ()
    SUPPORTS_DUPLEX_STREAMING: Literal[True] = True

    def __init__(self, exchange: Exchange | None = None) -> None:
        self._exchange = exchange

    async def send(self, request: HTTPRequest, *, request_config: Any = None) -> "StreamResponse":
        """Send the head, wait for the answer's; for an error, for its body. Ours is written through `RequestBody`."""
        del request_config
        if self._exchange is None:
            raise ProtocolError("a request outside of a stream")
        self._exchange.start(_crt_request(request))
        answer = await self._exchange.answer()
        if answer.status >= 300:
            answer.body = await self._exchange.error_body()
        return StreamResponse(answer, self._exchange)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self  # the SDK copies its configuration for every call


class StreamResponse:
    """The answer in the SDK's terms."""

    reason: str | None = None

    def __init__(self, answer: HttpAnswer, exchange: Exchange) -> None:
        self.status = answer.status
        self.fields = Fields([Field(name=name, values=[value]) for name, value in answer.headers.items()])
        self.body: bytes | ResponseBody = answer.body if answer.status >= 300 else ResponseBody(exchange)


class ResponseBody:
    """The bytes of the response; raises the exchange's failure, which a lost connection is, rather than just end."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        chunk = await self._exchange.next_chunk()
        if chunk is None:
            raise StopAsyncIteration
        return chunk


class RequestBody:
    """Takes the place of the SDK's body buffer, so that a write fails at once when the stream does."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange

    async def write(self, data: bytes) -> None:
        """Write a signed frame. Never suspends: a frame that is signed but not sent would break the signature chain."""
        self._exchange.write(data)

    async def close(self) -> None:
        """End the body."""
        self._exchange.end_input()


def _crt_request(request: HTTPRequest) -> Any:
    headers = [(item.name, value) for item in request.fields.entries.values() for value in item.values]
    if "host" not in request.fields:
        headers.append(("host", request.destination.netloc))  # the CRT makes it the :authority
    path = request.destination.path or "/"
    query = f"?{request.destination.query}" if request.destination.query else ""
    return crt_http.HttpRequest(method=request.method, path=path + query, headers=crt_http.HttpHeaders(headers))


def _crt_reason(error: BaseException) -> str:
    return f"{getattr(error, 'message', None) or error} ({getattr(error, 'name', type(error).__name__)})"


def _wake(waiter: "asyncio.Future[None] | None") -> None:
    if waiter is not None and not waiter.done():
        waiter.set_result(None)


def _retrieve(done: Any) -> None:
    """Take a future's exception, so that nobody reports it as never retrieved."""
    if not done.cancelled():
        done.exception()


def _close_late(pending: "ThreadFuture[Any]") -> None:
    if not pending.cancelled() and pending.exception() is None:
        pending.result().close()


def _open_descriptors() -> frozenset[tuple[int, int]]:
    """Return the numbers of the open descriptors, each with its inode, since a number alone is reused at once."""
    found = set()
    with contextlib.suppress(OSError):  # no such directory here
        for name in os.listdir("/dev/fd"):  # noqa: PTH208  # names, not paths
            with contextlib.suppress(OSError):  # the listing's own, closed by now
                found.add((int(name), os.fstat(int(name)).st_ino))
    return frozenset(found)


def _tune_new_sockets(known: frozenset[tuple[int, int]], port: int, *, unacknowledged_seconds: float) -> None:
    """Set TCP_NODELAY, and on Linux TCP_USER_TIMEOUT, on the sockets to `port` that were not open before.

    The CRT offers neither option, nor its descriptor. Without the first, Nagle's algorithm meets the peer's delayed
    acknowledgement and every other small message waits 40 ms; without the second, a peer that vanished is noticed after
    minutes. Where descriptors cannot be listed nothing is set, and only that is lost. (Not tested on macOS.)
    """
    for descriptor, _ in _open_descriptors() - known:
        try:
            duplicate = os.dup(descriptor)
        except OSError:
            continue  # closed meanwhile
        try:
            candidate = socket.socket(fileno=duplicate)
        except OSError:
            os.close(duplicate)  # not a socket
            continue
        with candidate, contextlib.suppress(OSError):  # not connected
            if candidate.type == socket.SOCK_STREAM and candidate.getpeername()[1:2] == (port,):
                candidate.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                if hasattr(socket, "TCP_USER_TIMEOUT"):
                    milliseconds = round(unacknowledged_seconds * 1000)
                    candidate.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, milliseconds)
