"""The events of a stream are, byte for byte, those of the SDK."""

import re
from typing import Any

import pytest
from aws_sdk_sagemaker_runtime_http2.models import (  # type: ignore[import-untyped]
    RequestPayloadPart,
    RequestStreamEventPayloadPart,
)
from aws_sdk_signers import AsyncEventSigner
from smithy_aws_core.identity import AWSCredentialsIdentity
from smithy_aws_event_stream.aio import AWSEventPublisher, SigningConfig
from smithy_aws_event_stream.events import EventHeaderEncoder
from smithy_core.interfaces.identity import Identity as SdkIdentity
from smithy_json import JSONCodec

from voice_client.transport import Identity
from voice_client.transport.frames import SERVICE, EventSigner

SEED = "5b" * 32
REGION = "eu-central-1"


class Resolver:
    async def get_identity(self, *, properties: Any) -> SdkIdentity:
        return AWSCredentialsIdentity(access_key_id="AKID", secret_access_key="a/secret+key")


class Written:
    def __init__(self) -> None:
        self.frames: list[bytes] = []

    async def write(self, data: bytes) -> None:
        self.frames.append(data)

    def close(self) -> None:
        return


async def by_the_sdk(messages: list[tuple[bytes, str]]) -> list[bytes]:
    """Signed frames of the SDK for the same messages, and for the end of the input."""
    signer = AsyncEventSigner(initial_signature=SEED.encode(), event_encoder_cls=EventHeaderEncoder)
    properties: Any = {"region": REGION, "service": SERVICE}
    written = Written()
    config: Any = SigningConfig(signer, properties, Resolver(), {})  # type: ignore[arg-type]
    publisher: AWSEventPublisher[Any] = AWSEventPublisher(JSONCodec(), written, config)
    for data, data_type in messages:
        part = RequestPayloadPart(bytes_=data, data_type=data_type, completion_state="COMPLETE")
        await publisher.send(RequestStreamEventPayloadPart(value=part))
    await publisher.close()
    return written.frames


def milliseconds(frame: bytes) -> int:
    found = re.search(rb":date\x08(.{8})", frame, re.DOTALL)
    assert found is not None
    return int.from_bytes(found[1])


async def test_each_frame_is_the_sdks_own() -> None:
    messages = [(b"hello", "UTF8"), ("Grüße".encode(), "UTF8"), (bytes(range(256)) * 40, "BINARY"), (b"", "UTF8")]
    expected = await by_the_sdk(messages)
    times = iter([milliseconds(frame) for frame in expected])
    signer = EventSigner(Identity("AKID", "a/secret+key"), REGION, SEED, clock=lambda: next(times))
    ours = [signer.part(data, data_type) for data, data_type in messages]  # type: ignore[arg-type]
    assert [*ours, signer.end()] == expected


@pytest.mark.parametrize("midnight", [1_798_761_600])
def test_the_key_changes_with_the_day(midnight: int) -> None:
    times = iter([midnight * 1000 - 1, midnight * 1000])
    signer = EventSigner(Identity("AKID", "key"), REGION, SEED, clock=lambda: next(times))
    signer.part(b"before", "UTF8")
    before = signer._key
    assert signer._scope.startswith("20261231/")
    signer.part(b"after", "UTF8")
    assert signer._scope.startswith("20270101/")
    assert signer._key != before
