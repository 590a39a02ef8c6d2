"""The rules of HTTP/2 between one connection and a scripted server, without sockets: bytes in, bytes out."""

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any, cast

import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import DataReceived, Event, PingReceived, RequestReceived, StreamReset
from h2.settings import SettingCodes
from hyperframe.frame import DataFrame, GoAwayFrame, HeadersFrame

from voice_client.errors import ConnectionLostError, ProtocolError
from voice_client.transport import connection as connection_module
from voice_client.transport.connection import Connection
from voice_client.transport.exchange import Exchange
from voice_client.transport.settings import TransportSettings
from voice_client.transport.socket_options import watch_peer

REQUEST = [(":method", "POST"), (":scheme", "https"), (":authority", "x"), (":path", "/")]
OK = [(":status", "200")]
PING = b"\0\0\x08\6\0\0\0\0\0" + bytes(8)


class Pair:
    """A connection and its scripted server; stands in for the asyncio transport between them."""

    def __init__(self) -> None:
        self.settings = TransportSettings(close_seconds=5, receive_window_bytes=100_000)
        self.connection = Connection(self.settings)
        self.server = H2Connection(H2Configuration(client_side=False, header_encoding="utf-8"))
        self.server.initiate_connection()
        self.written = bytearray()
        self.events: list[Event] = []
        self.gone = False
        self.connection.connection_made(cast("asyncio.BaseTransport", self))

    def get_extra_info(self, name: str) -> Any:
        """Return an agreed `h2`, and a socket that takes every option."""
        if name == "ssl_object":
            return SimpleNamespace(selected_alpn_protocol=lambda: "h2")
        return SimpleNamespace(setsockopt=lambda *_: None)

    def set_write_buffer_limits(self, high: int) -> None:
        """Nothing is buffered here."""

    def write(self, data: bytes) -> None:
        """Take what the client sends."""
        assert not self.gone
        self.written += data

    def abort(self) -> None:
        """Note the end; asyncio would call `connection_lost` in the next turn of its loop."""
        if not self.gone:
            self.gone = True
            asyncio.get_running_loop().call_soon(self.connection.connection_lost, None)

    close = abort

    def say(self, data: bytes, piece: int = 16_384) -> None:
        """Deliver the server's bytes."""
        for position in range(0, len(data), piece):
            part = data[position : position + piece]
            self.connection.get_buffer(-1)[: len(part)] = part
            self.connection.buffer_updated(len(part))

    async def settle(self) -> list[Event]:
        """Carry bytes to and fro until both sides are silent; return what the server heard."""
        heard: list[Event] = []
        for _ in range(1000):
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            up, self.written = bytes(self.written), bytearray()
            if up:
                heard += self.server.receive_data(up)
            down = self.server.data_to_send()
            if down and not self.gone:
                self.say(down)
            if not up and not down:
                break
        self.events += heard
        return heard

    def exchange(self) -> Exchange:
        """Begin a request."""
        exchange = Exchange(self.connection.reserve(), endpoint="ear", settings=self.settings)
        exchange.start(REQUEST)
        return exchange

    async def opened(self) -> tuple[Exchange, int]:
        """Return an exchange whose head was answered, and the stream's number."""
        exchange = self.exchange()
        heard = await self.settle()
        number = next(event.stream_id for event in heard if isinstance(event, RequestReceived))
        assert number is not None
        self.server.send_headers(number, OK)
        await self.settle()
        return exchange, number


@pytest.fixture
async def pair() -> AsyncIterator[Pair]:
    pair = Pair()
    await pair.settle()
    yield pair
    pair.connection.close()
    await asyncio.sleep(0)
    assert pair.connection._carried == {}


def data_of(events: list[Event], number: int) -> bytes:
    return b"".join(e.data or b"" for e in events if isinstance(e, DataReceived) and e.stream_id == number)


def raw(frame: Any, *flags: str) -> bytes:
    """Return a frame that h2 would not send."""
    for flag in flags:
        frame.flags.add(flag)
    return bytes(frame.serialize())


async def test_the_servers_bytes_may_be_cut_anywhere(pair: Pair) -> None:
    exchange, number = await pair.opened()
    pair.server.ping(b"question")
    pair.server.update_settings({SettingCodes.MAX_FRAME_SIZE: 20_000})
    for size in (0, 1, 5000):
        pair.server.send_data(number, b"y" * size, pad_length=3)
    pair.server.end_stream(number)
    pair.say(pair.server.data_to_send(), piece=1)
    came = b""
    while (chunk := await exchange.next_chunk()) is not None:
        came += chunk
    assert came == b"y" * 5001


async def test_a_window_that_shrinks_below_nothing_only_delays(pair: Pair) -> None:
    exchange, number = await pair.opened()
    message = bytes(range(256)) * 1000
    exchange.write(message)
    pair.server.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: 100})  # 65 435 bytes are under way: now negative
    await pair.settle()
    assert exchange.failure is None
    pair.server.increment_flow_control_window(1_000_000)
    await pair.settle()
    assert len(data_of(pair.events, number)) == 65_535
    pair.server.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: 1_000_000})
    await pair.settle()
    assert data_of(pair.events, number) == message


async def test_frames_keep_to_the_size_the_server_allows_now(pair: Pair) -> None:
    exchange, number = await pair.opened()
    pair.server.increment_flow_control_window(1_000_000)
    pair.server.update_settings({SettingCodes.MAX_FRAME_SIZE: 60_000, SettingCodes.INITIAL_WINDOW_SIZE: 1_000_000})
    await pair.settle()
    for size, longest in ((60_000, 60_000), (16_384, 16_384)):
        pair.server.update_settings({SettingCodes.MAX_FRAME_SIZE: size})
        await pair.settle()
        pair.events.clear()
        exchange.write(bytes(150_000))
        await pair.settle()
        pieces = [len(e.data or b"") for e in pair.events if isinstance(e, DataReceived)]
        assert sum(pieces) == 150_000
        assert max(pieces) == longest
    assert exchange.failure is None
    assert len(data_of(pair.events, number)) == 150_000


@pytest.mark.parametrize("allowed", [0, 1])
async def test_fewer_streams_allowed_than_were_counted_on(pair: Pair, allowed: int) -> None:
    """The one too many can go elsewhere; the connection and the stream it carries go on."""
    exchange, number = await pair.opened()
    late = Exchange(pair.connection.reserve(), endpoint="ear", settings=pair.settings)
    pair.server.update_settings({SettingCodes.MAX_CONCURRENT_STREAMS: allowed})
    await pair.settle()
    with pytest.raises(ConnectionLostError):
        late.start(REQUEST)
    assert late.unprocessed
    late.withdraw()
    assert not pair.connection.retired
    assert not pair.connection.usable
    exchange.write(b"still here")
    await pair.settle()
    assert data_of(pair.events, number) == b"still here"
    pair.server.update_settings({SettingCodes.MAX_CONCURRENT_STREAMS: 2})
    await pair.settle()
    assert pair.connection.usable


async def test_a_server_that_asks_on_and_takes_no_answer_is_left(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_module, "_UNTAKEN_ANSWER_BYTES", 10_000)
    exchange, _ = await pair.opened()
    for _ in range(20):  # a server that takes them may ask for ever
        pair.connection.pause_writing()
        pair.say(PING * 100)
        pair.connection.resume_writing()
    assert not pair.gone
    pair.written.clear()
    pair.connection.pause_writing()
    for _ in range(10):
        pair.say(PING * 100)
    assert pair.gone
    assert len(pair.written) < 12_000
    with pytest.raises(ConnectionLostError, match="takes no answer"):
        exchange.raise_failure()


async def test_what_streams_send_is_not_taken_for_answers(pair: Pair) -> None:
    """A window that opens wide lets megabytes out at once, more than the socket's buffer takes."""
    exchange, _ = await pair.opened()
    await pair.settle()
    exchange.write(bytes(8_000_000))
    await pair.settle()
    take = pair.write

    def take_and_be_full(data: bytes) -> None:
        take(data)
        pair.connection.pause_writing()

    pair.write = take_and_be_full  # type: ignore[method-assign]
    pair.server.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: 9_000_000})
    pair.server.increment_flow_control_window(9_000_000)
    pair.say(pair.server.data_to_send())
    assert len(pair.written) > 7_000_000
    pair.say(PING * 10)
    assert exchange.failure is None
    assert not pair.gone


async def test_unread_crumbs_become_few_objects(pair: Pair) -> None:
    exchange, number = await pair.opened()
    crumb = DataFrame(number, b"x").serialize()
    nothing = DataFrame(number, b"").serialize()
    for _ in range(5):
        pair.say((crumb + nothing * 2) * 1000)
    assert len(exchange._chunks) < 10
    came = b""
    while len(came) < 5_000:
        came += await exchange.next_chunk() or b""
    assert came == b"x" * 5_000


async def test_every_byte_that_came_is_given_back_to_the_connections_window(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also those of dropped streams: what is forgotten is missing to the siblings for ever."""
    given_back = 0
    acknowledge = pair.connection._wire.acknowledge_received_data

    def counted(size: int, number: int) -> None:
        nonlocal given_back
        given_back += size
        acknowledge(size, number)

    monkeypatch.setattr(pair.connection._wire, "acknowledge_received_data", counted)
    sent = 0
    for _ in range(5):
        exchange, number = await pair.opened()
        for _ in range(3):
            pair.server.send_data(number, bytes(10_000), pad_length=9)
            sent += 10_010
        await pair.settle()
        exchange.abandon()
        await pair.settle()
    assert given_back == sent


async def test_streams_leave_nothing_behind(pair: Pair) -> None:
    for turn in range(90):
        exchange, number = await pair.opened()
        pair.server.send_data(number, b"x", end_stream=turn % 3 == 0)
        if turn % 3 == 1:
            pair.server.reset_stream(number)
        await pair.settle()
        if turn % 2:
            exchange.end_input()
        exchange.abandon()
        await pair.settle()
        assert pair.connection._reserved == 0
    assert pair.connection._carried == {}
    assert pair.connection._unflushed == {}
    assert len(pair.connection._wire.streams) <= 1
    assert pair.connection.usable


async def test_when_all_stream_numbers_are_used_the_next_stream_goes_elsewhere(pair: Pair) -> None:
    exchange, number = await pair.opened()
    pair.connection._wire.highest_outbound_stream_id = 2**31 - 1
    late = Exchange(pair.connection.reserve(), endpoint="ear", settings=pair.settings)
    with pytest.raises(ConnectionLostError):
        late.start(REQUEST)
    late.withdraw()
    assert late.unprocessed
    assert pair.connection.retired
    exchange.write(b"still here")
    await pair.settle()
    assert data_of(pair.events, number) == b"still here"


async def test_dropping_an_answered_stream_leaves_no_doubt_of_the_connection(pair: Pair) -> None:
    exchange, number = await pair.opened()
    pair.server.end_stream(number)
    await pair.settle()
    exchange.abandon()
    assert pair.connection.usable
    heard = await pair.settle()
    assert [type(event) for event in heard] == [StreamReset]
    exchange, number = await pair.opened()
    exchange.abandon()
    assert not pair.connection.usable
    heard = await pair.settle()
    assert PingReceived in [type(event) for event in heard]
    assert pair.connection.usable


async def test_a_reset_after_a_whole_answer_is_no_loss(pair: Pair) -> None:
    exchange, number = await pair.opened()
    pair.server.send_data(number, b"all of it", end_stream=True)
    pair.server.reset_stream(number, ErrorCodes.NO_ERROR)
    await pair.settle()
    assert [await exchange.next_chunk(), await exchange.next_chunk()] == [b"all of it", None]
    assert exchange.failure is None
    assert exchange.ended.is_set()


async def test_the_second_goaway_may_name_fewer_streams(pair: Pair) -> None:
    (first, one), (second, three) = await pair.opened(), await pair.opened()
    pair.say(raw(GoAwayFrame(last_stream_id=2**31 - 1)))
    assert (first.failure, second.failure) == (None, None)
    assert not pair.connection.usable
    pair.say(raw(GoAwayFrame(last_stream_id=one, error_code=ErrorCodes.ENHANCE_YOUR_CALM)))
    assert first.failure is None
    assert second.unprocessed
    assert three > one
    with pytest.raises(ConnectionLostError, match="ENHANCE_YOUR_CALM"):
        second.raise_failure()
    pair.server.send_data(one, b"served to its end", end_stream=True)
    await pair.settle()
    assert await first.next_chunk() == b"served to its end"
    first.end_input()
    await asyncio.sleep(0)
    assert pair.gone


@pytest.mark.parametrize(
    "head",
    [
        [(":status", "abc")],
        [(":status", "0200")],
        [(":status", "")],
        [(":status", "-20")],
        [(":status", "\uff1200")],
        [("server", "without a status")],
    ],
)
async def test_an_answer_without_a_status_harms_no_sibling(pair: Pair, head: list[tuple[str, str]]) -> None:
    sibling, number = await pair.opened()
    exchange = pair.exchange()
    await pair.settle()
    pair.say(raw(HeadersFrame(number + 2, pair.server.encoder.encode(head)), "END_HEADERS"))
    with pytest.raises(ProtocolError, match="status"):
        await exchange.answer()
    exchange.abandon()
    sibling.write(b"unharmed")
    await pair.settle()
    assert data_of(pair.events, number) == b"unharmed"


async def test_fields_that_http2_forbids_harm_nobody(pair: Pair) -> None:
    exchange = pair.exchange()
    await pair.settle()
    fields = [(":status", "200"), ("connection", "keep-alive"), ("Upper-Case", "x"), ("x-odd", " y\n")]
    pair.say(raw(HeadersFrame(1, pair.server.encoder.encode(fields)), "END_HEADERS"))
    answer = await exchange.answer()
    assert (answer.status, answer.headers["upper-case"]) == (200, "x")


@pytest.mark.parametrize("length", ["3", "30", "many"])
async def test_a_wrong_content_length_harms_nobody(pair: Pair, length: str) -> None:
    sibling, number = await pair.opened()
    exchange = pair.exchange()
    await pair.settle()
    head = pair.server.encoder.encode([(":status", "200"), ("content-length", length)])
    pair.say(raw(HeadersFrame(number + 2, head), "END_HEADERS"))
    pair.say(raw(DataFrame(number + 2, b"ten bytes."), "END_STREAM"))
    assert (await exchange.answer()).status == 200
    assert [await exchange.next_chunk(), await exchange.next_chunk()] == [b"ten bytes.", None]
    sibling.write(b"unharmed")
    await pair.settle()
    assert data_of(pair.events, number) == b"unharmed"


async def test_a_field_in_any_encoding_is_read(pair: Pair) -> None:
    exchange = pair.exchange()
    await pair.settle()
    fields = [(b":status", b"200"), (b"server", b"\xff\xfe"), (b"x-amzn-requestid", b"r-1")]
    pair.say(raw(HeadersFrame(1, pair.server.encoder.encode(fields)), "END_HEADERS"))
    answer = await exchange.answer()
    assert (answer.status, answer.request_id, answer.headers["server"]) == (200, "r-1", "\xff\xfe")


@pytest.mark.parametrize(
    ("breach", "said"),
    [
        (b"\0\0\4\x08\0\0\0\0\0\x7f\xff\xff\xff", "FlowControlError"),  # the connection's window past its largest
        (b"\0\0\6\4\0\0\0\0\0\0\4\xff\xff\xff\xff", "InvalidSettings"),
        (b"\0\0\1\x09\4\0\0\0\1x", "CONTINUATION"),
        (b"\0\0\1\0\0\0\0\0\x15x", "NoSuchStream"),  # data on a stream that was never begun
        (b"\0\0\1\0\x08\0\0\0\1\xff", "padding"),
        (b"\0\0\3\1\5\0\0\0\1\xff\xff\xff", "header block"),
        (b"\0\0\5\5\4\0\0\0\1\0\0\0\2\x82", "pushed"),
        (b"\0\0\1\1\0\0\0\0\1\x88" + b"\0\0\0\x09\0\0\0\0\1" * 80, "continuation"),
        (b"\xff\xff\xff\0\0\0\0\0\1", "overlong frame"),  # 16 MiB that need not come before it is told
    ],
)
async def test_a_breach_of_the_protocol_is_named_to_every_stream(pair: Pair, breach: bytes, said: str) -> None:
    exchanges = [pair.exchange(), pair.exchange()]
    await pair.settle()
    pair.say(breach)
    for exchange in exchanges:
        with pytest.raises(ConnectionLostError, match=f"(?i)broke the HTTP/2 protocol.*{said}"):
            await exchange.answer()
    assert pair.gone


def test_an_option_that_cannot_be_set_does_not_keep_the_others_from_it() -> None:
    taken: list[int] = []

    def setsockopt(level: int, option: int, value: int) -> None:
        del level
        if value > 30_000:
            raise OSError
        if value > 20_000:
            raise OverflowError
        taken.append(value)

    settings = TransportSettings(keepalive_idle_seconds=31_000, unacknowledged_seconds=25)
    watch_peer(cast("Any", SimpleNamespace(setsockopt=setsockopt)), settings)
    assert settings.keepalive_interval_seconds in taken
