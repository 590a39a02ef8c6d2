"""What a platform should not do on the wire, and does some day: each ends as one typed error."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from voice_client.errors import (
    BadInputError,
    ConnectionLostError,
    CredentialsError,
    InternalFailureError,
    ModelError,
    ProtocolError,
    ThrottledError,
    VoiceError,
)
from voice_client.transport import Identity, StaticIdentity, StreamTarget, TransportSettings, VoiceTransport


@pytest.fixture
async def transport(hostile_server: tuple[str, Path]) -> AsyncIterator[VoiceTransport]:
    url, ca_bundle = hostile_server
    target = StreamTarget("ear", "us-east-1", url, ca_bundle)
    identity = StaticIdentity(Identity("AKIAEXAMPLE", "secret"))
    settings = TransportSettings(open_seconds=2.5, error_body_seconds=0.4, message_bytes=2000, close_seconds=0.5)
    async with VoiceTransport(target, settings=settings, identity=identity) as transport:
        yield transport


@pytest.mark.parametrize(
    ("path", "expected", "said", "retryable"),
    [
        ("429", ThrottledError, "throttled", True),
        ("500", InternalFailureError, "(HTTP 500 InternalServerError): because", True),
        ("503", InternalFailureError, "(HTTP 503 ServiceUnavailableError): because", True),
        ("expired", CredentialsError, "expired", False),
        ("denied", CredentialsError, "sagemaker:InvokeEndpointWithBidirectionalStream", False),
        ("bad", BadInputError, "because", False),
        ("proxy", InternalFailureError, "HTTP 502", True),
        ("elsewhere", ProtocolError, "UnknownOperationException", False),
        ("teapot", ProtocolError, "HTTP 418", False),
        ("reset-before-headers", ConnectionLostError, "lost", True),
        ("goaway-before-headers", ConnectionLostError, "lost", True),
    ],
)
async def test_an_open_that_fails(
    transport: VoiceTransport, path: str, expected: type[VoiceError], said: str, retryable: bool
) -> None:
    async with asyncio.timeout(5):
        with pytest.raises(expected) as told:
            await transport.open_stream(path)
    assert type(told.value) is expected
    assert said in str(told.value)
    assert told.value.retryable is retryable
    assert told.value.endpoint == "ear"


@pytest.mark.parametrize(
    ("path", "expected", "said"),
    [
        ("model-error", ModelError, "StreamBroken.*out of memory"),
        ("internal-failure", InternalFailureError, "InternalStreamFailure.*oops"),
        ("unknown-exception", InternalFailureError, "BrandNewFailure"),
        ("throttled", ThrottledError, "Throttling"),
        ("bad-event", BadInputError, "too odd"),
        ("bad-signature", CredentialsError, "signature"),
        ("not-utf8", ProtocolError, "not UTF-8"),
        ("garbage", ProtocolError, "not an event stream"),
        ("half-a-frame", ProtocolError, "not an event stream"),
        ("half-a-message", ProtocolError, "inside a message"),
        ("too-long", ProtocolError, "longer than 2000 bytes"),
    ],
)
async def test_a_stream_that_breaks(
    transport: VoiceTransport, path: str, expected: type[VoiceError], said: str
) -> None:
    async with asyncio.timeout(5):
        stream = await transport.open_stream(path)
        with pytest.raises(expected, match=said) as told:
            await anext(stream)
        assert type(told.value) is expected
        assert told.value.request_id == "r-2"
        with pytest.raises(expected):
            await anext(stream)
        with pytest.raises(expected):
            await stream.send_text("x")
        await stream.close()


@pytest.mark.parametrize("path", ["reset-after", "reset-after-no-error", "goaway-after"])
async def test_a_stream_that_is_cut_is_not_taken_for_finished(transport: VoiceTransport, path: str) -> None:
    async with asyncio.timeout(5):
        stream = await transport.open_stream(path)
        with pytest.raises(ConnectionLostError):
            [message async for message in stream]
        with pytest.raises(ConnectionLostError):
            await stream.send_text("x")
        await stream.close()


async def test_what_came_before_the_error_is_given_before_the_error(transport: VoiceTransport) -> None:
    stream = await transport.open_stream("words-then-error")
    await asyncio.sleep(0.2)  # the error has been read by now
    assert [await anext(stream), await anext(stream)] == ["some", "words"]
    with pytest.raises(ModelError, match="out of memory"):
        await anext(stream)


async def test_partial_parts_are_one_message(transport: VoiceTransport) -> None:
    async with await transport.open_stream("partial") as stream:
        assert [message async for message in stream] == ["one message", b"bytes"]


async def test_an_event_that_is_newer_than_this_client_is_skipped(transport: VoiceTransport) -> None:
    async with await transport.open_stream("unknown-event") as stream:
        assert [message async for message in stream] == ["after"]


async def test_an_answer_that_never_comes_is_given_up(transport: VoiceTransport) -> None:
    async with asyncio.timeout(5):
        with pytest.raises(VoiceError, match=r"no answer within 2\.5 s"):
            await transport.open_stream("silence")


async def test_a_server_that_is_leaving_is_left_without_a_word(transport: VoiceTransport) -> None:
    """A shared connection that got GOAWAY: the next open goes to a new one, and its caller sees nothing of it."""
    stream = await transport.open_stream("leaving")
    assert await anext(stream) == "leaving"
    async with await transport.open_stream("partial") as another:
        assert [message async for message in another] == ["one message", b"bytes"]
