"""The events of a response: bytes in, whole messages out, without I/O.

The SDK reads the same bytes through an asynchronous reader, a schema and a deserializer, at several times the cost
(docs/decisions/http2-library.md). tests/client/transport/test_response_events.py holds this against the SDK's own
encoder.

Source: Amazon event stream encoding; the service's model of `ResponseStreamEvent`.
"""

import json
from collections.abc import Iterator
from functools import lru_cache
from struct import Struct
from zlib import crc32

_PRELUDE = Struct(">III")
_CRC = Struct(">I")
_OVERHEAD = 16
_LONGEST_HEADERS = 128 * 1024
"""By the format's own limit."""
_FIXED_SIZES = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}
"""Sizes of the values of headers that are no strings: true, false, byte, short, integer, long, timestamp, UUID."""
_SIZED = {6, 7}
"""Types of headers whose value begins with its length: bytes, string."""


class BrokenResponseError(Exception):
    """What came breaks the rules; says what it was ("a message longer than 5 bytes")."""


class EventFaultError(Exception):
    """The service ended the stream with an exception or an error.

    Args:
        kind: its type (`ModelStreamError`, ...).
        said: the service's words, None when there are none.
        error_code: the service's closer code, where it gives one.
    """

    def __init__(self, kind: str, said: str | None, error_code: str | None = None) -> None:
        super().__init__(kind)
        self.kind = kind
        self.said = said
        self.error_code = error_code


class ResponseEvents:
    """Cuts a stream's bytes into events and joins their payload parts into messages.

    Args:
        longest_message: in bytes.
    """

    def __init__(self, longest_message: int) -> None:
        self._longest = longest_message
        self._buffer = bytearray()
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> Iterator[tuple[str | bytes, int]]:
        """Take bytes in, and yield every message they complete with its size in bytes.

        Raises:
            EventFaultError: the service ended the stream.
            BrokenResponseError: nothing that follows can be read.
        """
        self._buffer += data
        while len(self._buffer) >= _PRELUDE.size:
            total, headers_size, checksum = _PRELUDE.unpack_from(self._buffer)
            if crc32(self._buffer[: _PRELUDE.size - _CRC.size]) != checksum:
                raise _no_events("the checksum of an event's prelude is wrong")
            if headers_size > min(_LONGEST_HEADERS, total - _OVERHEAD):
                raise _no_events("an event claims more headers than it holds")
            if total - headers_size - _OVERHEAD > self._longest:
                raise BrokenResponseError(f"a message longer than {self._longest} bytes")
            if len(self._buffer) < total:
                return
            event = bytes(memoryview(self._buffer)[:total])
            del self._buffer[:total]
            if (message := self._take(event, headers_size)) is not None:
                yield message

    def finish(self) -> None:
        """Check, at the end of the stream, that nothing was cut off.

        Raises:
            BrokenResponseError: it was.
        """
        if self._buffer:
            raise _no_events("it was cut off inside an event")
        if self._parts:
            raise BrokenResponseError("a stream that ended inside a message")

    def _take(self, event: bytes, headers_size: int) -> tuple[str | bytes, int] | None:
        body = memoryview(event)[: -_CRC.size]
        if crc32(body) != _CRC.unpack_from(event, len(body))[0]:
            raise _no_events("the checksum of an event is wrong")
        payload_at = _PRELUDE.size + headers_size
        data_type, complete = _part(event[_PRELUDE.size : payload_at], event[payload_at : -_CRC.size])
        if data_type is None:
            return None
        self._parts.append(event[payload_at : -_CRC.size])
        self._size += len(self._parts[-1])
        if self._size > self._longest:
            raise BrokenResponseError(f"a message longer than {self._longest} bytes")
        if not complete:
            return None
        data, size = b"".join(self._parts), self._size
        self._parts.clear()
        self._size = 0
        if data_type != "UTF8":
            return data, size
        try:
            return data.decode(), size
        except UnicodeDecodeError as error:
            raise BrokenResponseError("a text message that is not UTF-8") from error


def _no_events(why: str) -> BrokenResponseError:
    return BrokenResponseError(f"what is not an event stream: {why}")


def _part(raw_headers: bytes, payload: bytes) -> tuple[str | None, bool]:
    """Return a payload part's data type and whether it completes a message; no type for an event to be skipped."""
    headers = _headers(raw_headers)
    match headers.get(":message-type"):
        case "event":
            if headers.get(":event-type") != "PayloadPart":
                return None, True  # newer than this client, and by the protocol may be skipped
            return headers.get("DataType", "BINARY"), headers.get("CompletionState") != "PARTIAL"
        case "exception":
            said = _json_object(payload)
            raise EventFaultError(
                headers.get(":exception-type", "an exception without a type"),
                _text(said, "Message", "message"),
                _text(said, "ErrorCode", "errorCode"),
            )
        case "error":
            raise EventFaultError(headers.get(":error-code", "an error without a code"), headers.get(":error-message"))
        case other:
            raise _no_events(f"an event of type {other}")


@lru_cache(maxsize=32)
def _headers(raw: bytes) -> dict[str, str]:
    """Read headers, of which only the texts matter here; those of a stream's parts are nearly all alike.

    Nobody may change the result. (The cache holds at most 32 * 128 KiB, by the format's limit.)
    """
    found: dict[str, str] = {}
    position = 0
    try:
        while position < len(raw):
            name_end = position + 1 + raw[position]
            name, kind = raw[position + 1 : name_end].decode(), raw[name_end]
            position = name_end + 1
            if kind in _SIZED:
                size = int.from_bytes(raw[position : position + 2])
                position += 2
                if kind == 7:
                    found[name] = raw[position : position + size].decode()
            else:
                size = _FIXED_SIZES[kind]
            position += size
    except (IndexError, KeyError, UnicodeDecodeError) as error:
        raise _no_events("the headers of an event cannot be read") from error
    if position > len(raw):
        raise _no_events("the headers of an event are cut off")
    return found


def _json_object(payload: bytes) -> dict[str, object]:
    try:
        value = json.loads(payload)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _text(said: dict[str, object], *names: str) -> str | None:
    return next((value for name in names if isinstance(value := said.get(name), str)), None)
