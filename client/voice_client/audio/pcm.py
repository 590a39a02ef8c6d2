"""PCM16 little-endian: from float samples, over chunk borders, and how loud it is."""

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

type Float32Samples = NDArray[np.float32]

BYTES_PER_SAMPLE = 2

AUDIBLE_AMPLITUDE = 328
"""Peak (of 32768) from which a sample counts as audible: -40 dBFS, above room noise and codec hiss, below speech."""


def to_pcm16(samples: Float32Samples) -> bytes:
    """Turn mono float samples (full scale 1.0) into PCM16 little-endian.

    Full scale is 32768, as in every decoder, so PCM16 survives the way to float and back unchanged. What is louder
    than full scale is clipped, never wrapped around; NaN becomes silence.
    """
    scaled = np.nan_to_num(samples, nan=0.0, posinf=1.0, neginf=-1.0) * np.float32(32768.0)
    return np.clip(np.rint(scaled), -32768, 32767).astype("<i2").tobytes()


def first_audible_sample(pcm: bytes) -> int | None:
    """Return the index of the first sample of PCM16 audio that can be heard, None when all is silence."""
    loud = np.abs(np.frombuffer(pcm, dtype="<i2").astype(np.int32)) >= AUDIBLE_AMPLITUDE
    index = int(np.argmax(loud)) if loud.size else 0
    return index if loud.size and loud[index] else None


def rechunk(blocks: Iterable[bytes], chunk_bytes: int) -> Iterator[bytes]:
    """Cut blocks of any length into chunks of one length; only the last may be shorter."""
    held = bytearray()
    for block in blocks:
        held += block
        whole = len(held) - len(held) % chunk_bytes
        for start in range(0, whole, chunk_bytes):
            yield bytes(held[start : start + chunk_bytes])
        del held[:whole]
    if held:
        yield bytes(held)


class SampleAligner:
    """Gives out whole samples only: the odd byte at the end of a frame is carried into the next.

    A player that is handed half a sample reads everything after it shifted by a byte, which is loud noise.
    """

    def __init__(self) -> None:
        self._odd = b""

    def align(self, frame: bytes) -> bytes:
        """Return the whole samples so far not given out."""
        data = self._odd + frame
        whole = len(data) - len(data) % BYTES_PER_SAMPLE
        self._odd = data[whole:]
        return data[:whole]

    @property
    def pending_bytes(self) -> int:
        """Bytes held back, 0 or 1."""
        return len(self._odd)
