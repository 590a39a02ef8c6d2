"""From a stage or an endpoint's name to something that opens streams to it."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from voice_client.session.connection import MessageStream, StreamOpener

DEFAULT_STAGE = "dev"


@dataclass(frozen=True, slots=True)
class EndpointAddress:
    """How a caller names an endpoint."""

    kind: Literal["stt", "tts"]
    stage: str | None = None
    """A deployed stage; `dev` when neither it nor an endpoint is given."""
    endpoint_name: str | None = None
    region: str | None = None
    """AWS region; None takes the SDK's default chain."""
    endpoint_url: str | None = None
    """`https://host:port` of the streaming API; None takes the environment's or AWS's own."""
    ca_bundle: str | Path | None = None
    """PEM file of certificate authorities to trust instead of the system's."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An endpoint that was found."""

    name: str
    model: str | None
    """Name its server knows the model by; None when no stage published it."""
    opener: StreamOpener
    max_model_len: int | None = None
    """Longest input of the model in tokens; None when no stage published it."""
    region: str | None = None
    """AWS region it was found in."""


@asynccontextmanager
async def open_endpoint(address: EndpointAddress, *, invocation_path: str | None) -> AsyncGenerator[Endpoint]:
    """Look an endpoint up and keep a connection to it for all its streams; none is opened yet.

    Args:
        address: which endpoint.
        invocation_path: the container's WebSocket path, slashless; None is `/invocations-bidirectional-stream`.

    Raises:
        CredentialsError: no credentials or no region.
        EndpointNotFoundError: the stage is not deployed in this account and region.
    """
    # The SDK takes most of a second to load; `import voice_client` and `voice --help` shall not.
    from voice_client.endpoints import resolve_endpoint  # noqa: PLC0415
    from voice_client.transport import StreamTarget, VoiceTransport  # noqa: PLC0415

    resolved = await resolve_endpoint(
        address.kind,
        stage=address.stage or (None if address.endpoint_name else DEFAULT_STAGE),
        endpoint_name=address.endpoint_name,
        region=address.region,
    )
    target = StreamTarget(
        endpoint_name=resolved.endpoint_name,
        region=resolved.region,
        endpoint_url=address.endpoint_url,
        ca_bundle=Path(address.ca_bundle) if address.ca_bundle is not None else None,
    )
    async with VoiceTransport(target) as transport:

        async def open_stream() -> MessageStream:
            return await transport.open_stream(invocation_path)

        yield Endpoint(
            resolved.endpoint_name, resolved.model_id, open_stream, resolved.max_model_len, region=resolved.region
        )
