"""WebSocket frames (RFC 6455, 5.2), as far as the bridge handles them itself; pure, no I/O.

Whole text messages in one frame are nearly all that ever passes, and are read and written here. Everything else, and
every fault, is for the core of `websockets`, which costs twice as much a message (docs/decisions/bridge-server.md).
"""

import secrets

try:
    from websockets.speedups import apply_mask
except ImportError:  # where `websockets` was installed without its extension
    from websockets.utils import apply_mask

_TEXT = 0x81
"""First byte of a frame that holds a whole text message."""
_MASKED = 0x80
"""Bit of the second byte, beside the length."""


def frame_bounds(data: bytearray, max_payload: int) -> tuple[int, int]:
    """Return where the payload of the frame at the start of `data` begins and ends; the end is 0 while it is not whole.

    When it has more than `max_payload` bytes: 0 and all there is, so that it can be refused without being kept.
    """
    if len(data) < 2:
        return 0, 0
    length = data[1] & ~_MASKED
    start = 2 if length < 126 else 4 if length == 126 else 10
    if len(data) < start:
        return 0, 0
    if start > 2:
        length = int.from_bytes(data[2:start])
    start += 4 if data[1] & _MASKED else 0
    if length > max_payload:
        return 0, len(data)
    return start, start + length if start + length <= len(data) else 0


def text_of(frame: bytearray, start: int, *, masked: bool) -> bytes | None:
    """Return the payload of a whole frame that holds a whole text message, None of any other and of a faulty one."""
    if frame[0] != _TEXT or bool(frame[1] & _MASKED) != masked:
        return None
    return apply_mask(frame[start:], bytes(frame[start - 4 : start])) if masked else bytes(frame[start:])


def text_frame(data: bytes, *, masked: bool) -> bytes:
    """Return the frame that holds `data` as a whole text message; a client's are masked, a server's are not."""
    length, mask = len(data), _MASKED if masked else 0
    if length < 126:
        head = bytes((_TEXT, mask | length))
    else:
        code, width = (126, 2) if length < 1 << 16 else (127, 8)
        head = bytes((_TEXT, mask | code)) + length.to_bytes(width)
    if not masked:
        return head + data
    key = secrets.token_bytes(4)
    return b"".join((head, key, apply_mask(data, key)))
