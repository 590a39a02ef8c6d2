"""The real SDK with its CRT transport, as a user would set it up by hand."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from aws_sdk_sagemaker_runtime_http2.client import AsyncSageMakerRuntimeHTTP2Client
from aws_sdk_sagemaker_runtime_http2.config import AsyncSageMakerRuntimeHTTP2Config
from aws_sdk_sagemaker_runtime_http2.models import (
    InvokeEndpointWithBidirectionalStreamInput,
    RequestPayloadPart,
    RequestStreamEventPayloadPart,
)
from awscrt.io import ClientTlsContext, TlsContextOptions
from smithy_aws_core.identity import StaticCredentialsResolver
from smithy_http.aio.crt import AWSCRTHTTPClient, AWSCRTHTTPClientConfig

DEADLINE = 15.0


class _TrustingTransport(AWSCRTHTTPClient):
    """The stock transport with a CA bundle of its own instead of the process's SSL_CERT_FILE."""

    def __init__(self, ca_bundle: Path) -> None:
        super().__init__(client_config=AWSCRTHTTPClientConfig(force_http_2=True))
        options = TlsContextOptions()
        options.override_default_trust_store_from_path(None, str(ca_bundle))
        self._tls_ctx = ClientTlsContext(options)

    def __deepcopy__(self, memo: Any) -> "_TrustingTransport":
        return self


@contextlib.asynccontextmanager
async def sdk_client(
    url: str, ca_bundle: Path, access_key: str, secret_key: str, region: str
) -> AsyncIterator[AsyncSageMakerRuntimeHTTP2Client]:
    config = await AsyncSageMakerRuntimeHTTP2Config.resolve(
        endpoint_uri=url,
        region=region,
        aws_access_key_id=access_key,
        aws_secret_access_key=secret_key,
        aws_credentials_identity_resolver=StaticCredentialsResolver(),
        transport=_TrustingTransport(ca_bundle),
    )
    async with AsyncSageMakerRuntimeHTTP2Client(config=config) as client:
        yield client


class SdkStream:
    """One open stream of the SDK."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream
        self.output: Any = None
        self.receiver: Any = None

    async def opened(self) -> "SdkStream":
        async with asyncio.timeout(DEADLINE):
            self.output, self.receiver = await self.stream.await_output()
        return self

    async def send(self, payload: bytes, **options: str) -> None:
        part = RequestPayloadPart(bytes_=payload, **options)
        async with asyncio.timeout(DEADLINE):
            await self.stream.input_stream.send(RequestStreamEventPayloadPart(value=part))

    async def receive(self) -> Any:
        async with asyncio.timeout(DEADLINE):
            return await self.receiver.receive()

    async def end_input(self) -> None:
        async with asyncio.timeout(DEADLINE):
            await self.stream.input_stream.close()


async def open_stream(client: AsyncSageMakerRuntimeHTTP2Client, endpoint: str, **options: str) -> SdkStream:
    request = InvokeEndpointWithBidirectionalStreamInput(endpoint_name=endpoint, **options)
    async with asyncio.timeout(DEADLINE):
        return SdkStream(await client.invoke_endpoint_with_bidirectional_stream(request))
