"""The events of a stream as bytes: `PayloadPart` in an event-stream message, in a signed one.

The SDK makes the same bytes from its models, through schemas, serializers, two encoders and an asynchronous signer, at
several times the cost (benchmarks/client.py). It still opens the stream, signs the request and reads the answer; only
what goes up afterwards is written here. tests/client/transport/test_frames.py compares each byte with the SDK's.

Source: Amazon event stream encoding, and Signature Version 4 for event streams (`AWS4-HMAC-SHA256-PAYLOAD`).
"""

import hmac
import time
from collections.abc import Callable
from hashlib import sha256
from struct import pack
from typing import Literal
from zlib import crc32

from voice_client.transport.identity import Identity

type DataType = Literal["UTF8", "BINARY"]

SERVICE = "sagemaker"
"""The service's name in the signature's scope."""

_STRING, _BYTES, _TIMESTAMP = 7, 6, 8
_DATE = b"\x05:date" + bytes([_TIMESTAMP])
_SIGNATURE = b"\x10:chunk-signature" + pack(">BH", _BYTES, 32)


def _message(headers: bytes, payload: bytes) -> bytes:
    """Encode an event-stream message: lengths, their checksum, headers, payload, checksum of it all."""
    prelude = pack(">II", 16 + len(headers) + len(payload), len(headers))
    head = b"".join((prelude, pack(">I", crc32(prelude)), headers))
    return b"".join((head, payload, pack(">I", crc32(payload, crc32(head)))))


def _text_header(name: str, value: str) -> bytes:
    return pack(">B", len(name)) + name.encode() + pack(">BH", _STRING, len(value)) + value.encode()


def _part_headers(data_type: DataType) -> bytes:
    # COMPLETE: one part is one WebSocket message.
    headers = {
        ":message-type": "event",
        ":event-type": "PayloadPart",
        "DataType": data_type,
        "CompletionState": "COMPLETE",
    }
    return b"".join(_text_header(name, value) for name, value in headers.items())


_CONTENT_TYPE = _text_header(":content-type", "application/octet-stream")
_PART_HEADERS: dict[DataType, bytes] = {"UTF8": _part_headers("UTF8"), "BINARY": _part_headers("BINARY")}


class EventSigner:
    """Makes the signed messages of one stream; each signature rests on the one before, so none may be left out.

    Args:
        identity: whose key signs; the one that signed the request.
        region: of the signature's scope.
        request_signature: the request's own signature (hexadecimal), on which the first event's rests.
        clock: milliseconds since 1970.
    """

    def __init__(
        self,
        identity: Identity,
        region: str,
        request_signature: str,
        *,
        clock: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._secret = identity.secret_access_key
        self._region = region
        self._prior = request_signature
        self._clock = clock
        self._second = -1
        self._timestamp = self._scope = ""
        self._key = b""

    def part(self, data: bytes, data_type: DataType) -> bytes:
        """Return the next event: one whole WebSocket message."""
        headers = _PART_HEADERS[data_type]
        return self._signed(_message(headers + _CONTENT_TYPE if data else headers, data))

    def end(self) -> bytes:
        """Return the event that ends the input."""
        return self._signed(b"")

    def _signed(self, payload: bytes) -> bytes:
        now = self._clock()
        if now // 1000 != self._second:
            self._set_time(now // 1000)
        date = _DATE + pack(">q", now)
        to_sign = (
            f"AWS4-HMAC-SHA256-PAYLOAD\n{self._timestamp}\n{self._scope}\n{self._prior}\n"
            f"{sha256(date).hexdigest()}\n{sha256(payload).hexdigest()}"
        )
        signature = hmac.digest(self._key, to_sign.encode(), "sha256")
        self._prior = signature.hex()
        return _message(b"".join((date, _SIGNATURE, signature)), payload)

    def _set_time(self, second: int) -> None:
        self._second = second
        self._timestamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(second))
        day = self._timestamp[:8]
        scope = f"{day}/{self._region}/{SERVICE}/aws4_request"
        if scope != self._scope:  # the key is good for a day
            self._scope = scope
            self._key = f"AWS4{self._secret}".encode()
            for part in scope.split("/"):
                self._key = hmac.digest(self._key, part.encode(), "sha256")
