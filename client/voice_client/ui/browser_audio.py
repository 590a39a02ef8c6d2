"""A browser's microphone as a source of audio: any sample rate, one or two channels, one resampler for all of it."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

import numpy as np
import soxr

from voice_client.audio.pcm import Float32Samples, to_pcm16
from voice_client.audio.source import PcmReader
from voice_client.errors import BadInputError

SAMPLE_RATES_HZ = (3_000, 768_000)
"""What the Web Audio specification lets a browser's context run at."""


class BrowserMicrophone:
    """Sound as the page sends it, until `end`; may be opened again after a failure and goes on with what came since.

    Args:
        rate: the browser's samples per second.
        channels: 1 or 2; two are mixed.
        kept_seconds: sound that waits at most to be read; the oldest beyond it is dropped.

    Raises:
        BadInputError: a rate or a number of channels that no browser has.
    """

    live = True

    def __init__(self, *, rate: int, channels: int, kept_seconds: float) -> None:
        lowest, highest = SAMPLE_RATES_HZ
        if not lowest <= rate <= highest:
            raise BadInputError(f"a sample rate of {rate} Hz is not within {lowest} to {highest} Hz")
        if channels not in {1, 2}:
            raise BadInputError(f"{channels} channels are not 1 or 2")
        self._rate = rate
        self._channels = channels
        self._limit = int(kept_seconds * rate)
        self._blocks: deque[Float32Samples] = deque()
        self._waiting = 0
        """Samples in the blocks."""
        self.dropped_samples = 0
        """Samples (at the browser's rate) that were dropped because nobody read them."""
        self._ended = False
        self._more = asyncio.Event()

    def feed(self, data: bytes) -> None:
        """Take a block of float32 little-endian, interleaved, full scale 1.0.

        Raises:
            BadInputError: not a whole number of samples of all channels.
        """
        if len(data) % (4 * self._channels):
            raise BadInputError(f"a block of {len(data)} bytes is not whole samples of {self._channels} channels")
        samples: Float32Samples = np.frombuffer(data, dtype="<f4").astype(np.float32)
        if self._channels == 2:
            samples = samples.reshape(-1, 2).mean(axis=1, dtype=np.float32)
        self._blocks.append(samples)
        self._waiting += len(samples)
        while self._waiting > self._limit and len(self._blocks) > 1:
            self.dropped_samples += self._take_block().size
        self._more.set()

    def end(self) -> None:
        """Say that no sound follows; what came until now is still heard."""
        self._ended = True
        self._more.set()

    def forget(self) -> None:
        """Drop the sound that nobody has read yet."""
        while self._blocks:
            self.dropped_samples += self._take_block().size

    @asynccontextmanager
    async def open(self, *, rate: int, chunk_bytes: int) -> AsyncGenerator[PcmReader]:
        """See `AudioSource.open`."""
        yield _Resampled(self, self._rate, rate, chunk_bytes)

    async def next_block(self) -> Float32Samples | None:
        """Return the next samples at the browser's rate, mixed to one channel; None at the end."""
        while not self._blocks:
            if self._ended:
                return None
            self._more.clear()
            await self._more.wait()
        return self._take_block()

    def _take_block(self) -> Float32Samples:
        block = self._blocks.popleft()
        self._waiting -= block.size
        return block


class _Resampled:
    """The microphone's blocks as chunks of the wanted rate and length; a cancelled `anext` loses nothing."""

    def __init__(self, microphone: BrowserMicrophone, native: int, rate: int, chunk_bytes: int) -> None:
        self._microphone = microphone
        # One stream for all blocks: resampled each by itself they would click at every border.
        self._stream = soxr.ResampleStream(native, rate, 1, dtype="float32") if native != rate else None
        self._chunk_bytes = chunk_bytes
        self._held = bytearray()
        self._ended = False

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        while len(self._held) < self._chunk_bytes and not self._ended:
            block = await self._microphone.next_block()
            self._ended = block is None
            samples = np.zeros(0, dtype=np.float32) if block is None else block
            if self._stream is not None:
                samples = self._stream.resample_chunk(samples, last=self._ended)
            self._held += to_pcm16(samples)
        chunk = bytes(self._held[: self._chunk_bytes])
        del self._held[: self._chunk_bytes]
        if not chunk:
            raise StopAsyncIteration
        return chunk
