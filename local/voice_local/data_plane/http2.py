"""HTTP/2 on asyncio: one `Http2Connection` a socket, one `Http2Stream` a request, over the sans-I/O library h2.

Flow control is honoured both ways. What a stream receives is acknowledged only when its reader comes back for more,
so that a container that does not read slows down its own client; the connection's window holds the windows of all
streams, so that one stream that nobody reads never stops its siblings.
"""

import asyncio
import contextlib
import logging
import socket
import struct
import sys
from collections.abc import Iterator, Sequence
from typing import Any, cast

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import (
    DataReceived,
    Event,
    RemoteSettingsChanged,
    RequestReceived,
    StreamEnded,
    StreamReset,
    WindowUpdated,
)
from h2.exceptions import H2Error
from h2.settings import SettingCodes, Settings
from hyperframe.frame import GoAwayFrame

from voice_local.data_plane.connections import Connections
from voice_local.data_plane.errors import StreamBrokenError
from voice_local.data_plane.request_stream import Serve
from voice_local.data_plane.settings import DataPlaneSettings

_log = logging.getLogger("voice_local.data_plane.http2")

_DEFAULT_WINDOW = 65_535
_LARGEST_UNWRITTEN = 64 * 1024
_LARGEST_WINDOW = 2**31 - 1
# Linux acknowledges small segments late (about 40 ms) unless told otherwise, and the CRT sends with Nagle's algorithm:
# together they stall a stream of small events. The option does not exist on macOS, nor does it last: it is set again
# after every read.
_QUICK_ACK: int | None = getattr(socket, "TCP_QUICKACK", None)

# The first byte of Linux's tcp_info is the state of the socket.
_TCP_INFO: int | None = getattr(socket, "TCP_INFO", None) if sys.platform == "linux" else None
_ESTABLISHED = 1
_PEER_WATCH_SECONDS = 0.5


class Http2Stream:
    """One request and its response. One task reads, one task writes."""

    def __init__(self, connection: "Http2Connection", stream_id: int, headers: Sequence[tuple[str, str]]) -> None:
        self.stream_id = stream_id
        self.headers = tuple(headers)
        """Request headers, pseudo-headers included, names in lower case."""
        self._connection = connection
        self._received: list[bytes] = []
        self._unacknowledged = 0
        self._taken = 0
        self._input_ended = False
        self._outgoing = memoryview(b"")
        self._reading_stopped = False
        self._writing_stopped = False
        self._broken: str | None = None
        self._readable = asyncio.Event()
        self._sendable = asyncio.Event()
        self._broke = asyncio.Event()

    @property
    def connection(self) -> "Http2Connection":
        """The connection this stream is part of."""
        return self._connection

    async def receive(self) -> bytes | None:
        """Return what has arrived since the last call, waiting for it; None when the client has ended its half.

        Raises:
            StreamBrokenError: the client reset the stream or is gone.
        """
        self._acknowledge_taken()
        while self._reading_stopped or not self._received:
            self._raise_if_broken()
            if self._input_ended and not self._reading_stopped:
                return None
            self._readable.clear()
            await self._readable.wait()
        self._raise_if_broken()
        data = self._received[0] if len(self._received) == 1 else b"".join(self._received)
        self._received.clear()
        self._taken, self._unacknowledged = self._unacknowledged, 0
        return data

    def send_headers(self, status: int, headers: Sequence[tuple[str, str]]) -> None:
        """Begin the response.

        Raises:
            StreamBrokenError: the client reset the stream or is gone.
        """
        self._raise_if_broken()
        self._connection.send_headers(self.stream_id, [(":status", str(status)), *headers])

    async def send(self, data: bytes, *, end: bool = False) -> None:
        """Send a piece of the response body, waiting for the client's windows; with `end`, complete the response.

        A send that is cancelled half-way leaves its rest to the next one, so that no frame of a higher protocol is cut.

        Raises:
            StreamBrokenError: the client reset the stream or is gone.
        """
        self._outgoing = memoryview(bytes(self._outgoing) + data) if self._outgoing else memoryview(data)
        while True:
            self._raise_if_broken()
            await self._connection.wait_writable()
            self._raise_if_broken()
            window = self._connection.send_window(self.stream_id) if self._outgoing else 0
            if self._writing_stopped or (self._outgoing and window <= 0):
                self._sendable.clear()
                await self._sendable.wait()
                continue
            piece, self._outgoing = self._outgoing[:window], self._outgoing[window:]
            last = end and not self._outgoing
            if piece or last:
                self._connection.send_data(self.stream_id, bytes(piece), end=last)
            if not self._outgoing:
                return

    async def complete(self, data: bytes, seconds: float) -> None:
        """Send the last piece of the response; reset the stream when the client does not take it within `seconds`.

        Raises:
            StreamBrokenError: the client reset the stream or is gone.
        """
        try:
            async with asyncio.timeout(seconds):
                await self.send(data, end=True)
        except TimeoutError:
            # The client has stopped reading; it must not hold the stream for ever.
            self.reset(ErrorCodes.CANCEL)

    def reset(self, code: ErrorCodes) -> None:
        """Send RST_STREAM. Does nothing on a stream that is already gone."""
        if self._broken is None:
            if not self._writing_stopped:
                self._connection.reset_stream(self.stream_id, code)
            self.on_broken(f"the platform reset the stream ({code.name})")

    def stop_reading(self) -> None:
        """Take nothing more: `receive` waits until the stream breaks, and the client's window stays as it is."""
        self._reading_stopped = True

    def stop_writing(self) -> None:
        """Send nothing more on this stream: `send` waits until the stream breaks, and a reset is not sent either."""
        self._writing_stopped = True

    async def wait_broken(self) -> None:
        """Wait until the client resets the stream or is gone, and raise.

        Raises:
            StreamBrokenError: always.
        """
        await self._broke.wait()
        self._raise_if_broken()

    # Called by the connection.

    def on_data(self, data: bytes, flow_controlled: int) -> None:
        self._received.append(data)
        self._unacknowledged += flow_controlled
        self._readable.set()

    def on_input_ended(self) -> None:
        self._input_ended = True
        self._readable.set()

    def on_window(self) -> None:
        self._sendable.set()

    def on_broken(self, reason: str) -> None:
        if self._broken is None:
            self._broken = reason
            for event in (self._readable, self._sendable, self._broke):
                event.set()

    def release(self) -> None:
        """Give the window of everything unread back to the connection."""
        self._taken += self._unacknowledged
        self._unacknowledged = 0
        self._received.clear()
        self._acknowledge_taken()

    def _acknowledge_taken(self) -> None:
        if self._taken:
            self._connection.acknowledge(self.stream_id, self._taken)
            self._taken = 0

    def _raise_if_broken(self) -> None:
        if self._broken is not None:
            # A new exception each time: one kept for re-raising would hold its traceback, and with it the stream.
            raise StreamBrokenError(self._broken)


class Http2Connection(asyncio.Protocol):
    """One TLS socket. Every request becomes a task that runs `serve`."""

    def __init__(self, serve: Serve, settings: DataPlaneSettings, siblings: Connections) -> None:
        self._serve = serve
        self._settings = settings
        self._siblings = siblings
        self._loop = asyncio.get_running_loop()
        self._h2 = H2Connection(H2Configuration(client_side=False, header_encoding=None))
        self._streams: dict[int, Http2Stream] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._writable = asyncio.Event()
        self._writable.set()
        self._lost = asyncio.Event()
        self._closing = False
        self._last_stream_id: int | None = None
        self._reading_stopped = False
        self._writing_stopped = False
        self._unwritten = 0
        self._flush_scheduled = False
        self._idle: asyncio.TimerHandle | None = None
        self._peer_watch: asyncio.TimerHandle | None = None
        self._transport: asyncio.Transport | None = None
        self._socket: Any = None

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        tls = transport.get_extra_info("ssl_object")
        speaks_http2 = tls is None or tls.selected_alpn_protocol() == "h2"
        if not self._siblings.admit(self) or not speaks_http2:
            self._closing = True
            self._transport.close()
            return
        self._socket = transport.get_extra_info("socket")
        settings = self._settings
        self._h2.local_settings = Settings(
            client=False,
            initial_values={
                SettingCodes.MAX_CONCURRENT_STREAMS: settings.concurrent_streams,
                SettingCodes.INITIAL_WINDOW_SIZE: settings.receive_window,
                SettingCodes.MAX_HEADER_LIST_SIZE: settings.largest_header_list,
            },
        )
        self._h2.initiate_connection()
        whole = min(settings.receive_window * settings.concurrent_streams, _LARGEST_WINDOW)
        if whole > _DEFAULT_WINDOW:
            self._h2.increment_flow_control_window(whole - _DEFAULT_WINDOW)
        self._flush()
        self._watch_idleness()

    def data_received(self, data: bytes) -> None:
        if self._closing:
            return
        try:
            events = self._h2.receive_data(data)
        except H2Error:
            # h2 has put the GOAWAY that names the violation into its output.
            self._abandon("the client broke the HTTP/2 protocol")
            return
        for event in events:
            self._on_event(event)
        self._flush()
        if _QUICK_ACK is not None and self._socket is not None:
            with contextlib.suppress(OSError):  # the peer may be gone by now; the next read says so
                self._socket.setsockopt(socket.IPPROTO_TCP, _QUICK_ACK, 1)

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self._closing = True
        for timer in (self._idle, self._peer_watch):
            if timer is not None:
                timer.cancel()
        self._writable.set()
        for stream in self._streams.values():
            stream.on_broken("the client's connection is gone")
        self._lost.set()
        self._dismiss_if_over()

    # What streams need of their connection

    async def wait_writable(self) -> None:
        """Wait until the socket's write buffer has room."""
        await self._writable.wait()

    def send_window(self, stream_id: int) -> int:
        """Return how many bytes may be sent on a stream in one frame now.

        Raises:
            StreamBrokenError: the stream is closed.
        """
        with _as_broken():
            return min(self._h2.local_flow_control_window(stream_id), self._h2.max_outbound_frame_size)

    def send_headers(self, stream_id: int, headers: Sequence[tuple[str, str]]) -> None:
        with _as_broken():
            self._h2.send_headers(stream_id, list(headers))
        self._flush_soon(0)

    def send_data(self, stream_id: int, data: bytes, *, end: bool) -> None:
        with _as_broken():
            self._h2.send_data(stream_id, data, end_stream=end)
        self._flush_soon(len(data))

    def reset_stream(self, stream_id: int, code: ErrorCodes) -> None:
        if self._closing:
            return
        with contextlib.suppress(H2Error):  # closed meanwhile: nothing is left to reset
            self._h2.reset_stream(stream_id, code)
            self._flush()

    def acknowledge(self, stream_id: int, size: int) -> None:
        """Open the windows again by `size` flow-controlled bytes."""
        if not self._closing:
            self._h2.acknowledge_received_data(size, stream_id)
            self._flush_soon(0)

    # Ending

    def abort(self) -> None:
        """Drop the socket without a word."""
        if self._transport is not None:
            self._transport.abort()

    def go_away(self, code: ErrorCodes = ErrorCodes.NO_ERROR) -> None:
        """Send GOAWAY and close the socket once it is written."""
        if not self._closing and self._transport is not None:
            self._h2.close_connection(code)
            self._flush()
            self._closing = True
            self._transport.close()

    def kill(self) -> None:
        """Drop the socket with a TCP reset, as the kernel does for a process that died with data unread."""
        self._flush()
        if self._socket is not None:
            with contextlib.suppress(OSError):  # gone already
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.abort()

    def close(self) -> None:
        """Close TLS and TCP in order, without GOAWAY."""
        if not self._closing and self._transport is not None:
            self._abandon("the platform closed the connection")

    def announce_end(self) -> None:
        """Send GOAWAY(NO_ERROR), refuse new streams, and close the connection when its last stream is over.

        h2 takes a connection for closed once it has sent GOAWAY, so that the frame is written around it.
        """
        if self._closing or self._transport is None or self._last_stream_id is not None:
            return
        self._last_stream_id = self._h2.highest_inbound_stream_id
        self._flush()
        self._write(GoAwayFrame(0, last_stream_id=self._last_stream_id, error_code=ErrorCodes.NO_ERROR).serialize())

    def stop_reading(self) -> None:
        """Read nothing more from the socket, not even that the client closed it."""
        if self._transport is not None and not self._transport.is_closing() and not self._reading_stopped:
            self._transport.pause_reading()
            self._watch_peer()
        self._reading_stopped = True

    def stop_writing(self) -> None:
        """Write nothing more to the socket; what streams send is held in memory, up to the client's windows."""
        self._flush()
        self._writing_stopped = True

    def _watch_peer(self) -> None:
        """Give up a client that has left: nobody learns that from a socket that is not read."""
        self._peer_watch = None
        if self._peer_left():
            self.abort()
        else:
            self._peer_watch = self._loop.call_later(_PEER_WATCH_SECONDS, self._watch_peer)

    def _peer_left(self) -> bool:
        if _TCP_INFO is None or self._socket is None:
            return False  # the connection is kept until it is idle for long enough
        try:
            return bool(self._socket.getsockopt(socket.IPPROTO_TCP, _TCP_INFO, 1)[0] != _ESTABLISHED)
        except OSError:
            return True

    async def shut_down(self, seconds: float) -> None:
        """End every stream and the connection; returns when tasks and socket are gone."""
        if self._reading_stopped or self._writing_stopped:
            self.abort()  # nothing can be said in order on a socket that is not read or written
        for task in self._tasks:
            task.cancel()
        try:
            async with asyncio.timeout(seconds):
                if self._tasks:
                    await asyncio.wait(self._tasks)
                self.go_away()
                await self._lost.wait()
        except TimeoutError:
            self.abort()
            await self._lost.wait()
            if self._tasks:
                await asyncio.wait(self._tasks)

    # Events

    def _on_event(self, event: Event) -> None:
        """Hand an event to its stream. Pings and settings are answered by h2; a client's GOAWAY precedes its close."""
        stream_id = getattr(event, "stream_id", None)
        if isinstance(event, RequestReceived) and event.stream_id is not None:
            self._open_stream(event.stream_id, event.headers or [])
        elif isinstance(event, RemoteSettingsChanged) or (isinstance(event, WindowUpdated) and not stream_id):
            for each in self._streams.values():
                each.on_window()
        elif (stream := self._streams.get(stream_id or 0)) is not None:
            _on_stream_event(stream, event)
        elif isinstance(event, DataReceived) and event.flow_controlled_length and stream_id:
            # Late data of a stream that is over still counts against the connection's window.
            self._h2.acknowledge_received_data(event.flow_controlled_length, stream_id)

    def _open_stream(self, stream_id: int, headers: Sequence[Any]) -> None:
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
        if self._last_stream_id is not None:
            self.reset_stream(stream_id, ErrorCodes.REFUSED_STREAM)
            return
        decoded = [(_text(name), _text(value)) for name, value in headers]
        stream = Http2Stream(self, stream_id, decoded)
        self._streams[stream_id] = stream
        task = self._loop.create_task(self._serve(stream), name=f"data-plane-stream-{stream_id}")
        self._tasks.add(task)
        task.add_done_callback(lambda done: self._close_stream(stream, done))

    def _close_stream(self, stream: Http2Stream, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._streams.pop(stream.stream_id, None)
        stream.release()
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("stream %d ended with an unexpected error", stream.stream_id, exc_info=error)
            stream.reset(ErrorCodes.INTERNAL_ERROR)
        if not self._streams:
            self._watch_idleness()
        self._dismiss_if_over()

    def _dismiss_if_over(self) -> None:
        # Streams outlive their socket while they close the container's: whoever stops the server waits for those too.
        if self._lost.is_set() and not self._tasks:
            self._siblings.dismiss(self)

    def _watch_idleness(self) -> None:
        if self._last_stream_id is not None:
            self.go_away()
        elif not self._closing:
            self._idle = self._loop.call_later(self._settings.idle_connection_seconds, self.go_away)

    def _flush_soon(self, size: int) -> None:
        """Write what streams send in one turn of the loop together: fewer TLS records and system calls when many do.

        Large pieces are written at once, so that the transport can say when its buffer is full.
        """
        self._unwritten += size
        if self._unwritten >= _LARGEST_UNWRITTEN:
            self._flush()
        elif not self._flush_scheduled:
            self._flush_scheduled = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flush_scheduled = False
        self._unwritten = 0
        if not self._writing_stopped and (data := self._h2.data_to_send()):
            self._write(data)

    def _write(self, data: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing() and not self._writing_stopped:
            self._transport.write(data)

    def _abandon(self, reason: str) -> None:
        self._flush()
        self._closing = True
        for stream in self._streams.values():
            stream.on_broken(reason)
        if self._transport is not None:
            self._transport.close()


def _on_stream_event(stream: Http2Stream, event: Event) -> None:
    match event:
        case DataReceived(data=data, flow_controlled_length=length):
            stream.on_data(data or b"", length or 0)
        case StreamEnded():
            stream.on_input_ended()
        case StreamReset(error_code=code):
            stream.on_broken(f"the client reset the stream ({_code_name(code)})")
        case WindowUpdated():
            stream.on_window()
        case _:
            pass  # trailers and priorities mean nothing to this protocol


@contextlib.contextmanager
def _as_broken() -> Iterator[None]:
    try:
        yield
    except H2Error as error:
        raise StreamBrokenError(f"the stream is closed ({type(error).__name__})") from error


def _text(value: bytes | str) -> str:
    # Latin-1 keeps every byte, so that a strange header is seen by the signature check and breaks nothing else.
    return value.decode("latin-1") if isinstance(value, bytes) else value


def _code_name(code: ErrorCodes | int | None) -> str:
    return code.name if isinstance(code, ErrorCodes) else f"code {code}"
