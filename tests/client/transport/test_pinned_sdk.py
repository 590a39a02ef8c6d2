"""What the transport relies on in pinned libraries. When one of these fails after an upgrade, read
client/voice_client/transport/sdk.py and wire.py before changing the numbers here."""

import inspect
from importlib.metadata import version

import pytest
from aws_sdk_sagemaker_runtime_http2 import config  # type: ignore[import-untyped]
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import ConnectionTerminated, DataReceived
from h2.frame_buffer import FrameBuffer
from h2.stream import H2Stream
from smithy_aws_event_stream.aio import AWSEventPublisher
from smithy_core.aio import client as sdk_client
from smithy_core.aio.interfaces import AsyncWriter
from smithy_core.interceptors import InterceptorChain
from smithy_http.aio.aiohttp import AIOHTTPClient

from voice_client.errors import ProtocolError
from voice_client.transport.sdk import RequestBody, StreamTransport, create_client
from voice_client.transport.wire import ClientWire


@pytest.mark.parametrize(
    ("distribution", "pinned"),
    [
        ("aws-sdk-sagemaker-runtime-http2", "0.12.0"),
        ("smithy-core", "0.9.0"),
        ("smithy-http", "0.6.0"),
        ("smithy-aws-core", "0.12.0"),
        ("smithy-aws-event-stream", "0.3.0"),
        ("h2", "4.4.1"),
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


def test_a_stream_goes_on_after_a_goaway_that_names_it() -> None:
    """h2 by itself would refuse everything that follows; `ClientWire` overrides the private method that does.

    The other private names that it stands on are looked for as well; what they do, test_connection_rules.py shows.
    """
    assert {"_receive_goaway_frame", "_begin_new_stream"} <= vars(H2Connection).keys()
    assert "_initialize_content_length" in vars(H2Stream)
    assert {"_validate_frame_length", "__next__"} <= vars(FrameBuffer).keys()
    client = ClientWire(stream_window=100_000)
    client.send_headers(1, [(":method", "POST"), (":scheme", "https"), (":authority", "x"), (":path", "/")])
    server = H2Connection(H2Configuration(client_side=False))
    server.initiate_connection()
    server.receive_data(client.data_to_send())
    server.send_headers(1, [(":status", "200")])
    client.receive_data(server.data_to_send())
    server.send_data(1, b"after")
    data = server.data_to_send()
    server.close_connection(last_stream_id=1)
    (said,) = client.receive_data(server.data_to_send())
    assert isinstance(said, ConnectionTerminated)
    assert said.last_stream_id == 1
    (came,) = client.receive_data(data)
    assert isinstance(came, DataReceived)
    assert came.data == b"after"
    client.send_data(1, b"and up", end_stream=True)
    assert client.data_to_send().endswith(b"and up")


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
