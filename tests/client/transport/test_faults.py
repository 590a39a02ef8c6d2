"""Every fault of the wire and of the service: a typed error in its time, in both directions, and a clean close.

Each is made by real means: a killed or frozen process, a cut or silent connection, a container that misbehaves.
"""

import asyncio
import signal
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
import trustme

from voice_client.errors import (
    BadInputError,
    ConnectError,
    ConnectionLostError,
    CredentialsError,
    DeadlineError,
    EndpointNotFoundError,
    EndpointNotInServiceError,
    InternalFailureError,
    ModelError,
    ProtocolError,
    RefusedError,
)
from voice_client.transport import Identity, StaticIdentity, StreamTarget, TransportSettings, VoiceTransport

AT_ONCE = 8.0
"""Seconds within which a fault is told on a loaded machine too: less than any deadline for an answer or a send, so that
what comes within them was told by the fault itself. (It takes some milliseconds.)"""


def at_once() -> asyncio.Timeout:
    """A limit for what must not wait for a deadline, nor hang."""
    return asyncio.timeout(AT_ONCE)


async def send_until_it_fails(stream: Any, size: int = 1000) -> None:
    while True:
        await stream.send_text("x" * size)
        await asyncio.sleep(0.001)


def connections_to(port: int) -> int:
    return len([c for c in psutil.Process().net_connections("tcp") if c.raddr and c.raddr.port == port])


def through(proxy: Any, platform: Any, **settings: Any) -> VoiceTransport:
    return VoiceTransport(
        platform.target(endpoint_url=proxy.url), settings=TransportSettings(**settings), identity=platform.identity
    )


# The connection is lost in the middle of a stream.


def kill_the_platform(platform: Any, proxy: Any) -> None:
    del proxy
    platform.kill()


def reset_the_connection(platform: Any, proxy: Any) -> None:
    del platform
    proxy.cut()


@pytest.mark.parametrize("cut", [kill_the_platform, reset_the_connection])
async def test_a_lost_connection_is_told_to_both_directions(
    own_platform: Any, own_proxy: Any, cut: Callable[[Any, Any], None]
) -> None:
    transport = through(own_proxy, own_platform)
    stream = await transport.open_stream("echo")
    await stream.send_text("before")
    assert await anext(stream) == "before"
    waiting = asyncio.create_task(anext(stream))
    await asyncio.sleep(0.05)
    cut(own_platform, own_proxy)
    async with at_once():
        with pytest.raises(ConnectionLostError) as told:
            await waiting
        with pytest.raises(ConnectionLostError):
            await send_until_it_fails(stream)
    assert told.value.retryable
    assert told.value.endpoint == "ear"
    assert told.value.request_id == stream.request_id
    async with at_once():
        await stream.close()
        await transport.close()


async def test_a_blocked_send_is_told_of_the_loss(own_platform: Any) -> None:
    async with own_platform.transport() as transport:
        stream = await transport.open_stream("deaf")
        sending = asyncio.create_task(send_until_it_fails(stream, 100_000))
        await asyncio.sleep(1)
        assert not sending.done()
        own_platform.kill()
        async with at_once():
            with pytest.raises(ConnectionLostError):
                await sending
            await stream.close()


async def test_a_stopping_platform_ends_its_streams(own_platform: Any) -> None:
    async with own_platform.transport() as transport:
        stream = await transport.open_stream("echo")
        own_platform.process.send_signal(signal.SIGTERM)  # GOAWAY, and what it does to its streams
        async with at_once():
            with pytest.raises((ConnectionLostError, InternalFailureError, ModelError)):
                await anext(stream)
            await stream.close()
        with pytest.raises((ConnectError, ConnectionLostError)):
            await transport.open_stream("echo")


async def test_the_transport_connects_anew_after_a_loss(platform: Any, proxy: Any) -> None:
    async with through(proxy, platform) as transport:
        stream = await transport.open_stream("echo")
        proxy.cut()
        with pytest.raises(ConnectionLostError):
            await anext(stream)
        async with await transport.open_stream("echo") as again:
            await again.send_text("still here")
            assert await anext(again) == "still here"
        assert proxy.connections == 2


# The connection is lost, or nobody answers, before there is a stream.


async def test_a_connection_lost_while_opening(own_platform: Any) -> None:
    async with own_platform.transport() as transport:
        opening = asyncio.create_task(transport.open_stream("slow-accept"))
        await asyncio.sleep(0.5)
        assert not opening.done()
        own_platform.kill()
        async with at_once():
            with pytest.raises(ConnectionLostError):
                await opening


async def test_an_answer_that_does_not_come(own_platform: Any) -> None:
    async with own_platform.transport(open_seconds=0.5) as transport, at_once():
        with pytest.raises(DeadlineError, match=r"no answer within 0\.5 s"):
            await transport.open_stream("slow-accept")


async def test_a_cancelled_open_leaves_nothing(own_platform: Any) -> None:
    async with own_platform.transport() as transport:
        for delay in (0, 0.001, 0.01, 0.1, 0.3):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(transport.open_stream("slow-accept"), delay)


async def test_a_frozen_platform_is_not_waited_for(own_platform: Any) -> None:
    async with own_platform.transport(connect_seconds=0.6) as transport:
        own_platform.freeze()
        async with at_once():
            with pytest.raises(ConnectError, match=r"within 0\.6 s"):
                await transport.open_stream("echo")


async def test_a_refused_port() -> None:
    identity = StaticIdentity(Identity("AKIAEXAMPLE", "secret"))

    target = StreamTarget("ear", "us-east-1", "https://127.0.0.1:1")
    async with VoiceTransport(target, identity=identity) as transport, at_once():
        with pytest.raises(ConnectError, match="refused"):
            await transport.open_stream("echo")


async def test_many_opens_share_one_failure() -> None:
    target = StreamTarget("ear", "us-east-1", "https://127.0.0.1:1")
    transport = VoiceTransport(target, identity=StaticIdentity(Identity("AKIAEXAMPLE", "secret")))
    async with transport, at_once():
        outcomes = await asyncio.gather(*(transport.open_stream("echo") for _ in range(20)), return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [ConnectError] * 20


async def test_an_untrusted_certificate_is_named_in_time(platform: Any, tmp_path: Path) -> None:
    other = tmp_path / "other.pem"
    trustme.CA().cert_pem.write_to_path(str(other))
    async with VoiceTransport(platform.target(ca_bundle=other), identity=platform.identity) as transport, at_once():
        with pytest.raises(ConnectError, match=r"certificate .* not trusted") as told:
            await transport.open_stream("echo")
    assert not told.value.retryable


async def test_the_systems_authorities_do_not_trust_a_local_platform(platform: Any) -> None:
    async with VoiceTransport(platform.target(ca_bundle=None), identity=platform.identity) as transport, at_once():
        with pytest.raises(ConnectError, match="not trusted"):
            await transport.open_stream("echo")


async def test_a_server_without_http2(tmp_path: Path) -> None:

    authority = trustme.CA()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    handlers: list[asyncio.Task[Any]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        handlers.append(task)
        await reader.read()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    target = StreamTarget("ear", "us-east-1", url, tmp_path / "ca.pem")
    identity = StaticIdentity(Identity("AKIAEXAMPLE", "secret"))
    async with VoiceTransport(target, identity=identity) as transport, at_once():
        with pytest.raises(ConnectError):
            await transport.open_stream("echo")
    server.close()
    await asyncio.gather(*handlers, return_exceptions=True)


# The peer goes silent.


@pytest.mark.parametrize("how", ["frozen platform", "silent network", "deaf container"])
async def test_a_send_that_nobody_takes(own_platform: Any, own_proxy: Any, how: str) -> None:
    transport = through(own_proxy, own_platform, send_seconds=0.7, close_seconds=0.4)
    stream = await transport.open_stream("deaf" if how == "deaf container" else "count")
    if how == "frozen platform":
        own_platform.freeze()
    elif how == "silent network":
        own_proxy.go_silent()
    async with asyncio.timeout(20):
        with pytest.raises(DeadlineError, match=r"took nothing for 0\.7 s"):
            await send_until_it_fails(stream, 200_000)
    with pytest.raises(DeadlineError):
        await anext(stream)
    with pytest.raises(DeadlineError):
        await stream.send_text("x")
    async with at_once():
        await stream.close()
        await transport.close()


async def test_closing_does_not_wait_for_a_frozen_platform(own_platform: Any) -> None:
    async with own_platform.transport(close_seconds=0.4) as transport:
        first, second = await transport.open_stream("echo"), await transport.open_stream("echo")
        own_platform.freeze()
        async with at_once():
            await first.close()
        async with at_once():
            await second.close()
    # And the transport's own close is in time as well.


async def test_an_abandoned_stream_does_not_disturb_the_others(own_platform: Any) -> None:
    """A stream whose container ends it too late is dropped; the other on its connection lives on, then and after."""
    async with own_platform.transport(close_seconds=0.3) as transport:
        deaf = await transport.open_stream("deaf", query_string="seconds=1")
        echo = await transport.open_stream("echo")
        async with at_once():
            await deaf.close()
        for number in range(30):
            await echo.send_text(str(number))
            assert await anext(echo) == str(number)
            await asyncio.sleep(0.05)
        async with await transport.open_stream("echo") as later:
            await later.send_text("later")
            assert await anext(later) == "later"
        assert connections_to(own_platform.port) == 1  # the dropped stream has cost no connection


async def test_a_silent_connection_is_used_for_no_new_stream(platform: Any, proxy: Any) -> None:
    async with through(proxy, platform, close_seconds=0.3) as transport:
        stream = await transport.open_stream("echo")
        await stream.send_text("before")
        assert await anext(stream) == "before"
        proxy.go_silent()
        await stream.send_text("into the void")
        await stream.close()
        proxy.speak_again()
        async with at_once(), await transport.open_stream("echo") as again:
            await again.send_text("elsewhere")
            assert await anext(again) == "elsewhere"
        assert proxy.connections == 2


# The service says no.


async def test_a_wrong_secret_key(platform: Any) -> None:
    wrong = StaticIdentity(Identity(platform.identity.fixed.access_key_id, "wrong"))
    async with VoiceTransport(platform.target(), identity=wrong) as transport, at_once():
        with pytest.raises(CredentialsError, match="signature") as told:
            await transport.open_stream("echo")
    assert told.value.exit_code == 3
    assert told.value.request_id
    assert "clock" in told.value.advice


async def test_an_unknown_key(platform: Any) -> None:
    unknown = StaticIdentity(Identity("AKIANOBODY", "secret"))
    async with VoiceTransport(platform.target(), identity=unknown) as transport, at_once():
        with pytest.raises(CredentialsError):
            await transport.open_stream("echo")


async def test_an_unknown_endpoint(platform: Any) -> None:
    async with platform.transport("nobody") as transport, at_once():
        with pytest.raises(EndpointNotFoundError, match="nobody"):
            await transport.open_stream("echo")


async def test_an_unknown_variant(platform: Any) -> None:
    async with platform.transport() as transport, at_once():
        with pytest.raises(EndpointNotFoundError, match="Variant blue"):
            await transport.open_stream("echo", target_variant="blue")


async def test_an_endpoint_that_is_being_created(platform: Any) -> None:
    async with platform.transport("young") as transport, at_once():
        with pytest.raises(EndpointNotInServiceError, match="Creating") as told:
            await transport.open_stream("echo")
    assert told.value.retryable


@pytest.mark.parametrize(("endpoint", "path"), [("ear", "refuse"), ("gone", "echo")])
async def test_a_container_that_takes_no_stream(platform: Any, endpoint: str, path: str) -> None:
    async with platform.transport(endpoint) as transport, at_once():
        with pytest.raises(RefusedError) as told:
            await transport.open_stream(path)
    assert f"/aws/sagemaker/Endpoints/{endpoint}" in told.value.advice
    assert told.value.exit_code == 4


async def test_a_failed_open_leaves_its_siblings_alone(platform: Any) -> None:
    async with platform.transport() as transport:
        stream = await transport.open_stream("echo")
        for _ in range(3):
            with pytest.raises(RefusedError):
                await transport.open_stream("refuse")
        await stream.send_text("unharmed")
        assert await anext(stream) == "unharmed"


# The model fails in the middle.


async def test_a_container_that_breaks_the_stream(platform: Any) -> None:
    async with platform.transport() as transport:
        stream = await transport.open_stream("break", query_string="code=1011")
        await stream.send_text("now")
        async with at_once():
            with pytest.raises(ModelError, match="1011") as told:
                await anext(stream)
            with pytest.raises(ModelError):
                await anext(stream)
            with pytest.raises(ModelError):
                await send_until_it_fails(stream)
            await stream.close()
    assert told.value.error_code == "StreamBroken"
    assert told.value.request_id


async def test_the_longest_stream_is_cut_by_the_platform(start_platform: Callable[..., Any]) -> None:
    platform = start_platform(longest_stream_seconds=0.5)
    async with platform.transport() as transport, await transport.open_stream("echo") as stream, at_once():
        with pytest.raises(ModelError) as told:
            await anext(stream)
    assert told.value.error_code == "ModelInvocationTimeExceeded"


async def test_a_request_that_cannot_be_signed_fails_at_once(platform: Any) -> None:
    unusable = StaticIdentity(Identity("AKIAEXAMPLE", "secret", session_token=5))  # type: ignore[arg-type]
    async with VoiceTransport(platform.target(), identity=unusable) as transport, at_once():
        with pytest.raises(ProtocolError, match="could not be made"):
            await transport.open_stream("echo")


async def test_a_broken_ca_bundle_names_its_source(
    platform: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "broken.pem"
    broken.write_text("-----BEGIN CERTIFICATE-----\nnonsense\n-----END CERTIFICATE-----\n")
    monkeypatch.setenv("SSL_CERT_FILE", str(broken))
    async with VoiceTransport(platform.target(ca_bundle=None), identity=platform.identity) as transport:
        with pytest.raises(BadInputError, match="SSL_CERT_FILE"):
            await transport.open_stream("echo")


async def test_a_closed_transport_says_so(platform: Any) -> None:
    transport = platform.transport()
    await transport.close()
    await transport.close()
    with pytest.raises(ProtocolError, match="closed"):
        await transport.open_stream("echo")
