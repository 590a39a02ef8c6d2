"""WebSocket frames (RFC 6455, 5.2), as far as the bridge handles them itself; pure, no I/O.

Whole text messages in one frame are nearly all that ever passes, and are read and written here. Everything else, and
every fault, is for the core of `websockets`, which costs twice as much a message (docs/decisions/bridge-server.md).
"""

import secrets
import struct

try:
    from websockets.speedups import apply_mask
except ImportError:  # where `websockets` was installed without its extension
    from websockets.utils import apply_mask

_TEXT, _BINARY = 0x81, 0x82
"""First bytes of frames that hold a whole message."""
_MASK_BIT = 0x80
_SHORT, _LONG = struct.Struct("!BBH"), struct.Struct("!BBQ")


def frame_size(data: bytearray, max_payload: int) -> int:
    """Return how many bytes the frame at the start of `data` has, 0 while it is not whole.

    -1 as soon as its head says that its payload is over `max_payload`: it can be refused without being kept.
    """
    if len(data) < 2:
        return 0
    length, head = data[1] & ~_MASK_BIT, _head_size(data)
    if length >= 126:
        if len(data) < head:
            return 0
        length = int.from_bytes(data[2:head])
    if length > max_payload:
        return -1
    size = head + length + (4 if data[1] & _MASK_BIT else 0)
    return size if size <= len(data) else 0


def text_of(frame: bytearray, *, masked: bool) -> bytes | None:
    """Return the payload of a whole frame that holds a whole text message, None of any other and of a faulty one."""
    if frame[0] != _TEXT or bool(frame[1] & _MASK_BIT) != masked:
        return None
    head = _head_size(frame)
    return apply_mask(frame[head + 4 :], bytes(frame[head : head + 4])) if masked else bytes(frame[head:])


def _head_size(frame: bytearray) -> int:
    """Without the mask."""
    length = frame[1] & ~_MASK_BIT
    return 2 if length < 126 else 4 if length == 126 else 10


def message_frame(data: bytes, *, is_text: bool, masked: bool) -> bytes:
    """Return the frame that holds `data` as a whole message; a client's are masked, a server's are not."""
    first, mask, length = _TEXT if is_text else _BINARY, _MASK_BIT if masked else 0, len(data)
    if length < 126:
        head = bytes((first, mask | length))
    elif length < 1 << 16:
        head = _SHORT.pack(first, mask | 126, length)
    else:
        head = _LONG.pack(first, mask | 127, length)
    if not masked:
        return head + data
    key = secrets.token_bytes(4)
    return b"".join((head, key, apply_mask(data, key)))
