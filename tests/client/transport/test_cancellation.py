"""Cancelled at any step, or ended with its event loop, the transport leaves nothing behind, and harms no sibling."""

import asyncio
import logging
import warnings
from collections.abc import Coroutine
from typing import Any

import pytest

from voice_client.errors import ProtocolError, VoiceError
from voice_client.transport import BidiStream, Identity, StaticIdentity, StreamTarget, VoiceTransport


async def cancelled_after(turns: int, work: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine for so many turns of the loop, then cancel it; return what it gave when it was done by then."""
    task = asyncio.create_task(work)
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait({task})
    return None if task.cancelled() else task.result()


async def test_an_open_may_be_cancelled_at_any_step(platform: Any) -> None:
    async with platform.transport() as transport, await transport.open_stream("echo") as sibling:
        (connection,) = transport._pool._connections
        for turns in range(60):
            if (stream := await cancelled_after(turns, transport.open_stream("echo"))) is not None:
                await stream.close()
            assert connection._reserved == 1
        await sibling.send_text("unharmed")
        assert await anext(sibling) == "unharmed"


async def test_the_first_open_may_be_cancelled_at_any_step(platform: Any) -> None:
    """While it looks up, connects and shakes hands, too; the next one waits for the same attempt or makes its own."""
    for turns in (0, 1, 2, 4, 7, 11, 16, 25, 40):
        async with platform.transport() as transport:
            await cancelled_after(turns, transport.open_stream("echo"))
            async with await transport.open_stream("echo") as stream:
                await stream.send_text("here")
                assert await anext(stream) == "here"


async def test_a_close_may_be_cancelled_at_any_step(platform: Any) -> None:
    async with platform.transport() as transport:
        for turns in range(12):
            stream = await transport.open_stream("echo")
            await cancelled_after(turns, stream.close())
            await stream.close()
        (connection,) = transport._pool._connections
        assert connection._reserved == 0


@pytest.mark.parametrize("turns", [0, 1, 2, 3, 5, 8, 13])
async def test_closing_the_transport_may_be_cancelled_at_any_step(platform: Any, turns: int) -> None:
    """Its connections go all the same: whoever cancels ends the loop next."""
    transport = platform.transport(close_seconds=0.3)
    stream = await transport.open_stream("echo")
    await transport.open_stream("deaf")  # its own close takes as long as it may
    (connection,) = transport._pool._connections
    await cancelled_after(turns, transport.close())
    if turns:
        assert connection.lost.is_set()
    await transport.close()
    with pytest.raises(VoiceError):
        await anext(stream)
    await asyncio.gather(*(task for task in asyncio.all_tasks() if "voice" in task.get_name()))


async def test_closing_while_an_open_is_under_way(platform: Any) -> None:
    for turns in (0, 1, 3, 8, 20, 40):
        transport = platform.transport()
        opening = asyncio.create_task(transport.open_stream("echo"))
        for _ in range(turns):
            await asyncio.sleep(0)
        async with asyncio.timeout(5):
            await transport.close()
            outcomes = await asyncio.gather(opening, return_exceptions=True)
        if isinstance(outcomes[0], BidiStream):  # it was that quick
            outcomes = await asyncio.gather(anext(outcomes[0]), return_exceptions=True)
        assert isinstance(outcomes[0], VoiceError)
        with pytest.raises(ProtocolError, match="closed"):
            await transport.open_stream("echo")


async def test_a_cancelled_send_in_a_full_window_is_not_sent_and_later_ones_are(platform: Any) -> None:
    async with platform.transport(send_buffer_bytes=1000) as transport, await transport.open_stream("echo") as stream:
        await stream.send_bytes(bytes(3_000_000))  # more than the windows take at once
        for turns in range(6):
            await cancelled_after(turns, stream.send_text(f"unsent {turns}" + "x" * 2000))
        async with asyncio.timeout(10):
            await stream.send_text("last")
            assert len(await anext(stream)) == 3_000_000
            while await anext(stream) != "last":  # those that were done before they were cancelled
                pass


def test_one_loop_after_another(platform: Any, caplog: pytest.LogCaptureFixture) -> None:
    """A stream and its transport end with their loop, by an exception or forgotten; the next loop is not concerned."""
    caplog.set_level(logging.WARNING, "asyncio")

    async def interrupted() -> None:
        async with platform.transport() as transport, await transport.open_stream("echo") as stream:
            await stream.send_text("x")
            raise KeyError

    async def forgotten() -> None:
        transport = platform.transport()
        stream = await transport.open_stream("echo")
        await stream.send_text("x")
        await (await transport.open_stream("echo")).close()

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(KeyError):
            asyncio.run(interrupted())
        with pytest.raises(KeyError):
            asyncio.run(interrupted())
        warnings.simplefilter("ignore", ResourceWarning)  # a socket that is forgotten may say so
        asyncio.run(forgotten())
    assert caplog.text == ""


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"invocation_path": "a\nb"}, "path"),
        ({"invocation_path": "a", "query_string": "a=1\r\nx: y"}, "query"),
        ({"invocation_path": "a", "target_variant": "blue\n"}, "variant"),
    ],
)
async def test_what_no_header_can_carry_is_refused_before_it_harms_siblings(
    platform: Any, asked: dict[str, str], said: str
) -> None:
    async with platform.transport() as transport, await transport.open_stream("echo") as sibling:
        with pytest.raises(VoiceError, match=f"{said}.*no header can carry"):
            await transport.open_stream(**asked)
        odd = StaticIdentity(Identity("AKIAEXAMPLE", "secret", "token\n"))
        transport._identity = odd
        with pytest.raises(ProtocolError, match="could not be made"):
            await transport.open_stream("echo")
        with pytest.raises(VoiceError, match="no Unicode"):
            await sibling.send_text("half a pair: \ud800")
        await sibling.send_text("unharmed")
        assert await anext(sibling) == "unharmed"


@pytest.mark.parametrize("host", ["foo..bar", ".foo", "a" * 64 + ".example"])
async def test_a_host_that_no_name_server_can_know(host: str) -> None:
    target = StreamTarget("ear", "us-east-1", f"https://{host}:8443")
    async with VoiceTransport(target, identity=StaticIdentity(Identity("AKIAEXAMPLE", "secret"))) as transport:
        with pytest.raises(VoiceError, match="endpoint_url is not a URL"):
            await transport.open_stream("echo")
