"""Resamples a stream of blocks to one rate, keeping the filter's state from block to block."""

from collections.abc import Iterable, Iterator

import numpy as np
import soxr

from voice_client.audio.decode import Block
from voice_client.audio.pcm import Float32Samples


def resample(blocks: Iterable[Block], rate: int) -> Iterator[Float32Samples]:
    """Yield the samples of all blocks at `rate` Hz.

    Resampling each block by itself would click at every border; one soxr stream (HQ, 134 dB) over all of them does
    not. Samples that have the rate already pass unchanged. A block whose rate differs from the one before starts a
    new stream.
    """
    stream: soxr.ResampleStream | None = None
    stream_rate = rate
    for block in blocks:
        if block.rate != stream_rate:
            if stream is not None:
                yield _flush(stream)
            stream_rate = block.rate
            stream = soxr.ResampleStream(block.rate, rate, 1, dtype="float32") if block.rate != rate else None
        yield block.samples if stream is None else stream.resample_chunk(block.samples)
    if stream is not None:
        yield _flush(stream)


def _flush(stream: soxr.ResampleStream) -> Float32Samples:
    tail: Float32Samples = stream.resample_chunk(np.zeros(0, dtype=np.float32), last=True)
    return tail
