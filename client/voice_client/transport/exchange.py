"""One request and its response on one HTTP/2 stream, both as streams of bytes.

The end of a response is told apart from its loss, and a loss is told to both directions.
"""

import asyncio
import contextlib
import copy
import re
from collections import deque
from collections.abc import Sequence
from typing import Any

from voice_client.errors import ConnectionLostError, ProtocolError, VoiceError
from voice_client.transport.connection import Connection
from voice_client.transport.faults import HttpAnswer, connection_loss
from voice_client.transport.settings import TransportSettings

_SMALL_CHUNK_BYTES = 4096
"""Unread pieces of a response are joined up to this size: a window of single bytes shall not be a million objects."""


class Exchange:
    """One request and its response.

    `failure` is set once, by whichever ends the exchange first, and from then on every call raises it.
    """

    def __init__(self, connection: Connection, *, endpoint: str, settings: TransportSettings) -> None:
        self.failure: VoiceError | None = None
        self.started = False
        self.unprocessed = False
        """True when the server certainly did nothing with the request: it can be sent again on another connection."""
        self.ended: asyncio.Event = asyncio.Event()
        """Set when both sides of the stream are over, in whichever way."""
        self.request_signature = ""
        """The signature of the request (hexadecimal), once it was sent: the events' signatures rest on it."""
        self._connection = connection
        self._endpoint = endpoint
        self._settings = settings
        self._loop = asyncio.get_running_loop()
        self._number = 0
        self._answer: asyncio.Future[HttpAnswer] = self._loop.create_future()
        self._answer.add_done_callback(_retrieve_exception)
        self._chunks: deque[tuple[bytes, int]] = deque()
        self._arrival: asyncio.Future[None] | None = None
        self._room: asyncio.Future[None] | None = None
        self._outgoing: deque[memoryview] = deque()
        self._unsent = 0
        self._in_flight = 0
        self._input_ended = False
        self._end_sent = False
        self._remote_ended = False
        self._discarding = False

    @property
    def request_id(self) -> str | None:
        """The service's id of the request, once it answered."""
        return self._answer.result().request_id if self._answered else None

    @property
    def input_ended(self) -> bool:
        """Whether our side was ended."""
        return self._input_ended

    @property
    def _answered(self) -> bool:
        return self._answer.done() and not self._answer.cancelled() and self._answer.exception() is None

    def start(self, headers: Sequence[tuple[str, str]]) -> None:
        """Send the request's head: pseudo-headers first, names in lower case."""
        self.raise_failure()
        try:
            self._number = self._connection.begin(self, headers)
        except ConnectionError as error:
            self.unprocessed = True
            failure = ConnectionLostError("the connection closed before the request was sent", endpoint=self._endpoint)
            failure.__cause__ = error
            self.fail(failure)
            raise failure from error
        self.started = True

    async def answer(self) -> HttpAnswer:
        """Wait for the response's head."""
        return await asyncio.shield(self._answer)

    async def next_chunk(self) -> bytes | None:
        """Return the next bytes of the response in the order they came, None at its end; raises `failure`."""
        while True:
            if self._chunks:
                chunk, size = self._chunks.popleft()
                self._connection.acknowledge(self._number, size)
                return chunk
            if self._remote_ended:
                return None
            self.raise_failure()
            self._arrival = self._loop.create_future()
            try:
                await self._arrival
            finally:
                self._arrival = None

    def has_room(self, size: int) -> bool:
        """Whether `room` would return at once."""
        return not self._in_flight or self._in_flight + size <= self._settings.send_buffer_bytes

    async def room(self, size: int) -> None:
        """Wait until `size` more bytes may be under way, or nothing is. Cancelling this does no harm."""
        while not self.has_room(size):
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
        self._unsent += len(data)
        self._outgoing.append(memoryview(data))
        while self.pump():
            pass

    def end_input(self) -> None:
        """End the request's body (END_STREAM) after what was written. Idempotent; nothing on one that is over."""
        if self._input_ended or not self.started or self.ended.is_set():
            return
        self._input_ended = True
        if self._remote_ended:  # nobody would take the rest
            self._outgoing.clear()
            self._unsent = 0
        while self.pump():
            pass

    def discard_output(self) -> None:
        """Drop what has come and what will come, so that an unread response cannot keep the stream from ending."""
        self._discarding = True
        while self._chunks:
            self._connection.acknowledge(self._number, self._chunks.popleft()[1])

    def abandon(self) -> None:
        """Reset the stream: it is wanted no more, or does not end."""
        self.discard_output()  # what nobody reads would stay counted against the connection's window
        if not self.ended.is_set():
            self._connection.drop(self._number, answered=self._remote_ended)
            self._over()

    def withdraw(self) -> None:
        """Give back the place on the connection of a request that was never begun."""
        self._connection.release()

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
        if self._remote_ended or not self.started:
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

    # Called by the connection:

    def head_came(self, headers: Sequence[tuple[str, str]]) -> None:
        """Take the response's head."""
        if self._answer.done():
            return
        fields = {name.lower(): value for name, value in headers}
        status = fields.pop(":status", "")
        if re.fullmatch(r"[1-9][0-9]{2}", status, re.ASCII):
            self._answer.set_result(HttpAnswer(int(status), fields))
        else:
            self.fail(ProtocolError(f"the answer's status is {status[:20]!r}", endpoint=self._endpoint))

    def data_came(self, data: bytes, flow_controlled: int) -> None:
        """Take a piece of the response's body."""
        if self._discarding or not data:
            self._connection.acknowledge(self._number, flow_controlled)
            return
        if self._chunks and len(self._chunks[-1][0]) + len(data) <= _SMALL_CHUNK_BYTES:
            before, size = self._chunks.pop()
            data, flow_controlled = before + data, size + flow_controlled
        self._chunks.append((data, flow_controlled))
        _wake(self._arrival)

    def end_came(self) -> None:
        """Notice that the peer ended its side in order."""
        self._remote_ended = True
        _wake(self._arrival)
        _wake(self._room)
        if self._end_sent:
            self._over()

    def cut(self, reason: str, *, unprocessed: bool) -> None:
        """Notice that the stream is over; one that its peer had ended in order is not lost."""
        if not self._remote_ended:
            self.unprocessed = unprocessed
            self.fail(connection_loss(reason, endpoint=self._endpoint, request_id=self.request_id))
        self._over()

    def pump(self) -> bool:
        """Hand over one frame, when the windows and the socket have room. Returns whether another may follow."""
        if self.ended.is_set():
            return False
        if self._outgoing and (room := self._connection.room(self._number)) > 0:
            piece = self._outgoing.popleft()
            if len(piece) > room:
                self._outgoing.appendleft(piece[room:])
                piece = piece[:room]
            self._unsent -= len(piece)
            self._connection.send(self, self._number, piece)
            if self._outgoing:
                return True
        if self._input_ended and not self._end_sent and not self._outgoing:
            self._end_sent = True
            self._connection.send(self, self._number, b"", end=True)
            if self._remote_ended:
                self._over()
        return False

    def flushed(self) -> None:
        """Notice that what was handed over is with the socket's transport."""
        self._in_flight = self._unsent
        _wake(self._room)

    def _over(self) -> None:
        if not self.ended.is_set():
            self.ended.set()
            self._outgoing.clear()
            self._unsent = 0
            self._connection.forget(self._number)
            self._connection.release()
            _wake(self._arrival)
            _wake(self._room)


def _wake(waiter: "asyncio.Future[None] | None") -> None:
    if waiter is not None and not waiter.done():
        waiter.set_result(None)


def _retrieve_exception(done: "asyncio.Future[Any]") -> None:
    """Take a future's exception, so that nobody reports it as never retrieved."""
    if not done.cancelled():
        done.exception()
