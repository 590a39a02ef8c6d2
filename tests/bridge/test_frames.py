"""Frames, in whatever pieces they come, are the messages that the core of `websockets` alone would make of them."""

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from websockets.frames import Frame, Opcode
from websockets.protocol import Protocol, Side

from voxtral_bridge.frames import frame_bounds, text_frame, text_of
from voxtral_bridge.web_socket import WebSocket

LIMIT = 70_000

payloads = st.binary(max_size=40) | st.sampled_from([b"a" * 125, b"b" * 126, b"c" * 65_535, b"d" * 65_536])
messages = st.tuples(st.sampled_from([Opcode.TEXT, Opcode.BINARY]), payloads, st.integers(1, 3))
pings = st.tuples(st.just(Opcode.PING), st.binary(max_size=125), st.just(1))


class Wire:
    """Takes the place of a transport."""

    def __init__(self) -> None:
        self.written = b""
        self.is_read = True

    def write(self, data: bytes) -> None:
        self.written += data

    def is_closing(self) -> bool:
        return False

    def close(self) -> None: ...

    def write_eof(self) -> None: ...

    def pause_reading(self) -> None:
        self.is_read = False

    def resume_reading(self) -> None:
        self.is_read = True


def socket_of(side: Side) -> tuple[WebSocket, Wire, list[bytes]]:
    heard: list[bytes] = []
    protocol = Protocol(side, max_size=LIMIT)
    socket = WebSocket(protocol, LIMIT, asyncio.Event(), heard.append)
    wire: Any = Wire()
    socket.transport = wire
    return socket, wire, heard


def frames_of(opcode: Opcode, payload: bytes, parts: int) -> list[Frame]:
    """One message in several fragments."""
    cut = len(payload) // parts + 1
    pieces = [payload[start : start + cut] for start in range(0, max(len(payload), 1), cut)]
    return [
        Frame(Opcode.CONT if number else opcode, piece, fin=number == len(pieces) - 1)
        for number, piece in enumerate(pieces)
    ]


@settings(max_examples=40)
@given(st.lists(messages | pings, max_size=6), st.sampled_from(Side), st.data())
def test_messages_survive_any_fragments_and_pieces(
    sent: list[tuple[Opcode, bytes, int]], side: Side, data: st.DataObject
) -> None:
    stream = b"".join(
        frame.serialize(mask=side is Side.SERVER, extensions=[]) for message in sent for frame in frames_of(*message)
    )
    socket, wire, heard = socket_of(side)
    while stream:
        piece = data.draw(st.integers(1, len(stream)) | st.integers(1, 9))
        socket.receive(stream[:piece])
        stream = stream[piece:]
    assert heard == [payload for opcode, payload, _ in sent if opcode is not Opcode.PING]
    assert not socket.ended
    if side is Side.SERVER:
        pongs = [Frame(Opcode.PONG, payload) for opcode, payload, _ in sent if opcode is Opcode.PING]
        assert wire.written == b"".join(pong.serialize(mask=False, extensions=[]) for pong in pongs)


@settings(max_examples=40)
@given(payloads, st.sampled_from(Side))
def test_a_message_written_is_read_by_the_other_side(payload: bytes, side: Side) -> None:
    writer, wire, _ = socket_of(side)
    writer.send(payload)
    reader = Protocol(Side.SERVER if side is Side.CLIENT else Side.CLIENT, max_size=LIMIT)
    reader.receive_data(wire.written)
    [frame] = reader.events_received()
    assert isinstance(frame, Frame)
    assert (frame.opcode, bytes(frame.data)) == (Opcode.TEXT, payload)


@pytest.mark.parametrize(
    ("frame", "close_code"),
    [
        (b"\x81\x05hello", 1002),  # a client's frame must be masked
        (b"\xc1\x80\0\0\0\0", 1002),  # a reserved bit
        (b"\x83\x80\0\0\0\0", 1002),  # an unknown opcode
        (b"\x80\x80\0\0\0\0", 1002),  # goes on with a message that was not begun
        (b"\x01\x80\0\0\0\0\x81\x80\0\0\0\0", 1002),  # begins one while another is under way
        (b"\x81\xff" + (LIMIT + 1).to_bytes(8, "big") + bytes(4), 1009),
        (b"\x81\xff" + (1 << 63).to_bytes(8, "big") + bytes(4), 1009),
    ],
)
def test_faulty_frames_fail_the_connection(frame: bytes, close_code: int) -> None:
    socket, wire, heard = socket_of(Side.SERVER)
    socket.receive(text_frame(b"before", masked=True))
    socket.receive(frame)
    socket.receive(text_frame(b"after", masked=True))
    assert heard == [b"before"]
    assert socket.ended
    assert wire.written[:1] == b"\x88"
    assert int.from_bytes(wire.written[2:4]) == close_code


def test_a_frame_too_large_is_known_by_its_head() -> None:
    frame = bytearray(text_frame(b"x" * 200, masked=True))
    assert frame_bounds(frame[:3], 200) == (0, 0)
    assert frame_bounds(frame[:-1], 200) == (8, 0)
    assert frame_bounds(frame, 200) == (8, len(frame))
    assert frame_bounds(frame[:4], 199) == (0, 4), "all there is, for the core to refuse"
    assert text_of(frame, 8, masked=True) == b"x" * 200
    assert text_of(frame, 8, masked=False) is None


async def test_a_side_is_read_only_while_the_others_take_what_it_gives_and_wants() -> None:
    """Messages go to the other side; pongs go back, and must not pile up for a peer that pings and reads nothing."""
    socket, wire, _ = socket_of(Side.SERVER)
    other, other_wire, _ = socket_of(Side.CLIENT)
    socket.other, other.other = other, socket
    socket.pause_writing()
    assert (wire.is_read, other_wire.is_read) == (True, False)
    socket.receive(Frame(Opcode.PING, b"").serialize(mask=True, extensions=[]))
    assert (wire.is_read, other_wire.is_read) == (False, False)
    socket.resume_writing()
    assert (wire.is_read, other_wire.is_read) == (True, True)
    other.pause_writing()
    socket.pause_writing()
    socket.resume_writing()
    assert (wire.is_read, other_wire.is_read) == (False, True), "the other side still takes nothing"
