"""A stream when all goes well: what goes in comes out, in order, and nothing is left."""

import asyncio
import contextlib
import logging
import os
import re
import socket
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from voice_client.errors import BadInputError, ConnectionLostError, ProtocolError
from voice_client.transport import BidiStream, TransportSettings


async def test_text_and_bytes_come_back_as_they_went(platform: Any) -> None:
    async with platform.transport() as transport, await transport.open_stream("echo") as stream:
        sent: list[str | bytes] = ["Grüße, 世界", b"\x00\x01\xff", "", "x" * 200_000, b"y" * 300_000]
        for message in sent:
            await (stream.send_text(message) if isinstance(message, str) else stream.send_bytes(message))
        received = [await anext(stream) for _ in sent]
        assert received == sent
        assert stream.invoked_variant == "AllTraffic"
        assert stream.request_id


async def test_the_stream_ends_when_the_container_closes(platform: Any) -> None:
    async with platform.transport() as transport, await transport.open_stream("bye") as stream:
        assert [message async for message in stream] == ["bye"]
        assert [message async for message in stream] == []
        with pytest.raises(ConnectionLostError, match="ended the stream"):
            await stream.send_text("too late")


async def test_ending_the_input_ends_the_stream_in_order(platform: Any) -> None:
    async with platform.transport() as transport, await transport.open_stream("echo") as stream:
        await stream.send_text("one")
        assert await anext(stream) == "one"
        await stream.end_input()
        await stream.end_input()
        assert [message async for message in stream] == []
        with pytest.raises((ProtocolError, ConnectionLostError)):
            await stream.send_text("two")


async def test_close_is_idempotent_and_later_calls_say_closed(platform: Any) -> None:
    async with platform.transport() as transport:
        stream = await transport.open_stream("echo")
        await asyncio.gather(stream.close(), stream.close())
        await stream.close()
        with pytest.raises(ProtocolError, match="closed"):
            await stream.send_text("x")
        with pytest.raises(ProtocolError, match="closed"):
            await anext(stream)


async def test_a_stream_may_own_its_connection(platform: Any) -> None:
    stream = await BidiStream.open(platform.target(), invocation_path="echo", identity=platform.identity)
    await stream.send_text("hello")
    assert await anext(stream) == "hello"
    await stream.close()


async def test_without_a_path_the_platform_takes_its_own(platform: Any) -> None:
    async with platform.transport() as transport, await transport.open_stream(None) as stream:
        await stream.send_text("hello")
        assert await anext(stream) == "hello"


async def test_query_string_and_variant_reach_the_platform(platform: Any) -> None:
    async with (
        platform.transport() as transport,
        await transport.open_stream("flood", query_string="size=8&count=2", target_variant="AllTraffic") as stream,
    ):
        assert [message async for message in stream] == [bytes(8), b"\x00\x00\x00\x01" + bytes(4)]


async def test_a_cancelled_receive_loses_nothing(platform: Any) -> None:
    async with platform.transport() as transport, await transport.open_stream("echo") as stream:
        for _ in range(5):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(anext(stream), 0.02)
        for number in range(50):
            await stream.send_text(str(number))
        received: list[Any] = []
        while len(received) < 50:
            try:
                received.append(await asyncio.wait_for(anext(stream), 0.001))
            except TimeoutError:
                continue
        assert received == [str(number) for number in range(50)]


async def test_concurrent_sends_keep_the_signature_chain(platform: Any) -> None:
    async with platform.transport() as transport, await transport.open_stream("echo") as stream:
        await asyncio.gather(*(stream.send_text(str(number)) for number in range(200)))
        received = [await anext(stream) for _ in range(200)]
        assert sorted(received, key=int) == [str(number) for number in range(200)]


async def test_cancelled_sends_keep_the_signature_chain(platform: Any) -> None:
    transport = platform.transport(send_buffer_bytes=1000)
    async with transport, await transport.open_stream("echo") as stream:
        for _ in range(20):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0):
                    await asyncio.gather(*(stream.send_text("z" * 900) for _ in range(5)))
        await stream.send_text("last")
        async with asyncio.timeout(5):
            while await anext(stream) != "last":
                pass


async def test_an_unread_stream_holds_bounded_memory_and_loses_nothing(platform: Any) -> None:
    size, count = 65_536, 800  # 52 MB
    settings = {"inbox_bytes": 262_144, "receive_window_bytes": 262_144}
    async with platform.transport(**settings) as transport:
        stream = await transport.open_stream("flood", query_string=f"size={size}&count={count}")
        before = psutil.Process().memory_info().rss
        await asyncio.sleep(1.5)
        assert psutil.Process().memory_info().rss - before < 16_000_000
        numbers = [int.from_bytes(message[:4]) async for message in stream]
        assert numbers == list(range(count))
        await stream.close()


async def test_closing_an_unread_flood_is_quick(platform: Any) -> None:
    async with platform.transport() as transport:
        stream = await transport.open_stream("flood", query_string="size=65536&count=100000")
        await anext(stream)
        started = asyncio.get_running_loop().time()
        await stream.close()
        assert asyncio.get_running_loop().time() - started < 1.5


async def test_concurrent_opens_share_one_connection(platform: Any, proxy: Any) -> None:
    from voice_client.transport import VoiceTransport

    transport = VoiceTransport(platform.target(endpoint_url=proxy.url), identity=platform.identity)
    async with transport:
        streams = await asyncio.gather(*(transport.open_stream("echo") for _ in range(20)))
        assert proxy.connections == 1
        await asyncio.gather(*(stream.send_text(str(number)) for number, stream in enumerate(streams)))
        assert [await anext(stream) for stream in streams] == [str(number) for number in range(20)]


async def test_a_full_connection_gets_a_second_one(start_platform: Callable[..., Any]) -> None:
    platform = start_platform(concurrent_streams=8)
    async with platform.transport() as transport:
        streams = await asyncio.gather(*(transport.open_stream("echo") for _ in range(20)))
        peers = [c for c in psutil.Process().net_connections("tcp") if c.raddr and c.raddr.port == platform.port]
        assert len(peers) == 3
        await streams[0].close()
        await asyncio.sleep(0.1)
        await transport.open_stream("echo")
        peers = [c for c in psutil.Process().net_connections("tcp") if c.raddr and c.raddr.port == platform.port]
        assert len(peers) == 3


def no_delay_options(port: int) -> list[int]:
    """TCP_NODELAY of every socket of this process that is connected to `port`."""
    options = []
    for entry in Path("/dev/fd").iterdir():
        with contextlib.suppress(OSError):
            if stat.S_ISSOCK(entry.stat().st_mode):
                with socket.socket(fileno=os.dup(int(entry.name))) as candidate:
                    if candidate.getpeername()[1:2] == (port,):
                        options.append(candidate.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
    return options


async def test_small_messages_do_not_wait_for_nagle(own_platform: Any) -> None:
    platform = own_platform
    async with platform.transport() as transport, await transport.open_stream("echo"):
        options = no_delay_options(platform.port)
        assert options == [1]


async def test_no_spoken_word_and_no_secret_reaches_a_log(platform: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with platform.transport() as transport, await transport.open_stream("echo") as stream:
        await stream.send_text("rhubarb")
        await stream.send_bytes(b"marzipan")
        assert [await anext(stream), await anext(stream)] == ["rhubarb", b"marzipan"]
    assert not re.search(r"rhubarb|marzipan|Signature=", caplog.text)
    assert platform.identity.fixed.secret_access_key not in caplog.text


@pytest.mark.parametrize(
    ("path", "query", "said"),
    [
        ("/v1/realtime", None, "leading slash"),
        ("", None, "leading slash"),
        ("x" * 101, None, "100"),
        ("x", "q" * 2049, "2048"),
    ],
)
async def test_a_request_the_service_would_refuse_is_refused_here(
    platform: Any, path: str, query: str | None, said: str
) -> None:
    async with platform.transport() as transport:
        with pytest.raises(BadInputError, match=said):
            await transport.open_stream(path, query_string=query)


async def test_a_message_over_the_limit_is_refused_and_the_stream_goes_on(platform: Any) -> None:
    async with platform.transport(message_bytes=1000) as transport, await transport.open_stream("echo") as stream:
        with pytest.raises(BadInputError, match="1001"):
            await stream.send_bytes(bytes(1001))
        await stream.send_bytes(bytes(1000))
        assert await anext(stream) == bytes(1000)


async def test_two_readers_are_told(platform: Any) -> None:
    async with platform.transport() as transport, await transport.open_stream("echo") as stream:
        waiting = asyncio.create_task(anext(stream))
        await asyncio.sleep(0)
        with pytest.raises(ProtocolError, match="two readers"):
            await anext(stream)
        await stream.send_text("for the first")
        assert await waiting == "for the first"


def test_settings_name_every_bad_value() -> None:
    with pytest.raises(BadInputError, match=r"connect_seconds = 0.*inbox_bytes = -1"):
        TransportSettings(connect_seconds=0, inbox_bytes=-1)
    with pytest.raises(BadInputError, match="receive_window_bytes"):
        TransportSettings(receive_window_bytes=2**31)


def test_the_environment_is_left_alone(platform: Any, tmp_path: Path) -> None:
    del tmp_path
    before = dict(os.environ)

    async def talk() -> None:
        async with platform.transport() as transport, await transport.open_stream("bye") as stream:
            assert [message async for message in stream] == ["bye"]

    asyncio.run(talk())
    assert dict(os.environ) == before
