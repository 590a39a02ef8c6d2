"""One bidirectional stream to an endpoint's container, and the transport that streams share."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from aws_sdk_sagemaker_runtime_http2.client import AsyncSageMakerRuntimeHTTP2Client  # type: ignore[import-untyped]
from aws_sdk_sagemaker_runtime_http2.config import AsyncSageMakerRuntimeHTTP2Config  # type: ignore[import-untyped]
from aws_sdk_sagemaker_runtime_http2.models import (  # type: ignore[import-untyped]
    InternalStreamFailure,
    InvokeEndpointWithBidirectionalStreamInput,
    InvokeEndpointWithBidirectionalStreamOutput,
    ModelStreamError,
    RequestPayloadPart,
    RequestStreamEventPayloadPart,
    ResponseStreamEventPayloadPart,
)
from smithy_aws_core.identity import AWSCredentialsIdentity
from smithy_aws_event_stream.exceptions import UnmodeledEventError
from smithy_core.exceptions import SmithyError
from smithy_core.interceptors import Interceptor
from smithy_core.retries import RetryStrategyOptions

from voice_client.blocking import call_blocking
from voice_client.errors import BadInputError, ConnectionLostError, DeadlineError, ProtocolError, VoiceError, log_group
from voice_client.transport.address import resolve_address
from voice_client.transport.crt import ConnectionPool, Exchange, RequestBody, StreamTransport
from voice_client.transport.faults import HttpAnswer, refusal, stream_exception
from voice_client.transport.identity import BotocoreIdentity, Identity, IdentityProvider
from voice_client.transport.inbox import Inbox, Message
from voice_client.transport.settings import StreamTarget, TransportSettings

MAX_PATH_CHARACTERS = 100
MAX_QUERY_CHARACTERS = 2048
"""Limits of the service on the invocation path and the query string."""

# At DEBUG these write whole events (speech and text) and signed headers to their loggers. No level an application sets
# on the root logger may bring that about.
for _name in (
    "aws_sdk_sagemaker_runtime_http2",
    "smithy_core",
    "smithy_http",
    "smithy_aws_core",
    "smithy_aws_event_stream",
    "aws_sdk_signers",
):
    logging.getLogger(_name).setLevel(logging.INFO)


type _Opened = tuple[Any, InvokeEndpointWithBidirectionalStreamOutput, Any]
"""What the SDK opens: publisher, output, receiver."""


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
        publisher: Any,
        receiver: Any,
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
        self._publisher = publisher
        self._receiver = receiver
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
            DeadlineError: the peer did not take it within the send deadline; the stream is over.
            VoiceError: whatever ended the stream before.
        """
        await self._send(text.encode(), "UTF8")

    async def send_bytes(self, data: bytes) -> None:
        """Send one binary message. Raises as `send_text`."""
        await self._send(data, "BINARY")

    async def end_input(self) -> None:
        """Say that nothing more will be sent, and go on receiving. Idempotent. Raises as `send_text`."""
        if self._publisher.closed:
            return
        async with self._sending(0):
            await self._publisher.close()

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

    async def _send(self, data: bytes, data_type: str) -> None:
        if len(data) > self._settings.message_bytes:
            raise BadInputError(
                f"a message of {len(data)} bytes is longer than the limit of {self._settings.message_bytes}",
                endpoint=self.endpoint_name,
            )
        # COMPLETE: one part is one WebSocket message.
        part = RequestPayloadPart(bytes_=data, data_type=data_type, completion_state="COMPLETE")
        async with self._sending(len(data)):
            await self._publisher.send(RequestStreamEventPayloadPart(value=part))

    @contextlib.asynccontextmanager
    async def _sending(self, size: int) -> AsyncIterator[None]:
        """Hold the one right to write, with room for `size` bytes, or raise within the send deadline.

        Signatures chain from event to event, so events are signed in the order they are sent, and none that was signed
        may be dropped: nothing inside this context suspends.
        """
        if self._closing is not None:
            raise ProtocolError("the stream was closed", endpoint=self.endpoint_name, request_id=self.request_id)
        try:
            async with asyncio.timeout(self._settings.send_seconds):
                await self._write_lock.acquire()
                try:
                    await self._exchange.room(size)
                except BaseException:
                    self._write_lock.release()
                    raise
        except TimeoutError:
            self._exchange.fail(
                DeadlineError(
                    f"the endpoint took nothing for {self._settings.send_seconds:g} s",
                    endpoint=self.endpoint_name,
                    request_id=self.request_id,
                )
            )
            self._exchange.raise_failure()
        try:
            yield
        except VoiceError:
            raise
        except Exception as error:
            self._exchange.raise_failure()
            raise ProtocolError(
                f"an event could not be sent ({type(error).__name__})",
                endpoint=self.endpoint_name,
                request_id=self.request_id,
            ) from error
        finally:
            self._write_lock.release()

    async def _read(self) -> None:
        failure: VoiceError | None = None
        try:
            while (received := await self._receive()) is not None:
                await self._inbox.put(*received)
        except Exception as error:  # noqa: BLE001  # every kind becomes the one error that both directions raise
            failure = self._explain(error)
            self._exchange.fail(failure)
        await self._inbox.end(failure)

    async def _receive(self) -> tuple[Message, int] | None:
        """Return the next whole message and its size in bytes, None at the end of the stream."""
        parts: list[bytes] = []
        size = 0
        while (event := await self._receiver.receive()) is not None:
            if not isinstance(event, ResponseStreamEventPayloadPart):
                continue  # a kind of event that is newer than this client, and by the protocol may be skipped
            part = event.value
            parts.append(part.bytes_ or b"")
            size += len(parts[-1])
            if size > self._settings.message_bytes:
                raise self._broken(f"a message longer than {self._settings.message_bytes} bytes")
            if part.completion_state != "PARTIAL":
                return self._decode(b"".join(parts), part.data_type), size
        if parts:
            raise self._broken("a stream that ended inside a message")
        return None

    def _decode(self, data: bytes, data_type: str | None) -> Message:
        if data_type != "UTF8":
            return data
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            raise self._broken("a text message that is not UTF-8") from error

    def _broken(self, sent: str) -> ProtocolError:
        return ProtocolError(
            f"the endpoint sent {sent}",
            endpoint=self.endpoint_name,
            request_id=self.request_id,
            advice=f"Look at the log group {log_group(self.endpoint_name)}",
        )

    def _explain(self, error: Exception) -> VoiceError:  # noqa: PLR0911  # one line a kind
        if self._exchange.failure is not None:
            return self._exchange.failure
        if isinstance(error, VoiceError):
            return error
        where: dict[str, Any] = {"endpoint": self.endpoint_name, "request_id": self.request_id}
        if isinstance(error, ModelStreamError):
            return stream_exception("ModelStreamError", error.message, error_code=error.error_code, **where)
        if isinstance(error, InternalStreamFailure):
            return stream_exception("InternalStreamFailure", error.message, **where)
        if isinstance(error, UnmodeledEventError):
            return stream_exception(error.code, error.message, **where)
        if isinstance(error, KeyError):  # the SDK looks an exception's type up and does not find it
            return stream_exception(str(error.args[0]), None, **where)
        broken = self._broken(f"what is not an event stream ({type(error).__name__})")
        broken.__cause__ = error
        return broken

    async def _close(self) -> None:
        exchange = self._exchange
        closed = ProtocolError("the stream was closed", endpoint=self.endpoint_name, request_id=self.request_id)
        await self._inbox.end(closed)
        try:
            async with asyncio.timeout(self._settings.close_seconds):
                with contextlib.suppress(VoiceError):  # it is over already, or this is where it ends
                    async with self._write_lock:
                        await exchange.room(0)
                        if not self._publisher.closed:
                            await self._publisher.close()
                exchange.end_input()
                exchange.discard_output()
                await exchange.ended.wait()
        except TimeoutError:
            exchange.connection.abandon(exchange)
        finally:
            # The reader's last wait, for bytes that do not come, ends with the failure.
            exchange.fail(closed)
            await asyncio.wait({self._reader})
            self._shared.forget(self)
            if self._owns_transport:
                await self._shared.close()


class VoiceTransport:
    """Streams to one endpoint over shared connections.

    `async with VoiceTransport(target) as transport: stream = await transport.open_stream("v1/realtime")`

    Args:
        target: the endpoint and how to reach it.
        settings: deadlines and limits.
        identity: gives the credentials of each new stream; boto3's full chain by default.
    """

    def __init__(
        self,
        target: StreamTarget,
        *,
        settings: TransportSettings | None = None,
        identity: IdentityProvider | None = None,
    ) -> None:
        self.target = target
        self.settings = settings if settings is not None else TransportSettings()
        self._identity: IdentityProvider = identity if identity is not None else BotocoreIdentity()
        self._setup_lock = asyncio.Lock()
        self._pool: ConnectionPool | None = None
        self._client: AsyncSageMakerRuntimeHTTP2Client | None = None
        self._streams: set[BidiStream] = set()
        self._closed = False

    async def open_stream(
        self, invocation_path: str | None, *, query_string: str | None = None, target_variant: str | None = None
    ) -> BidiStream:
        """Open a stream; returns once the container has taken it.

        Args:
            invocation_path: the container's WebSocket path without a leading slash (`v1/audio/speech/stream`); None for
                the platform's default, `invocations-bidirectional-stream`.
            query_string: given to the container, without a question mark.
            target_variant: the production variant; None lets the endpoint choose.

        Raises:
            BadInputError: a path or query the service would refuse.
            CredentialsError: no credentials, or not accepted ones.
            EndpointNotFoundError, EndpointNotInServiceError: the endpoint's name or state.
            RefusedError: the container did not take the stream.
            ThrottledError, InternalFailureError: the service's state.
            ConnectError: no connection, or a certificate that is not trusted.
            DeadlineError: no answer in time.
        """
        _check_request(invocation_path, query_string, endpoint=self.target.endpoint_name)
        if self._closed:
            raise ProtocolError("the transport is closed", endpoint=self.target.endpoint_name)
        try:
            identity = await self._identity.identity(deadline_seconds=self.settings.credentials_seconds)
            pool, client = await self._set_up()
        except VoiceError as error:
            error.endpoint = self.target.endpoint_name
            raise
        request = InvokeEndpointWithBidirectionalStreamInput(
            endpoint_name=self.target.endpoint_name,
            target_variant=target_variant,
            model_invocation_path=invocation_path,
            model_query_string=query_string,
        )
        exchange = Exchange(await pool.acquire(), endpoint=self.target.endpoint_name, settings=self.settings)
        try:
            stream = await self._open_on(exchange, client, request, identity)
        except ConnectionLostError:
            if not exchange.unprocessed:
                raise
            # A shared connection that the server was about to close: nothing was lost, and nobody need know.
            exchange = Exchange(await pool.acquire(), endpoint=self.target.endpoint_name, settings=self.settings)
            stream = await self._open_on(exchange, client, request, identity)
        self._streams.add(stream)
        return stream

    async def _open_on(
        self,
        exchange: Exchange,
        client: AsyncSageMakerRuntimeHTTP2Client,
        request: InvokeEndpointWithBidirectionalStreamInput,
        identity: Identity,
    ) -> BidiStream:
        call = asyncio.create_task(self._invoke(client, request, _StreamPlugin(exchange, identity)))
        call.add_done_callback(lambda done: _end_exchange(done, exchange))
        try:
            return await self._opened(call, exchange)
        except BaseException as error:
            await self._withdraw(call, exchange)
            if isinstance(error, VoiceError):
                error.endpoint = self.target.endpoint_name
            raise

    async def close(self) -> None:
        """Close every stream and connection; returns within about twice the close deadline. Idempotent."""
        self._closed = True
        await asyncio.gather(*(stream.close() for stream in tuple(self._streams) if not stream._owns_transport))
        pool, self._pool, self._client = self._pool, None, None
        if pool is not None:
            await pool.close()

    def forget(self, stream: BidiStream) -> None:
        """Drop a stream that is closed."""
        self._streams.discard(stream)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def _set_up(self) -> tuple[ConnectionPool, AsyncSageMakerRuntimeHTTP2Client]:
        async with self._setup_lock:
            if self._pool is None or self._client is None:
                target = self.target
                address = await call_blocking(
                    lambda: resolve_address(
                        target.region, endpoint_url=target.endpoint_url, ca_bundle=target.ca_bundle
                    ),
                    deadline_seconds=self.settings.connect_seconds,
                    doing="reading the endpoint's address",
                    advice="Check that the CA bundle is on a disk that answers",
                )
                # botocore has read the user's configuration; the SDK would read it again, by rules of its own.
                config = await AsyncSageMakerRuntimeHTTP2Config.resolve(
                    profile="default",
                    fs=_NoFiles(),
                    region=target.region,
                    endpoint_uri=address.url,
                    transport=StreamTransport(),
                    retry_strategy=RetryStrategyOptions(max_attempts=1),
                    max_attempts=1,
                    retry_mode="standard",
                    sdk_ua_app_id=None,
                )
                if self._closed:
                    raise ProtocolError("the transport is closed", endpoint=target.endpoint_name)
                self._client = AsyncSageMakerRuntimeHTTP2Client(config=config)
                self._pool = ConnectionPool(address, endpoint=target.endpoint_name, settings=self.settings)
            return self._pool, self._client

    async def _opened(self, call: "asyncio.Task[_Opened]", exchange: Exchange) -> BidiStream:
        endpoint = self.target.endpoint_name
        answer: HttpAnswer | None = None
        try:
            async with asyncio.timeout(self.settings.open_seconds):
                answer = await exchange.answer()
                publisher, output, receiver = await asyncio.shield(call)
        except TimeoutError:
            raise DeadlineError(f"no answer within {self.settings.open_seconds:g} s", endpoint=endpoint) from None
        except SmithyError as error:
            if answer is not None and answer.status != 200:
                raise refusal(answer, endpoint=endpoint) from error
            exchange.raise_failure()
            raise _unsendable(error) from error
        variant = output.invoked_production_variant
        return BidiStream(exchange, publisher, receiver, invoked_variant=variant, shared=self)

    async def _invoke(
        self,
        client: AsyncSageMakerRuntimeHTTP2Client,
        request: InvokeEndpointWithBidirectionalStreamInput,
        plugin: "_StreamPlugin",
    ) -> "_Opened":
        stream = await client.invoke_endpoint_with_bidirectional_stream(request, plugins=[plugin])
        output, receiver = await stream.await_output()
        return stream.input_stream, output, receiver

    async def _withdraw(self, call: "asyncio.Task[Any]", exchange: Exchange) -> None:
        """Undo an open that failed: end the exchange, so that the SDK's own tasks end, and wait for them."""
        exchange.fail(ProtocolError("the stream was not opened", endpoint=self.target.endpoint_name))
        if exchange.started:
            exchange.end_input()
            exchange.discard_output()
            if not exchange.ended.is_set() and not exchange.output_ended:
                exchange.connection.abandon(exchange)
        else:
            exchange.connection.release(exchange)
            call.cancel()  # the SDK waits without end for a request that was never sent
        await asyncio.wait({call})
        if not call.cancelled():
            call.exception()


@dataclass(slots=True)
class _StreamPlugin:
    """Binds one call of the SDK to one exchange and one identity."""

    exchange: Exchange
    identity: Identity

    def __call__(self, config: AsyncSageMakerRuntimeHTTP2Config) -> None:
        config.transport = StreamTransport(self.exchange)
        config.aws_credentials_identity_resolver = _Pinned(self.identity)
        config.interceptors.append(_StreamHooks(self.exchange))


class _Pinned:
    """The SDK asks for an identity at every event; it gets the stream's own."""

    def __init__(self, identity: Identity) -> None:
        self._identity = AWSCredentialsIdentity(
            access_key_id=identity.access_key_id,
            secret_access_key=identity.secret_access_key,
            session_token=identity.session_token,
        )

    async def get_identity(self, *, properties: Any) -> AWSCredentialsIdentity:
        del properties
        return self._identity

    async def invalidate(self) -> None:
        """Nothing is cached."""


class _StreamHooks(Interceptor[Any, Any, Any, Any]):
    """Gives the signed request a body that writes straight to the stream, and reports a request that was never sent."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._handed_over = False

    def modify_before_transmit(self, context: Any) -> Any:
        self._handed_over = True
        context.transport_request.body = RequestBody(self._exchange)
        return context.transport_request

    def modify_before_attempt_completion(self, context: Any) -> Any:
        # When serializing or signing fails, the SDK tells nobody and its caller waits for ever. It runs this hook in
        # place of `modify_before_completion`, too.
        if isinstance(context.response, Exception) and not self._handed_over:
            self._exchange.fail(_unsendable(context.response))
            return InvokeEndpointWithBidirectionalStreamOutput()
        return context.response


class _NoFiles:
    """An AWS configuration whose default profile is empty."""

    async def read_file(self, path: str) -> str | None:
        del path
        return "[default]\n"


def _end_exchange(call: "asyncio.Task[_Opened]", exchange: Exchange) -> None:
    """Let nobody wait for the answer to a call that failed."""
    if not call.cancelled() and (error := call.exception()) is not None:
        exchange.fail(_unsendable(error))


def _unsendable(error: BaseException) -> ProtocolError:
    failure = ProtocolError(f"the request could not be made ({type(error).__name__})")
    failure.__cause__ = error
    return failure


def _check_request(invocation_path: str | None, query_string: str | None, *, endpoint: str) -> None:
    problems = []
    if invocation_path is not None and (not invocation_path or invocation_path.startswith("/")):
        problems.append(f"the invocation path {invocation_path!r} must be given without a leading slash")
    if invocation_path is not None and len(invocation_path) > MAX_PATH_CHARACTERS:
        problems.append(f"the invocation path is longer than {MAX_PATH_CHARACTERS} characters")
    if query_string is not None and len(query_string) > MAX_QUERY_CHARACTERS:
        problems.append(f"the query string is longer than {MAX_QUERY_CHARACTERS} characters")
    if problems:
        raise BadInputError("; ".join(problems), endpoint=endpoint)
