"""What the endpoint sends is read as the SDK reads it: every event held against the SDK's own encoder and receiver."""

import random
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import pytest
from aws_sdk_sagemaker_runtime_http2 import models  # type: ignore[import-untyped]
from smithy_aws_event_stream.aio import AWSEventPublisher, AWSEventReceiver
from smithy_aws_event_stream.events import Byte, EventMessage, Long, Short
from smithy_core.aio.types import AsyncBytesReader
from smithy_json import JSONCodec

from voice_client.transport.response_events import BrokenResponseError, EventFaultError, ResponseEvents


class Collected:
    """Takes what the SDK's publisher writes."""

    def __init__(self) -> None:
        self.data = b""

    async def write(self, data: bytes) -> None:
        self.data += data

    async def close(self) -> None:
        pass


def event(payload: bytes, **headers: Any) -> bytes:
    return EventMessage(headers={name.replace("_", ":", 1): v for name, v in headers.items()}, payload=payload).encode()


async def published(*parts: models.ResponsePayloadPart) -> bytes:
    collected = Collected()
    publisher: Any = AWSEventPublisher(payload_codec=JSONCodec(), async_writer=collected, is_client_mode=False)
    for part in parts:
        await publisher.send(models.ResponseStreamEventPayloadPart(value=part))
    return collected.data


def part(data: bytes, data_type: str | None, state: str | None) -> models.ResponsePayloadPart:
    return models.ResponsePayloadPart(bytes_=data, data_type=data_type, completion_state=state)


async def test_parts_are_what_the_sdk_makes_and_reads() -> None:
    parts = [
        part(b"text", "UTF8", "COMPLETE"),
        part("Grüße".encode(), "UTF8", None),
        part(b"\x00\xff", "BINARY", "COMPLETE"),
        part(b"untyped", None, None),
        part(b"one ", "UTF8", "PARTIAL"),
        part(b"message", "UTF8", "COMPLETE"),
    ]
    data = await published(*parts)

    async def source() -> AsyncIterator[bytes]:
        yield data

    receiver: Any = AWSEventReceiver(
        payload_codec=JSONCodec(),
        source=AsyncBytesReader(source()),
        deserializer=models._ResponseStreamEventDeserializer().deserialize,
    )
    assert [(await receiver.receive()).value for _ in parts] == parts
    expected = [("text", 4), ("Grüße", 7), (b"\x00\xff", 2), (b"untyped", 7), ("one message", 11)]
    assert list(ResponseEvents(100).feed(data)) == expected


async def test_it_does_not_matter_how_the_bytes_are_cut() -> None:
    generator = random.Random(6)  # noqa: S311  # no secret
    messages = [generator.randbytes(generator.randrange(300)) for _ in range(200)]
    data = await published(*(part(message, "BINARY", "COMPLETE") for message in messages))
    events = ResponseEvents(300)
    received = []
    while data:
        size = generator.choice([1, 2, 11, 12, 13, 100, 1000])
        received += [message for message, _ in events.feed(data[:size])]
        data = data[size:]
    events.finish()
    assert received == messages


def test_headers_of_every_type_are_passed_over() -> None:
    headers: dict[str, Any] = {
        "_message-type": "event",
        "true": True,
        "false": False,
        "byte": Byte(1),
        "short": Short(2),
        "int": 3,
        "long": Long(4),
        "bytes": b"5",
        "uuid": UUID(int=6),
        "_event-type": "PayloadPart",
        "DataType": "UTF8",
    }
    assert list(ResponseEvents(10).feed(event(b"seven", **headers))) == [("seven", 5)]


@pytest.mark.parametrize(
    ("headers", "payload", "kind", "said", "code"),
    [
        (
            {"_message-type": "exception", "_exception-type": "ModelStreamError"},
            b'{"Message": "out of memory", "ErrorCode": "StreamBroken"}',
            "ModelStreamError",
            "out of memory",
            "StreamBroken",
        ),
        ({"_message-type": "exception", "_exception-type": "Newer"}, b"not JSON", "Newer", None, None),
        ({"_message-type": "error", "_error-code": "Odd", "_error-message": "so"}, b"", "Odd", "so", None),
    ],
)
def test_the_services_faults_keep_their_words(
    headers: dict[str, str], payload: bytes, kind: str, said: str | None, code: str | None
) -> None:
    with pytest.raises(EventFaultError) as told:
        list(ResponseEvents(1000).feed(event(payload, **headers)))
    assert (told.value.kind, told.value.said, told.value.error_code) == (kind, said, code)


PART = event(b"payload", **{"_message-type": "event", "_event-type": "PayloadPart", "DataType": "UTF8"})


def read_whole(data: bytes) -> None:
    events = ResponseEvents(100)
    list(events.feed(data))
    events.finish()


def test_no_flipped_byte_goes_unseen() -> None:
    read_whole(PART)
    for position in range(len(PART)):
        damaged = PART[:position] + bytes([PART[position] ^ 0x41]) + PART[position + 1 :]
        with pytest.raises(BrokenResponseError, match="not an event stream"):
            read_whole(damaged)


def test_a_claimed_length_is_not_waited_for() -> None:
    long = event(bytes(2000), **{"_message-type": "event", "_event-type": "PayloadPart"})
    with pytest.raises(BrokenResponseError, match="longer than 1000 bytes"):
        list(ResponseEvents(1000).feed(long[:12]))
