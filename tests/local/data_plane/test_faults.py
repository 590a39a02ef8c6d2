"""Every fault, seen on the wire by a bare client, and what becomes of the streams beside it."""

import asyncio
from typing import Any

import pytest

from voice_local.data_plane import Fault, FaultKind

from .bare_client import DEADLINE
from .conftest import MakeSite, Site
from .waiting import until

QUIET = 0.3
"""Seconds in which nothing must come; long enough for what would come at once."""


async def opened(connection: Any, site: Site) -> Any:
    stream = await connection.open(site.endpoint)
    assert await stream.response() == 200
    return stream


async def echo(stream: Any, *texts: bytes) -> None:
    for text in texts:
        await stream.send(text)
        assert (await stream.next_event()).payload == text


async def lost(connection: Any) -> None:
    await asyncio.wait_for(connection.closed.wait(), DEADLINE)


async def push(stream: Any) -> None:
    for _ in range(10):
        await stream.send(bytes(20_000))


# The connection ends


async def test_kill_connection_after_three_messages(site: Site) -> None:
    site.plane.faults.arm(Fault.parse("kill-connection,after=3"))
    async with site.connect() as connection:
        stream = await opened(connection, site)
        await echo(stream, b"1", b"2", b"3")
        await lost(connection)
        assert (stream.ended, stream.reset, connection.goaway) == (False, None, None)
        assert isinstance(connection.loss, ConnectionResetError)
    await until(lambda: site.container.close_codes == [1001])


async def test_close_connection_says_goodbye_to_tls_only(site: Site) -> None:
    site.plane.faults.arm(Fault.parse("close-connection,after=1"))
    async with site.connect() as connection:
        stream = await opened(connection, site)
        await echo(stream, b"1")
        await lost(connection)
        assert (stream.ended, stream.reset, connection.goaway, connection.loss) == (False, None, None, None)


async def test_go_away_now_takes_every_stream_with_it(site: Site) -> None:
    async with site.connect() as connection:
        stream, sibling = await opened(connection, site), await opened(connection, site)
        site.plane.faults.arm(Fault.parse("go-away-now,after=1,code=ENHANCE_YOUR_CALM"))
        await echo(stream, b"1")
        await lost(connection)
        assert connection.goaway == 11
        assert (stream.ended, sibling.ended) == (False, False)
    await until(lambda: site.container.close_codes == [1001, 1001])


async def test_go_away_lets_open_streams_finish_and_takes_no_new_ones(site: Site) -> None:
    site.plane.faults.arm(Fault.parse("go-away,after=1"))
    async with site.connect() as connection:
        stream = await opened(connection, site)
        await echo(stream, b"1")
        await stream.wait(lambda: connection.goaway is not None)
        assert (connection.goaway, connection.last_stream_id) == (0, stream.stream_id)
        late = await connection.open(site.endpoint)
        await late.wait(lambda: late.reset is not None)
        assert late.reset == 7  # REFUSED_STREAM: it may be sent again elsewhere
        await echo(stream, b"2", b"3")
        await stream.end_input()
        await stream.end()
        await lost(connection)


# The stream ends


async def test_reset_stream_spares_the_sibling(site: Site) -> None:
    async with site.connect() as connection:
        stream, sibling = await opened(connection, site), await opened(connection, site)
        site.plane.faults.arm(Fault.parse("reset-stream,after=2"))
        await echo(stream, b"1", b"2")
        await stream.wait(lambda: stream.reset is not None)
        assert stream.reset == 2
        await echo(sibling, b"unharmed")


@pytest.mark.parametrize(
    ("spec", "kind", "body"),
    [
        ("model-stream-error,after=1,message=out of memory", "ModelStreamError", ("out of memory", "StreamBroken")),
        (
            "model-stream-error,after=1,error-code=ModelInvocationTimeExceeded",
            "ModelStreamError",
            ("The fault model-stream-error was asked for.", "ModelInvocationTimeExceeded"),
        ),
        (
            "internal-stream-failure,after=1",
            "InternalStreamFailure",
            ("The fault internal-stream-failure was asked for.", None),
        ),
        (
            "unknown-exception,after=1,error-type=QuotaException",
            "QuotaException",
            ("The fault unknown-exception was asked for.", None),
        ),
    ],
)
async def test_exceptions_end_the_stream(site: Site, spec: str, kind: str, body: tuple[str, str | None]) -> None:
    site.plane.faults.arm(Fault.parse(spec))
    async with site.connect() as connection:
        stream = await opened(connection, site)
        await echo(stream, b"1")
        event = await stream.next_event()
        assert (event.headers[":message-type"], event.headers[":exception-type"]) == ("exception", kind)
        assert (event.json()["Message"], event.json().get("ErrorCode")) == body
        await stream.end()


async def test_an_unknown_event_comes_between_two_messages(site: Site) -> None:
    site.plane.faults.arm(Fault.parse("unknown-event,after=1,error-type=Weather"))
    async with site.connect() as connection:
        stream = await opened(connection, site)
        await echo(stream, b"1")
        event = await stream.next_event()
        assert (event.headers[":message-type"], event.headers[":event-type"]) == ("event", "Weather")
        await echo(stream, b"2")


async def test_a_corrupt_frame_comes_between_two_messages(site: Site) -> None:
    site.plane.faults.arm(Fault.parse("corrupt-frame,after=1"))
    async with site.connect() as connection:
        stream = await opened(connection, site)
        await echo(stream, b"1")
        await stream.wait(lambda: stream.corrupt == 1)
        await echo(stream, b"2")


# Nothing moves


async def test_stop_reading_shuts_the_window(make_site: MakeSite) -> None:
    async with make_site(receive_window=100_000) as site, site.connect() as connection:
        stream, sibling = await opened(connection, site), await opened(connection, site)
        site.plane.faults.arm(Fault.parse("stop-reading,after=1"))
        await echo(stream, b"1")
        pushing = asyncio.create_task(push(stream))
        await until(lambda: connection.h2.local_flow_control_window(stream.stream_id) == 0)
        await asyncio.wait({pushing}, timeout=QUIET)
        assert not pushing.done()
        pushing.cancel()
        assert connection.h2.local_flow_control_window(stream.stream_id) == 0
        assert site.container.received == [b"1"]
        await echo(sibling, b"unharmed")


async def test_stop_writing_is_silence(site: Site) -> None:
    async with site.connect() as connection:
        stream, sibling = await opened(connection, site), await opened(connection, site)
        site.plane.faults.arm(Fault.parse("stop-writing,after=1"))
        await echo(stream, b"1")
        await stream.send(b"2")
        await until(lambda: site.container.received == [b"1", b"2"])
        await echo(sibling, b"unharmed")
        await asyncio.sleep(QUIET)
        assert (stream.events, stream.ended, stream.reset) == ([], False, None)


async def test_stop_writing_on_the_connection_silences_every_stream(site: Site) -> None:
    site.plane.faults.arm(Fault.parse("stop-writing,after=1,scope=connection"))
    async with site.connect() as connection:
        stream, sibling = await opened(connection, site), await opened(connection, site)
        await echo(stream, b"1")
        await sibling.send(b"heard, not answered")
        connection.h2.ping(b"8 octets")
        connection.flush()
        await until(lambda: len(site.container.received) == 2)
        await asyncio.sleep(QUIET)
        assert (sibling.events, connection.pongs) == ([], 0)


async def test_stop_reading_on_the_connection_hears_no_stream(site: Site) -> None:
    site.plane.faults.arm(Fault.parse("stop-reading,after=1,scope=connection"))
    async with site.connect() as connection:
        stream, sibling = await opened(connection, site), await opened(connection, site)
        await echo(stream, b"1")
        await sibling.send(b"not heard")
        await asyncio.sleep(QUIET)
        assert site.container.received == [b"1"]
    await until(lambda: site.plane.connection_count == 0 and site.container.open_sockets == 0)


async def test_delay_holds_every_message_back(site: Site) -> None:
    site.plane.faults.arm(Fault.parse("delay,after=1,seconds=0.3"))
    async with site.connect() as connection:
        stream = await opened(connection, site)
        await echo(stream, b"1")
        started = asyncio.get_running_loop().time()
        await echo(stream, b"2", b"3")
        assert asyncio.get_running_loop().time() - started >= 0.59


async def test_delay_of_what_the_client_sends(site: Site) -> None:
    site.plane.faults.arm(Fault.parse("delay,seconds=0.5,direction=to-container"))
    async with site.connect() as connection:
        stream = await opened(connection, site)
        started = asyncio.get_running_loop().time()
        await echo(stream, b"1")
        assert asyncio.get_running_loop().time() - started >= 0.49


async def test_stall_holds_once(site: Site) -> None:
    site.plane.faults.arm(Fault.parse("stall,after=1,seconds=0.5"))
    async with site.connect() as connection:
        stream = await opened(connection, site)
        started = asyncio.get_running_loop().time()
        await echo(stream, b"1")
        for text in (b"2", b"3", b"4"):
            await stream.send(text)
        assert [(await stream.next_event()).payload for _ in range(3)] == [b"2", b"3", b"4"]
        assert asyncio.get_running_loop().time() - started >= 0.49


# Before the response headers


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "ValidationError"),
        (403, "AccessDeniedException"),
        (424, "ModelError"),
        (429, "ThrottlingException"),
        (500, "InternalServerError"),
        (503, "ServiceUnavailableError"),
    ],
)
async def test_refuse(site: Site, status: int, kind: str) -> None:
    site.plane.faults.arm(Fault(kind=FaultKind.REFUSE, status=status))
    async with site.connect() as connection:
        stream = await connection.open(site.endpoint)
        answer = await stream.error()
        assert answer[:2] == (status, kind)
        assert answer[2]["Message"]
        assert ("OriginalStatusCode" in answer[2]) == (status == 424)
        await opened(connection, site)  # the next one is taken
    assert len(site.container.requests) == 1


async def test_refuse_in_words_of_ones_own(site: Site) -> None:
    site.plane.faults.arm(Fault.parse("refuse,status=400,error-type=InputValidationError,message=not today"))
    async with site.connect() as connection:
        stream = await connection.open(site.endpoint)
        assert await stream.error() == (400, "InputValidationError", {"Message": "not today"})


async def test_slow_headers(site: Site) -> None:
    site.plane.faults.arm(Fault.parse("slow-headers,seconds=0.5"))
    async with site.connect() as connection:
        started = asyncio.get_running_loop().time()
        await opened(connection, site)
        assert asyncio.get_running_loop().time() - started >= 0.49


@pytest.mark.parametrize("kind", ["kill-connection", "close-connection", "go-away-now", "reset-stream"])
async def test_death_before_headers(site: Site, kind: str) -> None:
    site.plane.faults.arm(Fault.parse(f"{kind},before-headers"))
    async with site.connect() as connection:
        stream = await connection.open(site.endpoint)
        await stream.wait(lambda: connection.closed.is_set() or stream.reset is not None)
        assert stream.status is None
        assert (stream.reset is not None) == (kind == "reset-stream")
    assert site.container.requests == []


async def test_go_away_before_headers_still_answers(site: Site) -> None:
    site.plane.faults.arm(Fault.parse("go-away,before-headers"))
    async with site.connect() as connection:
        stream = await opened(connection, site)
        assert connection.last_stream_id == stream.stream_id
        await echo(stream, b"1")


# Places


async def test_after_seconds(site: Site) -> None:
    site.plane.faults.arm(Fault.parse("reset-stream,after-seconds=0.4"))
    async with site.connect() as connection:
        started = asyncio.get_running_loop().time()
        stream = await opened(connection, site)
        await stream.wait(lambda: stream.reset is not None)
        assert asyncio.get_running_loop().time() - started >= 0.39


async def test_a_seeded_random_place_every_time(site: Site) -> None:
    """Two runs with one seed break the same streams at the same places."""

    async def places() -> list[int]:
        armed = site.plane.faults.arm(Fault.parse("reset-stream,random=0..6,seed=11,times=every"))
        got = []
        async with site.connect() as connection:
            for _ in range(6):
                stream = await opened(connection, site)
                count = 0
                while stream.reset is None:
                    await stream.send(b"x")
                    await stream.wait(lambda stream=stream: stream.events or stream.reset is not None)
                    count += len(stream.events)
                    stream.events.clear()
                got.append(count)
        site.plane.faults.disarm(armed.number)
        await until(lambda: site.plane.connection_count == 0)  # a stream that is still open draws a place too
        assert got == [fired.to_client for fired in site.plane.faults.history[-6:]]
        return got

    first = await places()
    assert first == await places()
    assert len(set(first)) > 1
    assert len(site.plane.faults.history) == 12


async def test_once_spares_the_next_stream_and_twice_does_not(site: Site) -> None:
    site.plane.faults.arm(Fault.parse("reset-stream,after=1,times=2"))
    async with site.connect() as connection:
        for expected in (2, 2, None):
            stream = await opened(connection, site)
            await echo(stream, b"1")
            if expected is None:
                await echo(stream, b"2", b"3")
            else:
                await stream.wait(lambda stream=stream: stream.reset is not None)
            assert stream.reset == expected


async def test_a_fault_of_another_endpoint_is_not_met(site: Site) -> None:
    site.plane.faults.arm(Fault.parse("refuse,endpoint=other"))
    async with site.connect() as connection:
        await echo(await opened(connection, site), b"1")


async def test_a_request_that_is_wrong_meets_no_fault(site: Site) -> None:
    site.plane.faults.arm(Fault.parse("refuse"))
    async with site.connect() as connection:
        stream = await connection.open("absent")
        assert (await stream.error())[:2] == (400, "ValidationError")
    assert len(site.plane.faults.armed) == 1
