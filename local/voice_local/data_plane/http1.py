"""HTTP/1.1 on asyncio, over the sans-I/O library h11: for plain requests, which AWS serves beside its HTTP/2 port.

A connection answers one request after another. It reads ahead by a bounded amount only, so that a client that sends
faster than its request is read is held back by TCP.
"""

import asyncio
import contextlib
import re
from collections.abc import Sequence
from typing import cast

import h11
from h2.errors import ErrorCodes

from voice_local.data_plane.connections import Connections
from voice_local.data_plane.errors import StreamBrokenError
from voice_local.data_plane.request_stream import Serve
from voice_local.data_plane.settings import DataPlaneSettings

READ_AHEAD = 1024 * 1024
"""Bytes of a body that may wait to be read before the socket is left alone."""

# Clients that take the server for a proxy send the whole URL; servers must understand that (RFC 9112, section 3.2.2).
_ABSOLUTE_FORM = re.compile(r"http://([^/?]*)(.*)", re.IGNORECASE)


class Http1Stream:
    """One request and its response."""

    def __init__(self, connection: "Http1Connection", headers: Sequence[tuple[str, str]]) -> None:
        self.headers = tuple(headers)
        self._connection = connection
        self._received: list[bytes] = []
        self._size = 0
        self._input_ended = False
        self._broken: str | None = None
        self._readable = asyncio.Event()
        self._broke = asyncio.Event()

    async def receive(self) -> bytes | None:
        """Return what has arrived since the last call, waiting for it; None when the request is over.

        Raises:
            StreamBrokenError: the client is gone.
        """
        while not self._received:
            self._raise_if_broken()
            if self._input_ended:
                return None
            self._connection.welcome_body()
            self._readable.clear()
            await self._readable.wait()
        data = b"".join(self._received)
        self._received.clear()
        self._size = 0
        self._connection.resume_reading()
        return data

    def send_headers(self, status: int, headers: Sequence[tuple[str, str]]) -> None:
        """Begin the response; without a content-length it goes out in chunks.

        Raises:
            StreamBrokenError: the client is gone.
        """
        self._raise_if_broken()
        self._connection.send(h11.Response(status_code=status, headers=list(headers)))

    async def send(self, data: bytes) -> None:
        """Send a piece of the response body.

        Raises:
            StreamBrokenError: the client is gone.
        """
        self._raise_if_broken()
        await self._connection.wait_writable()
        self._raise_if_broken()
        self._connection.send(h11.Data(data=data))

    async def complete(self, data: bytes, seconds: float) -> None:
        """Send the last piece of the response; drop the client when it does not take it within `seconds`.

        Raises:
            StreamBrokenError: the client is gone.
        """
        try:
            async with asyncio.timeout(seconds):
                await self.send(data)
        except TimeoutError:
            self.reset(ErrorCodes.CANCEL)
        else:
            self._connection.send(h11.EndOfMessage())

    def reset(self, code: ErrorCodes) -> None:
        """Drop the connection: HTTP/1.1 has no other way to break a response off."""
        if self._broken is None:
            self.on_broken(f"the platform reset the stream ({code.name})")
            self._connection.abort()

    async def wait_broken(self) -> None:
        """Wait until the client is gone, and raise.

        Raises:
            StreamBrokenError: always.
        """
        await self._broke.wait()
        self._raise_if_broken()

    # Called by the connection.

    def on_data(self, data: bytes) -> int:
        """Take a piece of the body in; return how many bytes wait to be read."""
        self._received.append(data)
        self._size += len(data)
        self._readable.set()
        return self._size

    def on_input_ended(self) -> None:
        self._input_ended = True
        self._readable.set()

    def on_broken(self, reason: str) -> None:
        if self._broken is None:
            self._broken = reason
            self._readable.set()
            self._broke.set()

    def _raise_if_broken(self) -> None:
        if self._broken is not None:
            raise StreamBrokenError(self._broken)


class Http1Connection(asyncio.Protocol):
    """One socket. Its requests become tasks that run `serve`, one after the other."""

    def __init__(self, serve: Serve, settings: DataPlaneSettings, siblings: Connections) -> None:
        self._serve = serve
        self._settings = settings
        self._siblings = siblings
        self._loop = asyncio.get_running_loop()
        self._h11 = h11.Connection(h11.SERVER, max_incomplete_event_size=settings.largest_header_list)
        self._stream: Http1Stream | None = None
        self._task: asyncio.Task[None] | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._lost = asyncio.Event()
        self._idle: asyncio.TimerHandle | None = None
        self._transport: asyncio.Transport | None = None

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        if not self._siblings.admit(self):
            self._transport.close()
            return
        self._watch_idleness()

    def data_received(self, data: bytes) -> None:
        self._h11.receive_data(data)
        self._read_events()

    def eof_received(self) -> bool:
        # A client that closes its half has gone: nothing here takes long enough for anyone to want to wait so.
        self._h11.receive_data(b"")
        self._read_events()
        return False

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget_idleness()
        self._writable.set()
        if self._stream is not None:
            self._stream.on_broken("the client's connection is gone")
        self._lost.set()
        self._dismiss_if_over()

    # What a stream needs of its connection

    async def wait_writable(self) -> None:
        """Wait until the socket's write buffer has room."""
        await self._writable.wait()

    def welcome_body(self) -> None:
        """Tell a client that asks first (`Expect: 100-continue`) that its body may come."""
        if self._h11.they_are_waiting_for_100_continue:
            self.send(h11.InformationalResponse(status_code=100, headers=[]))

    def resume_reading(self) -> None:
        """Read on after the stream has taken what waited."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def send(self, event: h11.Event) -> None:
        """Write an event of the response.

        Raises:
            StreamBrokenError: the connection is in no state to send it.
        """
        try:
            data = self._h11.send(event)
        except h11.LocalProtocolError as error:
            raise StreamBrokenError(f"the response cannot go on ({error})") from error
        if data and self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def abort(self) -> None:
        """Drop the socket without a word."""
        if self._transport is not None:
            self._transport.abort()

    async def shut_down(self, seconds: float) -> None:
        """End the request and the connection; returns when task and socket are gone."""
        tasks = [] if self._task is None else [self._task]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=seconds)
        self.abort()
        await self._lost.wait()
        if tasks:
            await asyncio.wait(tasks)

    # Events

    def _read_events(self) -> None:
        try:
            while (event := self._h11.next_event()) is not h11.NEED_DATA and event is not h11.PAUSED:
                if isinstance(event, h11.ConnectionClosed):
                    self._leave()
                    return
                self._on_event(event)
        except h11.RemoteProtocolError as error:
            self._refuse(error)

    def _on_event(self, event: h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]) -> None:
        if isinstance(event, h11.Request):
            self._open_stream(event)
        elif self._stream is not None and isinstance(event, h11.Data):
            if self._stream.on_data(bytes(event.data)) > READ_AHEAD and self._transport is not None:
                self._transport.pause_reading()
        elif self._stream is not None and isinstance(event, h11.EndOfMessage):
            self._stream.on_input_ended()

    def _open_stream(self, request: h11.Request) -> None:
        self._forget_idleness()
        headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in request.headers]
        authority = next((value for name, value in headers if name == "host"), "")
        target = request.target.decode("latin-1")
        if whole := _ABSOLUTE_FORM.fullmatch(target):
            authority, target = whole[1], whole[2] or "/"
        pseudo = ((":method", request.method.decode()), (":path", target), (":authority", authority))
        stream = Http1Stream(self, (*pseudo, *headers))
        self._stream = stream
        self._task = self._loop.create_task(self._serve(stream), name="data-plane-request")
        self._task.add_done_callback(self._close_stream)

    def _close_stream(self, task: asyncio.Task[None]) -> None:
        self._stream = self._task = None
        if not task.cancelled() and task.exception() is not None:
            self.abort()
        self._dismiss_if_over()
        if self._lost.is_set():
            return
        if self._h11.our_state is h11.DONE and self._h11.their_state is h11.DONE:
            self._h11.start_next_cycle()
            self.resume_reading()
            self._watch_idleness()
            self._read_events()
        else:
            self._leave()

    def _leave(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def _refuse(self, error: h11.RemoteProtocolError) -> None:
        """Answer bytes that are no HTTP/1.1 as far as the state of the connection still allows it."""
        with contextlib.suppress(StreamBrokenError):
            if self._h11.our_state in (h11.IDLE, h11.SEND_RESPONSE) and self._stream is None:
                closing = [("connection", "close"), ("content-length", "0")]
                self.send(h11.Response(status_code=error.error_status_hint, headers=closing))
                self.send(h11.EndOfMessage())
        if self._stream is not None:
            self._stream.on_broken("the client broke the HTTP/1.1 protocol")
        self._leave()

    def _dismiss_if_over(self) -> None:
        if self._lost.is_set() and self._task is None:
            self._siblings.dismiss(self)

    def _watch_idleness(self) -> None:
        self._idle = self._loop.call_later(self._settings.idle_connection_seconds, self._leave)

    def _forget_idleness(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
