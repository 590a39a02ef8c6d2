"""Whatever a client sends and whatever goes wrong, the server answers others and keeps nothing of it."""

import asyncio
import gc
import json
import struct
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from voice_local.data_plane import DataPlane, DataPlaneSettings, Fault, FaultKind, TlsMaterial
from voice_local.data_plane.faults import STATUSES, Direction, FaultSpecError, Scope
from voice_local.data_plane.http1 import Http1Stream
from voice_local.data_plane.http2 import Http2Stream
from voice_local.identity import LocalIdentity
from voice_local.interfaces import EndpointStatus, ServingContainer

from .bare_client import BareConnection, payload_part
from .conftest import ENDPOINT, Directory, Site
from .scripted_container import running_container
from .waiting import until

# Clocks so short that a stream that was spoilt is over at once.
QUICK = DataPlaneSettings(
    accept_seconds=5.0,
    farewell_seconds=0.05,
    request_end_seconds=0.05,
    websocket_close_seconds=0.2,
    longest_stream_seconds=2.0,
    request_body_seconds=0.2,
    stop_seconds=0.5,
    tls_shutdown_seconds=0.1,
)


class LiveSite:
    """One data plane for all examples of a test; each example must leave it as it found it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, tls: TlsMaterial) -> None:
        self.loop = loop
        self._tls = tls

    async def start(self) -> None:
        identity, directory = LocalIdentity(), Directory()
        self._running = running_container()
        container = await self._running.__aenter__()
        serving = ServingContainer("AllTraffic", container.port, bidirectional=True)
        directory.put(ENDPOINT, EndpointStatus.IN_SERVICE, serving)
        plane = DataPlane(directory, identity, tls=self._tls, settings=QUICK)
        await plane.start()
        self.site = Site(plane, directory, container, identity, self._tls.ca_bundle)

    async def stop(self) -> None:
        await self.site.plane.stop()
        await self._running.__aexit__(None, None, None)

    async def is_well(self) -> None:
        """A stream of another client works, and nothing is kept of the one before."""
        site = self.site
        site.plane.faults.clear()
        async with site.connect() as connection:
            stream = await connection.open(site.endpoint)
            assert await stream.response() == 200
            await stream.send(b"still here")
            assert (await stream.next_event()).payload == b"still here"
            await stream.end_input()
            await stream.end()
        await until(lambda: site.plane.connection_count == 0 and site.container.open_sockets == 0)
        assert not [task for task in asyncio.all_tasks() if task.get_name().startswith("data-plane-")]


def kept_streams() -> list[object]:
    gc.collect()
    return [kept for kept in gc.get_objects() if type(kept) in {Http2Stream, Http1Stream}]


@pytest.fixture
def live(tls: TlsMaterial) -> Any:
    loop = asyncio.new_event_loop()
    made = LiveSite(loop, tls)
    loop.run_until_complete(made.start())
    yield made
    loop.run_until_complete(made.stop())
    assert kept_streams() == []
    loop.close()


LIVE = settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


# HTTP/2 frames of any kind, type and length, after an honest beginning

FRAMES = st.lists(
    st.tuples(
        st.integers(0, 10) | st.integers(0, 255),
        st.integers(0, 255),
        st.sampled_from([0, 1, 3, 5, 2, 2**31 - 1]) | st.integers(0, 2**31 - 1),
        st.binary(max_size=60),
    ),
    max_size=6,
)


@LIVE
@given(frames=FRAMES, tail=st.binary(max_size=20))
def test_any_http2_frames(live: LiveSite, frames: list[tuple[int, int, int, bytes]], tail: bytes) -> None:
    async def example() -> None:
        async with live.site.connect() as connection:
            stream = await connection.open(live.site.endpoint)
            assert await stream.response() == 200
            for kind, flags, stream_id, body in frames:
                head = len(body).to_bytes(3) + bytes([kind, flags]) + struct.pack("!I", stream_id)
                connection.writer.write(head + body)
            connection.writer.write(tail)
            await asyncio.sleep(0.02)
        await live.is_well()

    live.loop.run_until_complete(example())


# Request headers of any kind

HEADER_NAMES = st.sampled_from(
    [
        "x-amzn-sagemaker-model-invocation-path",
        "x-amzn-sagemaker-model-query-string",
        "x-amzn-sagemaker-target-variant",
        "authorization",
        "x-amz-date",
        "x-amz-content-sha256",
        "x-amz-security-token",
        "content-length",
        "x-other",
    ]
)
HEADER_VALUES = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x17F, exclude_characters="\x7f"), max_size=120)


@LIVE
@given(
    headers=st.dictionaries(HEADER_NAMES, HEADER_VALUES.map(str.strip), max_size=4),
    path=st.none() | st.text("/abc%?=&.é\t 0", max_size=40).map(lambda tail: "/endpoints/" + tail.strip()),
    method=st.sampled_from(["POST", "GET", "PUT", "x"]),
    signed=st.booleans(),
)
def test_any_request(live: LiveSite, headers: dict[str, str], path: str | None, method: str, signed: bool) -> None:
    async def example() -> None:
        site = live.site
        target = path or f"/endpoints/{site.endpoint}/invocations-bidirectional-stream"
        async with site.connect() as connection:
            signer = site.signer()
            sent = {"host": connection.authority, **headers}
            if signed:
                sent = signer.sign_request(method, target, sent, "STREAMING-AWS4-HMAC-SHA256-EVENTS") | headers
            stream = connection.request(method, target, sent, signer, end=False)
            await stream.wait(lambda: stream.status or stream.reset is not None or connection.closed.is_set())
            assert stream.status in {200, 400, 403, 404, 408, 424, None}
        await live.is_well()

    live.loop.run_until_complete(example())


@LIVE
@given(data=st.binary(max_size=200) | st.text("GET /POSTfaults HTP1.\r\n:0x", max_size=120).map(str.encode))
def test_any_bytes_on_the_http1_port(live: LiveSite, data: bytes) -> None:
    async def example() -> None:
        port = int(live.site.plane.plain_url.rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(data)
        writer.write_eof()
        async with asyncio.timeout(10):
            answer = await reader.read()
        assert answer == b"" or answer.startswith(b"HTTP/1.1 ")
        writer.close()
        await live.is_well()

    live.loop.run_until_complete(example())


# Faults of any kind at any place, in the middle of any conversation


@st.composite
def faults(draw: st.DrawFn) -> Fault:
    """Draw the fields a kind understands; what contradicts itself is drawn again."""
    kind = draw(st.sampled_from(list(FaultKind)))
    fields: dict[str, Any] = {"kind": kind, "times": draw(st.sampled_from([1, 2, None]))}
    place = draw(st.sampled_from(["none", "after", "after_seconds", "random", "before_headers"]))
    if kind in {FaultKind.REFUSE, FaultKind.SLOW_HEADERS}:
        place = "none"
    elif place == "before_headers" and kind not in {
        FaultKind.KILL_CONNECTION,
        FaultKind.CLOSE_CONNECTION,
        FaultKind.GO_AWAY_NOW,
        FaultKind.GO_AWAY,
        FaultKind.RESET_STREAM,
    }:
        place = "after"
    match place:
        case "after":
            fields["after"] = draw(st.integers(0, 4))
        case "after_seconds":
            fields["after_seconds"] = draw(st.floats(0, 0.05))
        case "random":
            fields |= {"random": (0, draw(st.integers(0, 4))), "seed": draw(st.integers(0, 99))}
        case "before_headers":
            fields["before_headers"] = True
    if kind in {FaultKind.SLOW_HEADERS, FaultKind.DELAY, FaultKind.STALL}:
        fields["seconds"] = draw(st.floats(0.001, 0.05))
    if kind is FaultKind.REFUSE:
        fields["status"] = draw(st.sampled_from(STATUSES))
    if kind in {FaultKind.STOP_READING, FaultKind.STOP_WRITING}:
        fields["scope"] = draw(st.sampled_from(list(Scope)))
    fields["direction"] = draw(st.none() | st.sampled_from(list(Direction)))
    return Fault(**fields)


async def converse(connection: BareConnection, site: Site, payloads: list[bytes]) -> None:
    """Talk as far as the faults allow; every end is as good as any other."""
    stream = await connection.open(site.endpoint)
    async with asyncio.timeout(0.5):
        if await stream.response() != 200:
            return
        for payload in payloads:
            await stream.send_raw(stream.signer.sign_event(payload_part(payload)))
            await stream.next_event()
        await stream.end_input()
        await stream.end()


@LIVE
@given(planned=st.lists(faults(), max_size=4), payloads=st.lists(st.binary(max_size=100), max_size=5))
def test_any_faults(live: LiveSite, planned: list[Fault], payloads: list[bytes]) -> None:
    async def example() -> None:
        for fault in planned:
            live.site.plane.faults.arm(fault)
        async with live.site.connect() as connection:
            talks = [asyncio.create_task(converse(connection, live.site, payloads)) for _ in range(3)]
            done = await asyncio.gather(*talks, return_exceptions=True)
        assert planned or done == [None] * 3
        await live.is_well()

    live.loop.run_until_complete(example())


@given(data=st.dictionaries(st.sampled_from(sorted(Fault.model_fields)), st.integers() | st.text(max_size=9)))
def test_any_json_is_a_fault_or_refused(data: dict[str, Any]) -> None:
    try:
        fault = Fault.from_json(json.dumps(data))
    except FaultSpecError:
        return
    assert fault.kind == data["kind"]
