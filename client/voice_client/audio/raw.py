"""Audio without a header: the caller says what the bytes mean."""

from dataclasses import dataclass
from typing import Literal, get_args

from voice_client.errors import BadInputError

type Encoding = Literal["u8", "s16le", "s16be", "s24le", "s32le", "f32le", "alaw", "mulaw"]
"""How a sample is written, by FFmpeg's names."""

ENCODINGS: tuple[str, ...] = get_args(Encoding.__value__)


@dataclass(frozen=True, slots=True)
class RawFormat:
    """What raw PCM is made of.

    Args:
        encoding: how a sample is written.
        rate: samples per second, 4000 to 384000 Hz.
        channels: interleaved, 1 to 8; they are mixed to one.

    Raises:
        BadInputError: values that no recording has; all of them are named.
    """

    encoding: str = "s16le"
    rate: int = 16_000
    channels: int = 1

    def __post_init__(self) -> None:
        problems = []
        if self.encoding not in ENCODINGS:
            problems.append(f"there is no raw encoding {self.encoding!r} (known are {', '.join(ENCODINGS)})")
        if not 4_000 <= self.rate <= 384_000:
            problems.append(f"a rate of {self.rate} Hz is not one of speech")
        if not 1 <= self.channels <= 8:
            problems.append(f"{self.channels} channels cannot be mixed")
        if problems:
            raise BadInputError("; ".join(problems))
