"""InvokeEndpoint and InvokeEndpointWithResponseStream: one request to the container's POST /invocations.

The first hands the answer over whole, the second as an event stream while the container still writes it.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import httpx

from voice_local.data_plane.errors import (
    RequestRefusedError,
    StreamFaultError,
    input_validation_error,
    model_stream_error,
)
from voice_local.data_plane.model_errors import ModelErrors
from voice_local.data_plane.payload_parts import encode_fault, encode_response_part
from voice_local.data_plane.request_stream import RequestStream
from voice_local.data_plane.settings import DataPlaneSettings
from voice_local.data_plane.sigv4 import SignedRequest
from voice_local.interfaces import ServingContainer

_CUSTOM_ATTRIBUTES = "x-amzn-sagemaker-custom-attributes"
_ACCEPT_OF_STREAM = "x-amzn-sagemaker-accept"


@dataclass(frozen=True, slots=True)
class PlainAnswer:
    """What the container answers with status 2xx; the body is still to be read."""

    content_type: str | None
    custom_attributes: str | None
    response: httpx.Response

    def headers(self, content_type_header: str) -> list[tuple[str, str]]:
        """Return the headers that reach the client; its SDK looks for the content type under one of two names."""
        named = ((content_type_header, self.content_type), (_CUSTOM_ATTRIBUTES, self.custom_attributes))
        return [(name, value) for name, value in named if value is not None]


async def read_body(stream: RequestStream, largest: int, settings: DataPlaneSettings) -> bytes:
    """Read the whole body of a request, at most `largest` bytes.

    Raises:
        RequestRefusedError: 400 when it is too large, 408 when it does not arrive in time.
        StreamBrokenError: the client reset the stream or is gone.
    """
    pieces: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(settings.request_body_seconds):
            while (data := await stream.receive()) is not None:
                size += len(data)
                if size > largest:
                    raise input_validation_error(f"The body has more than {largest} bytes.")
                pieces.append(data)
    except TimeoutError:
        raise RequestRefusedError(
            408, "RequestTimeoutException", f"The body did not arrive within {settings.request_body_seconds:g} s."
        ) from None
    return b"".join(pieces)


class PlainInvoker:
    """Calls containers over HTTP; keeps one connection pool."""

    def __init__(self, settings: DataPlaneSettings) -> None:
        self._settings = settings
        self._client: httpx.AsyncClient | None = None

    @asynccontextmanager
    async def invoke(
        self, container: ServingContainer, request: SignedRequest, body: bytes, errors: ModelErrors
    ) -> AsyncIterator[PlainAnswer]:
        """Forward a request to `POST /invocations`; yields when the container has begun to answer.

        Raises:
            RequestRefusedError: 424 ModelError when the container answers with an error, too late or not at all.
        """
        if self._client is None:
            # No environment: a proxy there must not see loopback traffic. The answer is passed on as it is.
            self._client = httpx.AsyncClient(trust_env=False, follow_redirects=False, timeout=None)  # noqa: S113 - below
        seconds = self._settings.plain_invocation_seconds
        forwarded = self._client.build_request(
            "POST",
            f"http://127.0.0.1:{container.port}/invocations",
            content=body,
            headers=_forwarded_headers(request),
        )
        try:
            async with asyncio.timeout(seconds):
                response = await self._client.send(forwarded, stream=True)
                if not response.is_success:
                    await response.aread()
        except TimeoutError:
            raise errors.failed(f"The container did not answer POST /invocations within {seconds:g} s.") from None
        except httpx.TransportError as error:
            raise _broken_off(error, errors) from None
        try:
            if not response.is_success:
                raise errors.refused(response.status_code, response.text)
            headers = response.headers
            yield PlainAnswer(headers.get("content-type"), headers.get(_CUSTOM_ATTRIBUTES), response)
        finally:
            await response.aclose()

    async def read_whole(self, answer: PlainAnswer, errors: ModelErrors) -> bytes:
        """Read the rest of an answer that is handed over whole.

        Raises:
            RequestRefusedError: 424 ModelError when it does not come in time or breaks off.
        """
        seconds = self._settings.plain_invocation_seconds
        try:
            async with asyncio.timeout(seconds):
                return await answer.response.aread()
        except TimeoutError:
            raise errors.failed(f"The container did not complete its answer within {seconds:g} s.") from None
        except httpx.TransportError as error:
            raise _broken_off(error, errors) from None

    async def relay(self, answer: PlainAnswer, stream: RequestStream) -> StreamFaultError | None:
        """Pass an answer on piece by piece, as payload parts, and complete the response.

        Returns:
            The fault that the client was told as the last event, None after a normal end.

        Raises:
            StreamBrokenError: the client reset the stream or is gone.
        """
        seconds = self._settings.response_stream_seconds
        fault: StreamFaultError | None = None
        try:
            async with asyncio.timeout(seconds):
                async for piece in answer.response.aiter_bytes():
                    await stream.send(encode_response_part(piece))
        except TimeoutError:
            words = "Your model primary did not complete sending the inference response in the allotted time."
            fault = model_stream_error(words, "ModelInvocationTimeExceeded")
        except httpx.TransportError as error:
            words = f"The container broke off its answer ({type(error).__name__}); it may have ended."
            fault = model_stream_error(words, "StreamBroken")
        farewell = b"" if fault is None else encode_fault(fault)
        await stream.complete(farewell, self._settings.farewell_seconds)
        return fault

    async def aclose(self) -> None:
        """Close the connections to containers."""
        if self._client is not None:
            client, self._client = self._client, None
            await client.aclose()


def _forwarded_headers(request: SignedRequest) -> dict[str, str]:
    """Return what SageMaker lets through to the container; it strips every other header."""
    accept = request.header(_ACCEPT_OF_STREAM) or request.header("accept")
    named = {
        "content-type": request.header("content-type"),
        "accept": accept or "*/*",
        "accept-encoding": "identity",
        _CUSTOM_ATTRIBUTES: request.header(_CUSTOM_ATTRIBUTES),
    }
    return {name: value for name, value in named.items() if value is not None}


def _broken_off(error: httpx.TransportError, errors: ModelErrors) -> RequestRefusedError:
    return errors.failed(f"The container broke off POST /invocations ({type(error).__name__}); it may have ended.")
