"""The real SDK against the data plane: the contract as its users meet it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aws_sdk_sagemaker_runtime_http2.models import InputValidationError, ModelError, ModelStreamError

from .conftest import Site
from .sdk_client import SdkStream, open_stream, sdk_client


@pytest.fixture
async def client(site: Site) -> AsyncIterator[Any]:
    identity = site.identity
    async with sdk_client(
        site.plane.url, site.ca_bundle, identity.access_key_id, identity.secret_access_key, identity.region
    ) as made:
        yield made


async def test_text_and_binary_messages_come_back_as_they_went(site: Site, client: Any) -> None:
    stream = await (await open_stream(client, site.endpoint)).opened()
    assert stream.output.invoked_production_variant == "AllTraffic"

    await stream.send('{"type": "é"}'.encode(), data_type="UTF8")
    answer = (await stream.receive()).value
    assert (answer.bytes_, answer.data_type) == ('{"type": "é"}'.encode(), "UTF8")

    audio = bytes(range(256)) * 400
    await stream.send(audio)
    answer = (await stream.receive()).value
    assert (answer.bytes_, answer.data_type) == (audio, "BINARY")

    assert site.container.received == ['{"type": "é"}', audio]
    assert site.container.requests == ["/invocations-bidirectional-stream"]
    await stream.end_input()
    assert await stream.receive() is None


async def test_partial_parts_are_joined_into_one_message(site: Site, client: Any) -> None:
    stream = await (await open_stream(client, site.endpoint)).opened()
    await stream.send(b"one ", data_type="UTF8", completion_state="PARTIAL")
    await stream.send(b"two ", data_type="UTF8", completion_state="PARTIAL", p="padding")
    await stream.send(b"three", data_type="UTF8", completion_state="COMPLETE")
    assert (await stream.receive()).value.bytes_ == b"one two three"
    await stream.end_input()
    assert await stream.receive() is None


async def test_path_and_query_reach_the_container(site: Site, client: Any) -> None:
    stream = await open_stream(
        client, site.endpoint, model_invocation_path="v1/realtime", model_query_string="a=1&b=two%20words"
    )
    await stream.opened()
    assert site.container.requests == ["/v1/realtime?a=1&b=two%20words"]
    await stream.end_input()


async def test_streams_share_a_connection_and_end_apart(site: Site, client: Any) -> None:
    first = await (await open_stream(client, site.endpoint)).opened()
    second = await (await open_stream(client, site.endpoint, model_invocation_path="die-after/1")).opened()
    await second.send(b"x")
    assert (await second.receive()).value.bytes_ == b"x"
    with pytest.raises(ModelStreamError) as failure:
        await second.receive()
    assert failure.value.error_code == "StreamBroken"
    await first.send(b"still here")
    assert (await first.receive()).value.bytes_ == b"still here"
    await first.end_input()
    assert await first.receive() is None


async def refused(stream: SdkStream) -> Exception:
    with pytest.raises(Exception) as failure:  # noqa: PT011 - each test looks at the type itself
        await stream.opened()
    with contextlib.suppress(Exception):  # the stock client raises again when a refused stream is closed
        async with asyncio.timeout(2):
            await stream.stream.close()
    assert not isinstance(failure.value, TimeoutError)
    return failure.value


async def test_a_leading_slash_is_refused(site: Site, client: Any) -> None:
    error = await refused(await open_stream(client, site.endpoint, model_invocation_path="/v1/realtime"))
    assert isinstance(error, InputValidationError)
    assert "slash" in str(error.message)
    assert site.container.requests == []


async def test_a_refusal_of_the_container_becomes_a_model_error(site: Site, client: Any) -> None:
    error = await refused(await open_stream(client, site.endpoint, model_invocation_path="refuse"))
    assert isinstance(error, ModelError)
    assert (error.original_status_code, error.original_message) == (403, "no such model here")
    assert error.log_stream_arn is not None
    assert error.log_stream_arn.endswith(f":log-group:/aws/sagemaker/Endpoints/{site.endpoint}")


async def test_a_wrong_secret_is_refused(site: Site) -> None:
    async with sdk_client(
        site.plane.url, site.ca_bundle, site.identity.access_key_id, "wrong", site.identity.region
    ) as client:
        error = await refused(await open_stream(client, site.endpoint))
    assert "403" in str(error)
