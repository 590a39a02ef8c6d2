"""One bidirectional stream to an endpoint's container."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self

from voice_client.errors import BadInputError, DeadlineError, ProtocolError, VoiceError, log_group
from voice_client.transport.exchange import Exchange
from voice_client.transport.faults import stream_exception
from voice_client.transport.frames import DataType, EventSigner
from voice_client.transport.identity import IdentityProvider
from voice_client.transport.inbox import Inbox, Message
from voice_client.transport.response_events import BrokenResponseError, EventFaultError, ResponseEvents
from voice_client.transport.settings import StreamTarget, TransportSettings

if TYPE_CHECKING:
    from voice_client.transport.voice_transport import VoiceTransport


class BidiStream:
    """A WebSocket conversation with the container, carried by SageMaker over HTTP/2.

    `async for message in stream` yields text messages as `str`, binary ones as `bytes`, until the endpoint ends the
    stream in order; anything else that ends it raises a `VoiceError`, in the iteration and in every send.
    One task iterates; any number may send. Cancelling either harms nothing.

    Obtained from `VoiceTransport.open_stream`, or `BidiStream.open` for a connection of its own.
    """

    def __init__(
        self,
        exchange: Exchange,
        signer: EventSigner,
        *,
        invoked_variant: str | None,
        shared: "VoiceTransport",
    ) -> None:
        self.invoked_variant = invoked_variant
        """The production variant that serves the stream."""
        self.request_id = exchange.request_id
        """The service's id of the request, for AWS support."""
        self.endpoint_name = shared.target.endpoint_name
        self._exchange = exchange
        self._signer = signer
        self._settings = shared.settings
        self._shared = shared
        self._owns_transport = False
        self._write_lock = asyncio.Lock()
        self._inbox = Inbox(max_bytes=self._settings.inbox_bytes, max_messages=self._settings.inbox_messages)
        self._reader = asyncio.create_task(self._read(), name=f"voice: read {self.endpoint_name}")
        self._closing: asyncio.Task[None] | None = None

    @classmethod
    async def open(
        cls,
        target: StreamTarget,
        *,
        invocation_path: str | None = None,
        query_string: str | None = None,
        target_variant: str | None = None,
        settings: TransportSettings | None = None,
        identity: IdentityProvider | None = None,
    ) -> "BidiStream":
        """Open a stream on a connection of its own, which closes with it. Arguments and errors: `VoiceTransport`."""
        from voice_client.transport.voice_transport import VoiceTransport  # noqa: PLC0415  # it imports this module

        transport = VoiceTransport(target, settings=settings, identity=identity)
        try:
            stream = await transport.open_stream(
                invocation_path, query_string=query_string, target_variant=target_variant
            )
        except BaseException:
            await transport.close()
            raise
        stream._owns_transport = True
        return stream

    async def send_text(self, text: str) -> None:
        """Send one text message (a WebSocket text frame).

        Raises:
            BadInputError: longer than the limit, or no Unicode (half a surrogate pair); the stream goes on.
            DeadlineError: the peer did not take it within the send deadline; the stream is over.
            VoiceError: whatever ended the stream before.
        """
        try:
            data = text.encode()
        except UnicodeEncodeError as error:
            raise BadInputError(f"a text that is no Unicode: {error.reason}", endpoint=self.endpoint_name) from error
        await self._send(data, "UTF8")

    async def send_bytes(self, data: bytes) -> None:
        """Send one binary message. Raises as `send_text`."""
        await self._send(data, "BINARY")

    async def end_input(self) -> None:
        """Say that nothing more will be sent, and go on receiving. Idempotent. Raises as `send_text`."""
        if self._exchange.input_ended:
            return
        await self._write(b"", "end")

    async def close(self) -> None:
        """End the stream, at once: in order when the peer answers within the close deadline, else by dropping it.

        Idempotent, never raises for a fault of the wire, and leaves no task. An iteration that still runs is told that
        the stream was closed, unless the endpoint had ended it before.
        """
        if self._closing is None:
            self._closing = asyncio.create_task(self._close(), name=f"voice: close {self.endpoint_name}")
        await asyncio.shield(self._closing)

    def __aiter__(self) -> AsyncIterator[Message]:
        return self

    async def __anext__(self) -> Message:
        message = await self._inbox.get()
        if message is None:
            raise StopAsyncIteration
        return message

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def _send(self, data: bytes, data_type: DataType) -> None:
        if len(data) > self._settings.message_bytes:
            raise BadInputError(
                f"a message of {len(data)} bytes is longer than the limit of {self._settings.message_bytes}",
                endpoint=self.endpoint_name,
            )
        await self._write(data, data_type)

    async def _write(self, data: bytes, kind: DataType | Literal["end"]) -> None:
        """Write an event when there is room for it, or raise within the send deadline."""
        if self._closing is not None:
            raise ProtocolError("the stream was closed", endpoint=self.endpoint_name, request_id=self.request_id)
        if self._write_lock.locked() or not self._exchange.has_room(len(data)):
            await self._write_later(data, kind)
        else:
            self._write_now(data, kind)

    async def _write_later(self, data: bytes, kind: DataType | Literal["end"]) -> None:
        try:
            async with asyncio.timeout(self._settings.send_seconds), self._write_lock:
                await self._exchange.room(len(data))
                self._write_now(data, kind)
        except TimeoutError:
            self._exchange.fail(
                DeadlineError(
                    f"the endpoint took nothing for {self._settings.send_seconds:g} s",
                    endpoint=self.endpoint_name,
                    request_id=self.request_id,
                )
            )
            self._exchange.raise_failure()

    def _write_now(self, data: bytes, kind: DataType | Literal["end"]) -> None:
        """Sign an event and hand it over.

        Signatures chain from event to event, so events are signed in the order they are sent, and none that was signed
        may be dropped: nothing here suspends, and a stream that takes nothing any more is asked first.
        """
        self._exchange.raise_if_closed()
        if kind == "end":
            self._exchange.write(self._signer.end())
            self._exchange.end_input()
        else:
            self._exchange.write(self._signer.part(data, kind))

    async def _read(self) -> None:
        failure: VoiceError | None = None
        events = ResponseEvents(self._settings.message_bytes)
        try:
            while (chunk := await self._exchange.next_chunk()) is not None:
                for message, size in events.feed(chunk):
                    if not self._inbox.put_now(message, size):
                        await self._inbox.put(message, size)
            events.finish()
        except Exception as error:  # noqa: BLE001  # every kind becomes the one error that both directions raise
            failure = self._explain(error)
            self._exchange.fail(failure)
        self._inbox.end(failure)

    def _broken(self, sent: str) -> ProtocolError:
        return ProtocolError(
            f"the endpoint sent {sent}",
            endpoint=self.endpoint_name,
            request_id=self.request_id,
            advice=f"Look at the log group {log_group(self.endpoint_name)}",
        )

    def _explain(self, error: Exception) -> VoiceError:
        if self._exchange.failure is not None:
            return self._exchange.failure
        if isinstance(error, VoiceError):
            return error
        if isinstance(error, EventFaultError):
            return stream_exception(
                error.kind,
                error.said,
                error_code=error.error_code,
                endpoint=self.endpoint_name,
                request_id=self.request_id,
            )
        sent = str(error) if isinstance(error, BrokenResponseError) else f"what fails here ({type(error).__name__})"
        broken = self._broken(sent)
        broken.__cause__ = error
        return broken

    async def _close(self) -> None:
        exchange = self._exchange
        closed = ProtocolError("the stream was closed", endpoint=self.endpoint_name, request_id=self.request_id)
        self._inbox.end(closed)
        try:
            async with asyncio.timeout(self._settings.close_seconds):
                with contextlib.suppress(VoiceError):  # it is over already, or this is where it ends
                    async with self._write_lock:
                        await exchange.room(0)
                        if not exchange.input_ended:
                            self._write_now(b"", "end")
                exchange.end_input()
                exchange.discard_output()
                await exchange.ended.wait()
        except TimeoutError:
            exchange.abandon()
        finally:
            # The reader's last wait, for bytes that do not come, ends with the failure.
            exchange.fail(closed)
            await asyncio.wait({self._reader})
            self._shared.forget(self)
            if self._owns_transport:
                await self._shared.close()
