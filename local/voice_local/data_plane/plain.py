"""InvokeEndpoint: one request, one answer of the container's POST /invocations."""

import asyncio
from dataclasses import dataclass

import httpx

from voice_local.data_plane.errors import RequestRefusedError, input_validation_error
from voice_local.data_plane.model_errors import ModelErrors
from voice_local.data_plane.request_stream import RequestStream
from voice_local.data_plane.settings import DataPlaneSettings
from voice_local.data_plane.sigv4 import SignedRequest
from voice_local.interfaces import ServingContainer

_REQUEST_HEADERS = ("content-type", "accept", "x-amzn-sagemaker-custom-attributes")
_ANSWER_HEADERS = ("content-type", "x-amzn-sagemaker-custom-attributes")


@dataclass(frozen=True, slots=True)
class PlainAnswer:
    """What the container answered with status 2xx."""

    headers: tuple[tuple[str, str], ...]
    body: bytes


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

    async def invoke(
        self, container: ServingContainer, request: SignedRequest, body: bytes, errors: ModelErrors
    ) -> PlainAnswer:
        """Forward a request to `POST /invocations`.

        Raises:
            RequestRefusedError: 424 ModelError when the container answers with an error, too late or not at all.
        """
        if self._client is None:
            # No environment: a proxy there must not see loopback traffic.
            self._client = httpx.AsyncClient(trust_env=False, follow_redirects=False)
        seconds = self._settings.plain_invocation_seconds
        headers = {name: value for name in _REQUEST_HEADERS if (value := request.header(name)) is not None}
        url = f"http://127.0.0.1:{container.port}/invocations"
        try:
            async with asyncio.timeout(seconds):
                answer = await self._client.post(url, content=body, headers=headers, timeout=None)
        except TimeoutError:
            raise errors.failed(f"The container did not answer POST /invocations within {seconds:g} s.") from None
        except httpx.TransportError as error:
            raise errors.failed(
                f"The container broke off POST /invocations ({type(error).__name__}); it may have ended."
            ) from None
        if not answer.is_success:
            raise errors.refused(answer.status_code, answer.text)
        kept = tuple((name, answer.headers[name]) for name in _ANSWER_HEADERS if name in answer.headers)
        return PlainAnswer(kept, answer.content)

    async def aclose(self) -> None:
        """Close the connections to containers."""
        if self._client is not None:
            client, self._client = self._client, None
            await client.aclose()
