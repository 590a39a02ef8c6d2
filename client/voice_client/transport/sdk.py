"""Everything that the AWS SDK is told: a transport, a body, an identity and hooks for each call.

Through its public extension points (`DuplexClientTransport`, a plugin for a call, an interceptor). What still rests on
behaviour that it does not document, tests/client/transport/test_pinned_sdk.py checks.
"""

import logging
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, Self

from aws_sdk_sagemaker_runtime_http2.client import AsyncSageMakerRuntimeHTTP2Client  # type: ignore[import-untyped]
from aws_sdk_sagemaker_runtime_http2.config import AsyncSageMakerRuntimeHTTP2Config  # type: ignore[import-untyped]
from aws_sdk_sagemaker_runtime_http2.models import (  # type: ignore[import-untyped]
    InvokeEndpointWithBidirectionalStreamOutput,
)
from smithy_aws_core.identity import AWSCredentialsIdentity
from smithy_core.interceptors import Interceptor
from smithy_core.retries import RetryStrategyOptions
from smithy_http import Field, Fields
from smithy_http.aio.interfaces import HTTPRequest

from voice_client.errors import ProtocolError
from voice_client.transport.exchange import Exchange
from voice_client.transport.faults import HttpAnswer
from voice_client.transport.identity import Identity

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


async def create_client(region: str, url: str) -> AsyncSageMakerRuntimeHTTP2Client:
    """Return a client of the SDK whose every call needs a `StreamPlugin`."""
    # botocore has read the user's configuration; the SDK would read it again, by rules of its own.
    config = await AsyncSageMakerRuntimeHTTP2Config.resolve(
        profile="default",
        fs=_NoFiles(),
        region=region,
        endpoint_uri=url,
        transport=StreamTransport(),
        retry_strategy=RetryStrategyOptions(max_attempts=1),
        max_attempts=1,
        retry_mode="standard",
        sdk_ua_app_id=None,
    )
    return AsyncSageMakerRuntimeHTTP2Client(config=config)


@dataclass(slots=True)
class StreamPlugin:
    """Binds one call of the SDK to one exchange and one identity."""

    exchange: Exchange
    identity: Identity
    never_sent: Callable[[], object] = field(default=lambda: None)
    """Called when the request could not be made, for then the SDK's call does not end by itself."""

    def __call__(self, config: AsyncSageMakerRuntimeHTTP2Config) -> None:
        config.transport = StreamTransport(self.exchange)
        config.aws_credentials_identity_resolver = _Pinned(self.identity)
        config.interceptors.append(_StreamHooks(self))


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
    """Gives the signed request a body of ours, and reports a request that was never sent."""

    def __init__(self, plugin: StreamPlugin) -> None:
        self._plugin = plugin
        self._handed_over = False

    def modify_before_transmit(self, context: Any) -> Any:
        self._handed_over = True
        context.transport_request.body = RequestBody()
        return context.transport_request

    def modify_before_attempt_completion(self, context: Any) -> Any:
        # When serializing or signing fails, the SDK tells nobody and its caller waits for ever. It runs this hook in
        # place of `modify_before_completion`, too.
        if isinstance(context.response, Exception) and not self._handed_over:
            self._plugin.exchange.fail(unsendable(context.response))
            self._plugin.never_sent()
            return InvokeEndpointWithBidirectionalStreamOutput()
        return context.response


class _NoFiles:
    """An AWS configuration whose default profile is empty."""

    async def read_file(self, path: str) -> str | None:
        del path
        return "[default]\n"


class StreamTransport:
    """What the SDK takes for its transport: sends one request, on one exchange."""

    TIMEOUT_EXCEPTIONS: tuple[type[Exception], ...] = ()
    SUPPORTS_DUPLEX_STREAMING: Literal[True] = True

    def __init__(self, exchange: Exchange | None = None) -> None:
        self._exchange = exchange

    async def send(self, request: HTTPRequest, *, request_config: Any = None) -> "StreamResponse":
        """Send the head, wait for the answer's; for an error, for its body."""
        del request_config
        if self._exchange is None:
            raise ProtocolError("a request outside of a stream")
        self._exchange.request_signature = _signature(request)
        self._exchange.start(_request_head(request))
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
    """Takes the place of the SDK's body buffer. The SDK writes nothing into it: events are made by `frames`."""

    async def write(self, data: bytes) -> None:
        """Refuse: a frame of the SDK's own would break the chain of signatures."""
        raise ProtocolError(f"the SDK wrote {len(data)} bytes into a stream by itself")

    async def close(self) -> None:
        """Leave the stream as it is; `BidiStream` ends it."""


def _signature(request: HTTPRequest) -> str:
    """Return the signature in the request's `Authorization`."""
    authorization = request.fields["Authorization"].as_string() if "Authorization" in request.fields else ""
    found = re.search(r"Signature=([0-9a-f]{64})\b", authorization)
    if found is None:
        raise ProtocolError("the SDK has not signed the request")
    return found[1]


def _request_head(request: HTTPRequest) -> list[tuple[str, str]]:
    """Return the request's head as HTTP/2 has it."""
    destination = request.destination
    fields = [(item.name.lower(), value) for item in request.fields.entries.values() for value in item.values]
    for name, value in fields:
        if not value.isprintable():  # a session token with a line's end, say: the server would drop all its streams
            raise ProtocolError(f"the header {name} has a character that no header can carry")
    authority = next((value for name, value in fields if name == "host"), destination.netloc)
    query = f"?{destination.query}" if destination.query else ""
    return [
        (":method", request.method),
        (":scheme", "https"),
        (":authority", authority),
        (":path", (destination.path or "/") + query),
        *((name, value) for name, value in fields if name != "host"),
    ]


def unsendable(error: BaseException) -> ProtocolError:
    """A request that failed before it was sent: it could not be serialized or signed, say."""
    failure = ProtocolError(f"the request could not be made ({type(error).__name__})")
    failure.__cause__ = error
    return failure
