"""What the transport relies on in pinned libraries. When one of these fails after an upgrade, read
client/voice_client/transport/sdk.py, exchange.py and connections.py before changing the numbers here."""

import inspect
from importlib.metadata import version

import awscrt.http
import pytest
from aws_sdk_sagemaker_runtime_http2 import config, models  # type: ignore[import-untyped]
from smithy_aws_event_stream.aio import AWSEventPublisher
from smithy_aws_event_stream.exceptions import UnmodeledEventError
from smithy_core.aio import client as sdk_client
from smithy_core.aio.interfaces import AsyncWriter
from smithy_core.interceptors import InterceptorChain
from smithy_http.aio.aiohttp import AIOHTTPClient

from voice_client.errors import ProtocolError
from voice_client.transport.sdk import RequestBody, StreamTransport, create_client


@pytest.mark.parametrize(
    ("distribution", "pinned"),
    [
        ("aws-sdk-sagemaker-runtime-http2", "0.12.0"),
        ("smithy-core", "0.9.0"),
        ("smithy-http", "0.6.0"),
        ("smithy-aws-core", "0.12.0"),
        ("smithy-aws-event-stream", "0.3.0"),
        ("awscrt", "0.32.2"),
    ],
)
def test_versions_are_the_examined_ones(distribution: str, pinned: str) -> None:
    assert version(distribution) == pinned


def test_the_sdks_default_transport_cannot_stream_both_ways_and_ours_says_it_can() -> None:
    default = config.AsyncSageMakerRuntimeHTTP2Config._FIELDS["transport"].default_factory
    assert "AIOHTTPClient()" in inspect.getsource(default)
    assert getattr(AIOHTTPClient, "SUPPORTS_DUPLEX_STREAMING", False) is not True
    assert StreamTransport.SUPPORTS_DUPLEX_STREAMING is True
    assert "SUPPORTS_DUPLEX_STREAMING" in inspect.getsource(sdk_client.RequestPipeline.duplex_stream)


async def test_the_client_sends_through_ours() -> None:
    client = await create_client("us-east-1", "https://127.0.0.1:1")
    transport = (await client._ensure_setup()).transport
    assert isinstance(transport, StreamTransport)
    with pytest.raises(ProtocolError, match="outside of a stream"):
        await transport.send(None)  # type: ignore[arg-type]


def test_the_http2_classes_of_the_crt_take_what_they_are_given() -> None:
    connect = inspect.signature(awscrt.http.Http2ClientConnection.new).parameters
    assert {"manual_window_management", "initial_window_size", "on_remote_settings_changed"} <= set(connect)
    assert "manual_write" in inspect.signature(awscrt.http.Http2ClientConnection.request).parameters
    for name in ("activate", "write_data", "update_window", "remote_end_stream_future", "completion_future"):
        assert hasattr(awscrt.http.Http2ClientStream, name), name


async def test_the_body_may_be_replaced_and_the_sdk_writes_nothing_of_its_own() -> None:
    body = RequestBody()
    assert isinstance(body, AsyncWriter)
    with pytest.raises(ProtocolError, match="by itself"):
        await body.write(b"x")
    # Only what a caller publishes is written; events of ours are made in frames.py, so nobody publishes.
    assert "write(" not in inspect.getsource(AWSEventPublisher.__init__)


def test_the_hook_that_tells_of_unsent_requests_is_the_one_the_sdk_runs() -> None:
    source = inspect.getsource(InterceptorChain.modify_before_completion)
    assert "interceptor.modify_before_attempt_completion(context)" in source


def test_events_carry_what_is_read_from_them() -> None:
    assert {"message", "error_code"} <= set(vars(models.ModelStreamError(message="m", error_code="c")))
    assert UnmodeledEventError("code", "said").code == "code"
    part = models.ResponseStreamEventPayloadPart(models.ResponsePayloadPart(bytes_=b"x"))
    assert part.value.completion_state is None
