"""HTTP/2 connections over the AWS CRT, shared by streams.

Written against the CRT's public classes. The SDK's stock CRT transport makes one connection for each concurrent open,
waits for ever on a full one, and puts no bound on what a server may send ahead.
"""

import asyncio
import contextlib
import copy
from concurrent.futures import Future as ThreadFuture
from typing import Any, Self

from awscrt import http as crt_http
from awscrt import io as crt_io

from voice_client.errors import ProtocolError
from voice_client.transport.address import StreamAddress, certificate_problem
from voice_client.transport.faults import connect_failure, untrusted_certificate
from voice_client.transport.settings import TransportSettings
from voice_client.transport.socket_options import open_descriptors, tune_new_sockets

STREAMS_BEFORE_SETTINGS = 100
"""Streams a connection may carry when the server sets no limit: the least RFC 9113 recommends a server to allow."""


class Connection:
    """One HTTP/2 connection and how many streams it carries."""

    def __init__(self, binding: Any) -> None:
        self.binding = binding
        self.limit = STREAMS_BEFORE_SETTINGS
        self.retired = False
        """True when no further stream may be opened on it."""
        self._reserved = 0
        self._abandoned: set[object] = set()

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

    def release(self, exchange: object) -> None:
        """Count one stream less: it is over, or was never begun."""
        self._reserved -= 1
        self._abandoned.discard(exchange)
        self._close_when_idle()

    def abandon(self, exchange: object) -> None:
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
            future.add_done_callback(retrieve_exception)
        if closing:
            await asyncio.wait(closing, timeout=self._settings.close_seconds)
        del self._bootstrap, self._tls, self._event_loops

    def _connected(self, attempt: "asyncio.Task[Connection]") -> None:
        self._connecting = None
        if not attempt.cancelled() and attempt.exception() is None:
            self._connections.append(attempt.result())

    async def _connect(self) -> Connection:
        known_sockets = open_descriptors()
        limits: asyncio.Queue[int | None] = asyncio.Queue()
        pending = self._begin_connecting(limits)
        try:
            connection = Connection(await self._connection(pending))
        except BaseException:
            # It may yet succeed, when nobody wants it any more.
            pending.add_done_callback(_close_late)
            raise
        tune_new_sockets(
            known_sockets, self._address.port, unacknowledged_seconds=self._settings.unacknowledged_seconds
        )
        await self._learn_limit(connection, limits)
        return connection

    async def _connection(self, pending: "ThreadFuture[Any]") -> Any:
        """Wait for the CRT's connection within the connect deadline, or find out why it does not come."""
        url = self._address.url
        connecting = asyncio.wrap_future(pending)
        connecting.add_done_callback(retrieve_exception)
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


def _crt_reason(error: BaseException) -> str:
    return f"{getattr(error, 'message', None) or error} ({getattr(error, 'name', type(error).__name__)})"


def retrieve_exception(done: Any) -> None:
    """Take a future's exception, so that nobody reports it as never retrieved."""
    if not done.cancelled():
        done.exception()


def _close_late(pending: "ThreadFuture[Any]") -> None:
    if not pending.cancelled() and pending.exception() is None:
        pending.result().close()
