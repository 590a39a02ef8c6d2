"""One request and its response on one HTTP/2 stream of the CRT.

The SDK's stock CRT transport hides faults: a lost connection looks like the end of the response, and writes to it wait
for ever. Here the end of a stream is told apart from its loss, and a loss is told to both directions.

The CRT calls back in a thread of its own. Every callback here only posts to the event loop.
"""

import asyncio
import contextlib
import copy
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future as ThreadFuture
from io import BytesIO
from typing import Any

from voice_client.errors import ConnectionLostError, ProtocolError, VoiceError
from voice_client.transport.connections import Connection, retrieve_exception
from voice_client.transport.faults import HttpAnswer, connection_loss
from voice_client.transport.settings import TransportSettings

_GOAWAY = "AWS_ERROR_HTTP_GOAWAY_RECEIVED"


class Exchange:
    """One request and its response on one HTTP/2 stream, both as streams of bytes.

    `failure` is set once, by whichever ends the exchange first, and from then on every call raises it.
    """

    def __init__(self, connection: Connection, *, endpoint: str, settings: TransportSettings) -> None:
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
        self._answer.add_done_callback(retrieve_exception)
        self._chunks: deque[bytes] = deque()
        self._arrival: asyncio.Future[None] | None = None
        self._room: asyncio.Future[None] | None = None
        self._in_flight = 0
        self._input_ended = False
        self._remote_ended = False
        self.request_signature = ""
        """The signature of the request (hexadecimal), once it was sent: the events' signatures rest on it."""
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
        written = self._stream.write_data(BytesIO(data), False)
        written.add_done_callback(lambda done: self._post(self._written, len(data), done.exception()))

    def end_input(self) -> None:
        """End the request's body (END_STREAM). Idempotent; does nothing on an exchange that is over."""
        if self._input_ended or self._stream is None:
            return
        self._input_ended = True
        self._stream.write_data(None, True).add_done_callback(retrieve_exception)

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


def _wake(waiter: "asyncio.Future[None] | None") -> None:
    if waiter is not None and not waiter.done():
        waiter.set_result(None)
