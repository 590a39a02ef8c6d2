"""The event-stream codec and the request parser: any bytes, in any pieces, checked against the SDK's own codec."""

import itertools
import struct
from binascii import crc32
from datetime import UTC, datetime
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from smithy_aws_event_stream.events import Byte, EventMessage, Long, Short

from voice_local.data_plane.errors import MalformedFrameError, StreamFaultError, model_stream_error
from voice_local.data_plane.event_stream import FrameDecoder, Timestamp, encode_frame, encode_header, encode_headers
from voice_local.data_plane.payload_parts import encode_fault, encode_message
from voice_local.data_plane.request_events import RequestEvents
from voice_local.data_plane.sigv4 import EventChain, SignatureVerifier
from voice_local.identity import LocalIdentity

from .bare_client import Signer, cut_events, payload_part

NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1, max_size=20)
VALUES = st.one_of(
    st.booleans(),
    st.integers(-128, 127).map(Byte),
    st.integers(-(2**15), 2**15 - 1).map(Short),
    st.integers(-(2**31), 2**31 - 1),
    st.integers(-(2**63), 2**63 - 1).map(Long),
    st.binary(max_size=50),
    st.text(max_size=50),
    st.uuids(),
    st.datetimes(datetime(1980, 1, 1), datetime(2100, 1, 1)).map(  # noqa: DTZ001 - made aware right here
        # Eighths of a second: the SDK cuts what a float cannot hold, and is a millisecond off then.
        lambda moment: moment.replace(microsecond=moment.microsecond // 125_000 * 125_000, tzinfo=UTC)
    ),
)


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [data[start:end] for start, end in itertools.pairwise(edges)]


@settings(max_examples=60, deadline=None)
@given(
    messages=st.lists(st.tuples(st.dictionaries(NAMES, VALUES, max_size=6), st.binary(max_size=300)), max_size=5),
    cuts=st.lists(st.integers(0, 10_000), max_size=8),
)
def test_frames_of_the_sdk_are_read_in_any_pieces(
    messages: list[tuple[dict[str, object], bytes]], cuts: list[int]
) -> None:
    encoded = b"".join(EventMessage(headers=headers, payload=payload).encode() for headers, payload in messages)  # type: ignore[arg-type]
    decoder = FrameDecoder(1000)
    frames = [frame for piece in pieces(encoded, cuts) for frame in decoder.feed(piece)]
    assert decoder.pending == 0
    assert [frame.payload for frame in frames] == [payload for _, payload in messages]
    for frame, (headers, _) in zip(frames, messages, strict=True):
        read = {header.name: header.value for header in frame.headers}
        expected = {
            name: round(value.timestamp() * 1000) if isinstance(value, datetime) else value
            for name, value in headers.items()
        }
        assert read == expected
        assert {name: isinstance(value, bool) for name, value in read.items()} == {
            name: isinstance(value, bool) for name, value in headers.items()
        }


@settings(max_examples=150, deadline=None)
@given(data=st.binary(max_size=200), cuts=st.lists(st.integers(0, 200), max_size=4))
def test_any_bytes_are_refused_or_wait_for_more(data: bytes, cuts: list[int]) -> None:
    decoder = FrameDecoder(1000)
    try:
        for piece in pieces(data, cuts):
            for frame in decoder.feed(piece):
                assert isinstance(frame.payload, bytes)
    except MalformedFrameError as error:
        assert str(error)  # noqa: PT017 - the other outcome is as good


@settings(max_examples=150, deadline=None)
@given(headers=st.binary(max_size=120), payload=st.binary(max_size=20))
def test_any_header_bytes_inside_a_sound_frame_are_refused_or_read(headers: bytes, payload: bytes) -> None:
    try:
        frames = list(FrameDecoder(1000).feed(encode_frame(headers, payload)))
    except MalformedFrameError:
        return
    assert [frame.payload for frame in frames] == [payload]
    assert b"".join(header.encoded for header in frames[0].headers) == headers


@pytest.mark.parametrize(
    ("headers", "words"),
    [
        (b"\x01a\x0a", "unknown type 10"),
        (b"\x01a\x07\x00\x05ab", "longer than the headers"),
        (b"\x01a\x05\x00", "cannot be read"),
        (b"\x01a", "cannot be read"),
        (b"\x01\xff\x00", "cannot be read"),
        (b"\x01a\x00\x01a\x00", "comes twice"),
        (b"\x00\x00", "no name"),
        (b"\x01a\x09\x00\x00", "cannot be read"),
    ],
)
def test_malformed_headers_are_named(headers: bytes, words: str) -> None:
    with pytest.raises(MalformedFrameError, match=words):
        list(FrameDecoder(1000).feed(encode_frame(headers, b"")))


def prelude(total: int, headers: int) -> bytes:
    lengths = struct.pack("!II", total, headers)
    return lengths + struct.pack("!I", crc32(lengths))


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (prelude(2**31, 0), "2147483648 bytes"),
        (prelude(100, 90), "90 bytes of headers"),
        (prelude(8, 0), "bytes of headers"),
        (prelude(100, 0)[:-1] + b"\x00", "prelude is wrong"),
    ],
)
def test_a_false_length_is_refused_before_the_body_comes(data: bytes, words: str) -> None:
    with pytest.raises(MalformedFrameError, match=words):
        list(FrameDecoder(1000).feed(data))


def test_what_we_encode_others_decode() -> None:
    fault = model_stream_error("The container is gone.", "StreamBroken")
    unmodeled = StreamFaultError("InvalidSignatureException", "No.", modeled=False)
    encoded = bytearray(encode_message("ü") + encode_message(b"\xff") + encode_fault(fault) + encode_fault(unmodeled))
    text, binary, exception, error = events = cut_events(encoded)
    assert all(event.sound for event in events)
    assert (text.payload, text.headers["DataType"]) == ("ü".encode(), "UTF8")
    assert (binary.payload, binary.headers["DataType"]) == (b"\xff", "BINARY")
    assert exception.headers[":exception-type"] == "ModelStreamError"
    assert exception.json() == {"Message": "The container is gone.", "ErrorCode": "StreamBroken"}
    assert error.headers[":error-code"] == "InvalidSignatureException"


def test_headers_are_encoded_as_the_sdk_encodes_them() -> None:
    moment = datetime(2026, 1, 2, 3, 4, 5, 678000, UTC)
    ours = encode_headers((("s", "text"), ("b", b"\x01"), (":date", Timestamp(round(moment.timestamp() * 1000)))))
    theirs = EventMessage(headers={"s": "text", "b": b"\x01", ":date": moment}).encode()
    assert encode_frame(ours, b"") == theirs
    with pytest.raises(ValueError, match="40000 bytes"):
        encode_header("long", "x" * 40_000)
    assert next(FrameDecoder(10).feed(EventMessage(headers={"u": UUID(int=7)}).encode())).value("u") == UUID(int=7)


PARTS = st.tuples(
    st.binary(max_size=40),
    st.sampled_from([{}, {"DataType": "BINARY"}, {"DataType": "UTF8"}, {"DataType": "X"}]),
    st.sampled_from([{}, {"CompletionState": "PARTIAL"}, {"CompletionState": "COMPLETE"}]),
)


@settings(max_examples=100, deadline=None)
@given(parts=st.lists(PARTS, max_size=8), cuts=st.lists(st.integers(0, 5000), max_size=6), spoil=st.integers(-1, 2000))
def test_any_sequence_of_events_is_delivered_in_order_or_refused(
    parts: list[tuple[bytes, dict[str, str], dict[str, str]]], cuts: list[int], spoil: int
) -> None:
    """What is delivered is always a prefix of what was meant, however the bytes are cut or spoilt."""
    identity = LocalIdentity()
    signer = Signer(identity.access_key_id, identity.secret_access_key, identity.region, previous="00" * 32)
    verifier = SignatureVerifier(identity, clock_skew_seconds=300)
    events = RequestEvents(EventChain(verifier, "00" * 32), 10_000)
    data = bytearray(b"".join(signer.sign_event(payload_part(body, **kind, **state)) for body, kind, state in parts))
    data += signer.sign_event(b"")
    if spoiled := 0 <= spoil < len(data):
        data[spoil] ^= 0x55

    meant: list[str | bytes] = []
    run = b""
    for body, kind, state in parts:
        run += body
        if state.get("CompletionState") != "PARTIAL":
            meant.append(run if kind.get("DataType") != "UTF8" else run.decode(errors="replace"))
            run = b""

    delivered: list[str | bytes] = []
    refused = False
    try:
        for piece in pieces(bytes(data), cuts):
            if not events.ended:
                delivered.extend(events.feed(piece))
        events.check_complete(after_end_frame=events.ended)
    except StreamFaultError:
        refused = True
    assert delivered == meant[: len(delivered)]
    assert refused or (events.ended and delivered == meant and not spoiled)
