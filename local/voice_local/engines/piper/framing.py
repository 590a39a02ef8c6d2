"""The frames on the pipe between the speech server and the Piper worker.

A frame is 1 byte kind, 4 bytes request number, 4 bytes payload length (both big-endian), payload. The server sends
SPEAK and the worker answers with any number of AUDIO, then END or FAILED, all with the request's number. The worker's
first frame is READY or FAILED, with number 0.
"""

import json
import struct
from dataclasses import asdict, dataclass
from enum import IntEnum

HEADER = struct.Struct(">BII")
ESPEAK_SAMPLE_RATE = 22_050
"""Hz: what eSpeak NG gives, whatever rate the Piper voice has."""

MAX_PAYLOAD_BYTES = 16 * 1024 * 1024
"""A frame that claims more is not one of ours: something wrote text into the pipe."""


class FrameKind(IntEnum):
    """What a frame says."""

    READY = 1
    """Payload: the sample rate in Hz, as decimal digits."""
    SPEAK = 2
    """Payload: a `SpeakRequest` as JSON."""
    AUDIO = 3
    """Payload: PCM16, little-endian, mono, at the rate READY gave, or at `ESPEAK_SAMPLE_RATE`."""
    END = 4
    """No payload: the request is done."""
    FAILED = 5
    """Payload: what went wrong, UTF-8, without the text to be spoken."""


@dataclass(frozen=True, slots=True)
class SpeakRequest:
    """One piece of text for Piper."""

    text: str
    length_scale: float
    """Duration relative to the voice's own; 2 is half as fast."""
    variation: float = 1.0
    """Factor on the chance in sound and rhythm that the voice was trained with; at 0 each telling is the same."""
    espeak_voice: str | None = None
    """Name of an eSpeak NG voice that speaks in Piper's place, at `ESPEAK_SAMPLE_RATE`."""

    def to_json(self) -> bytes:
        """Return the payload of a SPEAK frame."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def from_json(cls, payload: bytes) -> "SpeakRequest":
        """Read the payload of a SPEAK frame."""
        return cls(**json.loads(payload))


def frame(kind: FrameKind, request: int, payload: bytes = b"") -> bytes:
    """Return the bytes of one frame."""
    return HEADER.pack(kind, request, len(payload)) + payload
