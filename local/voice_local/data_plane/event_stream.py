"""The framing `application/vnd.amazon.eventstream`, without I/O.

A frame is: total length (4 bytes, big-endian), length of the headers (4), CRC32 of these eight (4), headers, payload,
CRC32 of all before it (4). A header is: length of the name (1), name, type (1), value. Source: the event-stream
encoding in the AWS developer documentation.
"""

import struct
from binascii import crc32
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from uuid import UUID

from voice_local.data_plane.errors import MalformedFrameError

CONTENT_TYPE = "application/vnd.amazon.eventstream"

LARGEST_HEADERS = 128 * 1024
"""Bytes of headers in one frame (limit of the encoding)."""

_LARGEST_REPEATED = 1024
_NEVER_TWICE = b":chunk-signature"
_PRELUDE = struct.Struct("!III")
_LENGTHS = struct.Struct("!II")
_CRC = struct.Struct("!I")
_TWO_BYTE_LENGTH = struct.Struct("!H")
_TIMESTAMP = struct.Struct("!q")
_OVERHEAD = _PRELUDE.size + _CRC.size

_TRUE, _FALSE, _BYTES, _STRING, _TIME, _UUID = 0, 1, 6, 7, 8, 9
_INTEGERS = {2: struct.Struct("!b"), 3: struct.Struct("!h"), 4: struct.Struct("!i"), 5: struct.Struct("!q")}


class Timestamp(int):
    """Milliseconds since 1970-01-01T00:00:00Z: the value of a header of type 8."""

    __slots__ = ()


type HeaderValue = bool | int | bytes | str | Timestamp | UUID


@dataclass(frozen=True, slots=True)
class Header:
    """One header, with the bytes it was read from: signatures cover those."""

    name: str
    value: HeaderValue
    encoded: bytes


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame, as read."""

    headers: tuple[Header, ...]
    payload: bytes

    def value(self, name: str) -> HeaderValue | None:
        """Return the value of a header, None when the frame has none of that name."""
        return next((header.value for header in self.headers if header.name == name), None)


def encode_header(name: str, value: str | bytes | Timestamp) -> bytes:
    """Encode a string, byte-array or timestamp header: the three types the streaming protocol uses.

    Raises:
        ValueError: the name or the value is longer than its length field can say.
    """
    raw_name = name.encode()
    if isinstance(value, Timestamp):
        kind, body = _TIME, _TIMESTAMP.pack(value)
    else:
        kind, raw = (_BYTES, value) if isinstance(value, bytes) else (_STRING, value.encode())
        if len(raw) > 0x7FFF:
            raise ValueError(f"the value of event header {name} has {len(raw)} bytes, at most 32767 are possible")
        body = _TWO_BYTE_LENGTH.pack(len(raw)) + raw
    return bytes([len(raw_name)]) + raw_name + bytes([kind]) + body


def encode_frame(headers: bytes, payload: bytes) -> bytes:
    """Put encoded headers and a payload into one frame."""
    lengths = _LENGTHS.pack(_OVERHEAD + len(headers) + len(payload), len(headers))
    prelude_crc = crc32(lengths)
    body = b"".join((lengths, _CRC.pack(prelude_crc), headers, payload))
    return body + _CRC.pack(crc32(body))


def encode_headers(headers: Iterable[tuple[str, str | bytes | Timestamp]]) -> bytes:
    """Encode several headers in their order."""
    return b"".join(encode_header(name, value) for name, value in headers)


class FrameDecoder:
    """Cuts a byte stream into frames, whatever the pieces it arrives in."""

    def __init__(self, largest_payload: int) -> None:
        self._largest = largest_payload + LARGEST_HEADERS + _OVERHEAD
        self._buffer = bytearray()

    @property
    def pending(self) -> int:
        """Bytes of a frame that is not complete yet."""
        return len(self._buffer)

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Take bytes in, and yield every frame that they complete.

        Raises:
            MalformedFrameError: a length or a checksum is wrong. What follows cannot be read any more.
        """
        self._buffer += data
        while len(self._buffer) >= _PRELUDE.size:
            total, headers_length, prelude_crc = _PRELUDE.unpack_from(self._buffer)
            self._check_prelude(total, headers_length, prelude_crc)
            if len(self._buffer) < total:
                return
            raw = bytes(memoryview(self._buffer)[:total])
            del self._buffer[:total]
            yield _decode(raw, headers_length)

    def _check_prelude(self, total: int, headers_length: int, prelude_crc: int) -> None:
        if crc32(memoryview(self._buffer)[: _LENGTHS.size].tobytes()) != prelude_crc:
            raise MalformedFrameError("the checksum of a frame's prelude is wrong")
        if headers_length > LARGEST_HEADERS or headers_length > total - _OVERHEAD:
            raise MalformedFrameError(f"a frame claims {headers_length} bytes of headers")
        if total > self._largest:
            raise MalformedFrameError(f"a frame claims {total} bytes, at most {self._largest} are taken")


def decode_single(data: bytes) -> Frame:
    """Decode bytes that must be exactly one frame, as the payload of a signed frame is.

    Raises:
        MalformedFrameError: they are not.
    """
    decoder = FrameDecoder(len(data))
    frame = next(decoder.feed(data), None)
    if frame is None or decoder.pending:
        raise MalformedFrameError("the payload of a signed event is not exactly one frame")
    return frame


def _decode(raw: bytes, headers_length: int) -> Frame:
    end = len(raw) - _CRC.size
    (crc,) = _CRC.unpack_from(raw, end)
    if crc32(memoryview(raw)[:end]) != crc:
        raise MalformedFrameError("the checksum of a frame is wrong")
    split = _PRELUDE.size + headers_length
    headers = raw[_PRELUDE.size : split]
    come_again = headers_length <= _LARGEST_REPEATED and _NEVER_TWICE not in headers
    decode = _decode_repeated_headers if come_again else _decode_headers
    return Frame(decode(headers), raw[split:end])


@lru_cache(maxsize=256)
def _decode_repeated_headers(raw: bytes) -> tuple[Header, ...]:
    """Decode headers that most likely come again: the events of a client are all alike but for their payload."""
    return _decode_headers(raw)


def _decode_headers(raw: bytes) -> tuple[Header, ...]:
    return tuple(_read_headers(raw))


def _read_headers(raw: bytes) -> Iterator[Header]:
    position = 0
    seen: set[str] = set()
    try:
        while position < len(raw):
            start = position
            name_end = position + 1 + raw[position]
            name = raw[position + 1 : name_end].decode()
            value, position = _decode_value(raw, name_end)
            if position > len(raw):
                raise MalformedFrameError(f"event header {name!r} is longer than the headers of its frame")
            if not name or name in seen:
                raise MalformedFrameError(f"event header {name!r} has no name or comes twice")
            seen.add(name)
            yield Header(name, value, raw[start:position])
    except (IndexError, struct.error, UnicodeDecodeError, ValueError) as error:
        raise MalformedFrameError("the headers of a frame cannot be read") from error


def _decode_value(raw: bytes, position: int) -> tuple[HeaderValue, int]:
    """Read the type and the value at `position`; return the value and the position after it."""
    kind = raw[position]
    position += 1
    if kind in (_TRUE, _FALSE):
        return kind == _TRUE, position
    if kind in _INTEGERS:
        layout = _INTEGERS[kind]
        (number,) = layout.unpack_from(raw, position)
        return int(number), position + layout.size
    if kind in (_BYTES, _STRING):
        (length,) = _TWO_BYTE_LENGTH.unpack_from(raw, position)
        start = position + _TWO_BYTE_LENGTH.size
        body = raw[start : start + length]
        return (body if kind == _BYTES else body.decode()), start + length
    if kind == _TIME:
        (milliseconds,) = _TIMESTAMP.unpack_from(raw, position)
        return Timestamp(milliseconds), position + _TIMESTAMP.size
    if kind == _UUID:
        return UUID(bytes=raw[position : position + 16]), position + 16
    raise MalformedFrameError(f"event header of unknown type {kind}")
