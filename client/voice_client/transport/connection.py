"""One HTTP/2 connection on asyncio, and the streams it carries."""

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Any, Protocol, Self, cast

from h2.errors import ErrorCodes
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    Event,
    PingAckReceived,
    RemoteSettingsChanged,
    ResponseReceived,
    StreamEnded,
    StreamReset,
    WindowUpdated,
)
from h2.exceptions import H2Error, NoSuchStreamError, TooManyStreamsError
from h2.settings import SettingCodes

from voice_client.transport.settings import TransportSettings
from voice_client.transport.socket_options import watch_peer
from voice_client.transport.wire import ClientWire

STREAMS_BEFORE_SETTINGS = 100
"""Streams a connection may carry when the server sets no limit: the least RFC 9113 recommends a server to allow."""

_READ_BYTES = 64 * 1024
"""The most that is taken from the socket at once: four TLS records."""

_UNTAKEN_ANSWER_BYTES = 1024 * 1024
"""Answers (to pings, settings, late data) kept for a server that goes on asking and takes nothing: 60 000 pings."""


class Carried(Protocol):
    """A request and its response, as their connection sees them."""

    def head_came(self, headers: Sequence[tuple[str, str]]) -> None:
        """The response's head."""

    def data_came(self, data: bytes, flow_controlled: int) -> None:
        """A piece of the response's body, and by how much it shrank the window."""

    def end_came(self) -> None:
        """The peer ended its side in order."""

    def cut(self, reason: str, *, unprocessed: bool) -> None:
        """The stream is over; when `unprocessed`, the server certainly did nothing with the request."""

    def pump(self) -> bool:
        """There may be room: send one frame. Returns whether there is more to send, and room for it."""

    def flushed(self) -> None:
        """What was handed over has been written to the socket's transport."""


class Connection(asyncio.BufferedProtocol):
    """One TLS socket that speaks HTTP/2. Everything happens in the event loop; nothing here waits."""

    def __init__(self, settings: TransportSettings) -> None:
        self.limit = STREAMS_BEFORE_SETTINGS
        self.retired = False
        """True when no further stream may be opened on it."""
        self.settled = asyncio.Event()
        """Set when the server's first settings have come, or the connection is gone."""
        self.lost = asyncio.Event()
        """Set when the socket is gone."""
        self.writable = True
        """Whether the socket's write buffer has room."""
        self.protocol: str | None = None
        """What TLS agreed on: `h2`, or something this cannot speak."""
        self.ended_by: str | None = None
        """What the server did that ended or retired it, in words."""
        self._settings = settings
        self._loop = asyncio.get_running_loop()
        self._buffer = memoryview(bytearray(_READ_BYTES))
        self._wire = ClientWire(stream_window=settings.receive_window_bytes)
        self._transport: asyncio.Transport | None = None
        self._carried: dict[int, Carried] = {}
        self._unflushed: dict[Carried, None] = {}
        self._reserved = 0
        self._flush_due = False
        self._turn = 0
        self._over = False
        self._question: asyncio.TimerHandle | None = None
        self._untaken = 0

    # The life of the socket

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin (called by asyncio, after the TLS handshake)."""
        self._transport = cast("asyncio.Transport", transport)
        self.protocol = transport.get_extra_info("ssl_object").selected_alpn_protocol()
        if self.protocol != "h2":
            self._transport.abort()
            return
        watch_peer(transport.get_extra_info("socket"), self._settings)
        self._transport.set_write_buffer_limits(high=self._settings.send_buffer_bytes)
        self._flush()

    def get_buffer(self, sizehint: int) -> memoryview:
        """Give the place for what comes (called by asyncio), which otherwise makes room for 256 KiB at every read."""
        del sizehint
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Take what came (called by asyncio); h2 copies it."""
        if self._over:
            return
        try:
            events = self._wire.receive_data(self._buffer[:nbytes])
        except H2Error as error:
            self._flush()  # the GOAWAY that names the violation
            self._end(f"the server broke the HTTP/2 protocol: {type(error).__name__}: {error}")
            return
        for event in events:
            self._handle(event)
        stuck = not self.writable  # before the flush: then there are only answers in it, no stream's data
        written = self._flush()
        if stuck:
            self._untaken += written
            if self._untaken > _UNTAKEN_ANSWER_BYTES:
                self._end("the server asks on and takes no answer")

    def eof_received(self) -> None:
        """Notice at once that the peer closed (called by asyncio); without this, closing TLS comes first."""
        self._end("the server closed it")

    def connection_lost(self, exc: Exception | None) -> None:
        """Notice that the socket is gone (called by asyncio)."""
        self._end(str(exc) or type(exc).__name__ if exc is not None else "the server closed it")
        self.lost.set()

    def pause_writing(self) -> None:
        """Hold what streams send (called by asyncio)."""
        self.writable = False

    def resume_writing(self) -> None:
        """Let streams send again (called by asyncio)."""
        self.writable = True
        self._untaken = 0
        self._pump_all()

    @property
    def usable(self) -> bool:
        """Whether one more stream may be opened. Not while the peer owes an answer to a ping."""
        return not self.retired and not self._over and self._question is None and self._reserved < self.limit

    def reserve(self) -> Self:
        """Count one more stream."""
        self._reserved += 1
        return self

    def release(self) -> None:
        """Count one stream less: it is over, or was never begun."""
        self._reserved -= 1
        self._close_when_idle()

    def retire(self) -> None:
        """Open no further stream, and close when the last one is over."""
        self.retired = True
        self._close_when_idle()

    def close(self) -> None:
        """Say GOAWAY and close, with all streams. Idempotent; `lost` is set when the socket is gone."""
        self.retired = True
        if self._transport is None or self._over:
            return
        with contextlib.suppress(H2Error):
            self._wire.close_connection()
        self._flush()
        self._over = True
        self._stop_asking()
        self._transport.close()
        self._cut_all("it was closed")

    def abort(self) -> None:
        """Drop the socket without a word."""
        self._over = True
        self._stop_asking()
        if self._transport is not None:
            self._transport.abort()

    # What a stream needs of its connection; h2's own errors pass through.

    def begin(self, carried: Carried, headers: Sequence[tuple[str, str]]) -> int:
        """Send a request's head; return its stream's number.

        Raises:
            ConnectionError: the connection takes no stream.
        """
        if self._over or self.retired:
            raise ConnectionError("the connection is closing")
        try:
            number = self._wire.get_next_available_stream_id()
            self._wire.send_headers(number, list(headers))
        except H2Error as error:
            # A server that allows fewer streams than when this one was reserved may well go on with those it has.
            if not isinstance(error, TooManyStreamsError) or self._reserved <= self.limit:
                self.retire()
            raise ConnectionError(f"the connection takes no further stream ({type(error).__name__})") from error
        self._carried[number] = carried
        self._flush_soon()
        return number

    def room(self, number: int) -> int:
        """Return how many bytes a stream may send in one frame now."""
        if not self.writable or self._over:
            return 0
        try:
            return min(self._wire.local_flow_control_window(number), self._wire.max_outbound_frame_size)
        except NoSuchStreamError:
            return 0

    def send(self, carried: Carried, number: int, data: bytes | memoryview, *, end: bool = False) -> None:
        """Send a frame of at most `room` bytes; nothing on a stream that is over."""
        if self._over or number not in self._carried:
            return
        with contextlib.suppress(NoSuchStreamError):  # reset meanwhile: its exchange knows
            self._wire.send_data(number, data, end_stream=end)
            self._unflushed[carried] = None
            self._flush_soon()

    def acknowledge(self, number: int, size: int) -> None:
        """Let the peer send `size` more bytes."""
        if not self._over and size:
            self._wire.acknowledge_received_data(size, number)
            self._flush_soon()

    def drop(self, number: int, *, answered: bool) -> None:
        """Reset a stream that is not wanted any more, or does not end; `answered` when its peer had ended its side."""
        if self._carried.pop(number, None) is None or self._over:
            return
        with contextlib.suppress(H2Error):  # over already
            self._wire.reset_stream(number, ErrorCodes.CANCEL)
        self._flush_soon()
        if not answered:
            self._ask()

    def forget(self, number: int) -> None:
        """Drop the memory of a stream that is over."""
        self._carried.pop(number, None)

    def _ask(self) -> None:
        """Find out whether the peer still answers: a stream that does not end may be the connection's fault.

        Streams go on meanwhile; a connection that stays silent takes no new ones.
        """
        if self._question is None:
            self._wire.ping(bytes(8))
            self._flush_soon()
            self._question = self._loop.call_later(self._settings.close_seconds, self.retire)

    def _stop_asking(self) -> None:
        if self._question is not None:
            self._question.cancel()
            self._question = None

    def _handle(self, event: Event) -> None:
        match event:
            case PingAckReceived():
                self._stop_asking()
            case RemoteSettingsChanged(changed_settings=changed):
                if (limit := changed.get(SettingCodes.MAX_CONCURRENT_STREAMS)) is not None:
                    self.limit = limit.new_value
                self.settled.set()
                self._pump_all()
            case ConnectionTerminated(last_stream_id=last, error_code=code):
                self._leave(last or 0, f"the server is leaving: {_name(code)}")
            case WindowUpdated(stream_id=0):
                self._pump_all()
            case _:  # of a stream; or a ping or acknowledged settings, which h2 has answered
                number = getattr(event, "stream_id", None) or 0
                if (carried := self._carried.get(number)) is not None:
                    self._tell(carried, number, event)
                elif isinstance(event, DataReceived):
                    # Late data of a stream that was dropped still counts against the connection's window.
                    self.acknowledge(number, event.flow_controlled_length or 0)

    def _tell(self, carried: Carried, number: int, event: Event) -> None:
        match event:
            case DataReceived(data=data, flow_controlled_length=size):
                carried.data_came(data or b"", size or 0)
            case ResponseReceived(headers=headers):
                carried.head_came(cast("Sequence[tuple[str, str]]", headers))
            case StreamEnded():
                carried.end_came()
            case StreamReset(error_code=code):
                self.forget(number)
                refused = code == ErrorCodes.REFUSED_STREAM
                carried.cut(f"the server reset the stream: {_name(code)}", unprocessed=refused)
            case WindowUpdated():
                while carried.pump():
                    pass
            case _:
                pass  # trailers and priorities mean nothing here

    def _leave(self, last_served: int, reason: str) -> None:
        """Obey a GOAWAY: by RFC 9113, 6.8, streams above the named one were not and will not be processed."""
        self.retired = True
        self.ended_by = reason
        for number, carried in tuple(self._carried.items()):
            if number > last_served:
                self._carried.pop(number, None)
                carried.cut(reason, unprocessed=True)
        self._close_when_idle()

    def _end(self, reason: str) -> None:
        self.retired = True
        self.settled.set()
        if not self._over:
            self.ended_by = self.ended_by or reason
            self.abort()
            self._cut_all(reason)

    def _cut_all(self, reason: str) -> None:
        carried, self._carried = tuple(self._carried.values()), {}
        for each in carried:
            each.cut(reason, unprocessed=False)

    def _close_when_idle(self) -> None:
        if self.retired and self._reserved <= 0:
            self.close()

    def _pump_all(self) -> None:
        """Share new room among the streams, frame by frame, beginning with another stream each time."""
        waiting = list(self._carried.values())
        if waiting:
            self._turn = (self._turn + 1) % len(waiting)
            waiting = waiting[self._turn :] + waiting[: self._turn]
        while waiting:
            waiting = [carried for carried in waiting if carried.pump()]

    def _flush_soon(self) -> None:
        """Write together what streams send in one turn of the loop: fewer TLS records and system calls."""
        if not self._flush_due:
            self._flush_due = True
            self._loop.call_soon(self._flush_turn)

    def _flush_turn(self) -> None:
        self._flush_due = False
        self._flush()
        unflushed, self._unflushed = self._unflushed, {}
        for carried in unflushed:
            carried.flushed()

    def _flush(self) -> int:
        """Write what h2 has ready; return how many bytes."""
        if self._transport is None or self._over or not (data := self._wire.data_to_send()):
            return 0
        self._transport.write(data)
        return len(data)


def _name(code: Any) -> str:
    try:
        return ErrorCodes(code).name
    except ValueError:
        return f"code {code}"
