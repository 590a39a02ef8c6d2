"""Streams to one endpoint over connections they share."""

import asyncio
import ssl
from types import TracebackType
from typing import Any, Self

from aws_sdk_sagemaker_runtime_http2.client import AsyncSageMakerRuntimeHTTP2Client  # type: ignore[import-untyped]
from aws_sdk_sagemaker_runtime_http2.models import (  # type: ignore[import-untyped]
    InvokeEndpointWithBidirectionalStreamInput,
    InvokeEndpointWithBidirectionalStreamOutput,
)
from smithy_core.exceptions import SmithyError

from voice_client.blocking import call_blocking
from voice_client.errors import BadInputError, ConnectionLostError, DeadlineError, ProtocolError, VoiceError
from voice_client.transport.address import StreamAddress, resolve_address
from voice_client.transport.connections import ConnectionPool
from voice_client.transport.exchange import Exchange
from voice_client.transport.faults import HttpAnswer, refusal
from voice_client.transport.frames import EventSigner
from voice_client.transport.identity import BotocoreIdentity, Identity, IdentityProvider
from voice_client.transport.sdk import StreamPlugin, create_client, unsendable
from voice_client.transport.settings import StreamTarget, TransportSettings
from voice_client.transport.stream import BidiStream

MAX_PATH_CHARACTERS = 100
MAX_QUERY_CHARACTERS = 2048
"""Limits of the service on the invocation path and the query string."""


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
        _check_request(invocation_path, query_string, target_variant, endpoint=self.target.endpoint_name)
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
        plugin = StreamPlugin(exchange, identity)
        call = asyncio.create_task(self._invoke(client, request, plugin))
        plugin.never_sent = call.cancel  # the SDK itself would wait without end
        call.add_done_callback(lambda done: _end_exchange(done, exchange))
        try:
            return await self._opened(call, exchange, identity)
        except BaseException as error:
            await self._withdraw(call, exchange)
            if isinstance(error, VoiceError):
                error.endpoint = self.target.endpoint_name
            raise

    async def close(self) -> None:
        """Close every stream and connection; returns within about twice the close deadline. Idempotent."""
        self._closed = True
        try:
            await asyncio.gather(*(stream.close() for stream in tuple(self._streams) if not stream._owns_transport))
        finally:  # also when cancelled: a connection left open would outlive its event loop
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

                def find() -> tuple[StreamAddress, ssl.SSLContext]:
                    address = resolve_address(
                        target.region, endpoint_url=target.endpoint_url, ca_bundle=target.ca_bundle
                    )
                    return address, address.tls_context()

                address, tls = await call_blocking(
                    find,
                    deadline_seconds=self.settings.connect_seconds,
                    doing="reading the endpoint's address",
                    advice="Check that the CA bundle is on a disk that answers",
                )
                client = await create_client(target.region, address.url)
                if self._closed:
                    raise ProtocolError("the transport is closed", endpoint=target.endpoint_name)
                self._client = client
                self._pool = ConnectionPool(address, tls, endpoint=target.endpoint_name, settings=self.settings)
            return self._pool, self._client

    async def _opened(
        self, call: "asyncio.Task[InvokeEndpointWithBidirectionalStreamOutput]", exchange: Exchange, identity: Identity
    ) -> BidiStream:
        endpoint = self.target.endpoint_name
        answer: HttpAnswer | None = None
        try:
            async with asyncio.timeout(self.settings.open_seconds):
                answer = await exchange.answer()
                output = await asyncio.shield(call)
        except TimeoutError:
            raise DeadlineError(f"no answer within {self.settings.open_seconds:g} s", endpoint=endpoint) from None
        except SmithyError as error:
            if answer is not None and answer.status != 200:
                raise refusal(answer, endpoint=endpoint) from error
            exchange.raise_failure()
            raise unsendable(error) from error
        variant = output.invoked_production_variant
        signer = EventSigner(identity, self.target.region, exchange.request_signature)
        return BidiStream(exchange, signer, invoked_variant=variant, shared=self)

    async def _invoke(
        self,
        client: AsyncSageMakerRuntimeHTTP2Client,
        request: InvokeEndpointWithBidirectionalStreamInput,
        plugin: StreamPlugin,
    ) -> InvokeEndpointWithBidirectionalStreamOutput:
        stream = await client.invoke_endpoint_with_bidirectional_stream(request, plugins=[plugin])
        output, _ = await stream.await_output()  # the receiver is not used: events are read in `response_events`
        return output

    async def _withdraw(self, call: "asyncio.Task[Any]", exchange: Exchange) -> None:
        """Undo an open that failed: end the exchange, so that the SDK's own tasks end, and wait for them."""
        exchange.fail(ProtocolError("the stream was not opened", endpoint=self.target.endpoint_name))
        if exchange.started:
            exchange.abandon()
        else:
            exchange.withdraw()
        # Not cancelled at once: the SDK would go on with a task of its own, whose failure nobody hears.
        await asyncio.wait({call}, timeout=self.settings.close_seconds)
        call.cancel()
        await asyncio.wait({call})
        if not call.cancelled():
            call.exception()


def _end_exchange(call: "asyncio.Task[InvokeEndpointWithBidirectionalStreamOutput]", exchange: Exchange) -> None:
    """Let nobody wait for the answer to a call that failed."""
    if not call.cancelled() and (error := call.exception()) is not None:
        exchange.fail(unsendable(error))


def _check_request(
    invocation_path: str | None, query_string: str | None, target_variant: str | None, *, endpoint: str
) -> None:
    problems = [
        f"{name} {value!r} has a character that no header can carry"
        for name, value in (
            ("the invocation path", invocation_path),
            ("the query string", query_string),
            ("the target variant", target_variant),
        )
        if value is not None and not value.isprintable()
    ]
    if invocation_path is not None and (not invocation_path or invocation_path.startswith("/")):
        problems.append(f"the invocation path {invocation_path!r} must be given without a leading slash")
    if invocation_path is not None and len(invocation_path) > MAX_PATH_CHARACTERS:
        problems.append(f"the invocation path is longer than {MAX_PATH_CHARACTERS} characters")
    if query_string is not None and len(query_string) > MAX_QUERY_CHARACTERS:
        problems.append(f"the query string is longer than {MAX_QUERY_CHARACTERS} characters")
    if problems:
        raise BadInputError("; ".join(problems), endpoint=endpoint)
