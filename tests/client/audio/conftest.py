"""Audio files made at test time."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import av
import numpy as np
import pytest

from voice_client.audio import AudioFile, RawFormat


@pytest.fixture
def make_tone(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that writes a file with a sine tone, the same on all channels."""

    def make(
        name: str,
        *,
        codec: str,
        rate: int = 44_100,
        channels: int = 2,
        seconds: float = 2.0,
        hertz: float = 1000.0,
        amplitude: float = 0.5,
        container: str | None = None,
    ) -> Path:
        path = tmp_path / name
        layout = {1: "mono", 2: "stereo", 6: "5.1"}[channels]
        with av.open(str(path), "w", format=container) as output:
            stream = output.add_stream(codec, rate=rate, layout=layout)
            wave = amplitude * np.sin(2 * np.pi * hertz * np.arange(int(seconds * rate)) / rate)
            frame = av.AudioFrame.from_ndarray(
                np.tile(wave.astype(np.float32), (channels, 1)), format="fltp", layout=layout
            )
            frame.sample_rate = rate
            size = stream.codec_context.frame_size or 4096
            resampler = av.AudioResampler(format=stream.codec_context.format, layout=layout, rate=rate, frame_size=size)
            for piece in [*resampler.resample(frame), *resampler.resample(None)]:
                for packet in stream.encode(piece):
                    output.mux(packet)
            for packet in stream.encode(None):
                output.mux(packet)
        return path

    return make


@pytest.fixture
def read_samples() -> Callable[..., np.ndarray]:
    """Return a function that reads a file the way a session does, as float samples at 16 kHz."""

    def read(path: Path | str, *, chunk_bytes: int = 4096, raw: RawFormat | None = None) -> np.ndarray:
        async def collect() -> list[bytes]:
            async with AudioFile(path, raw).open(rate=16_000, chunk_bytes=chunk_bytes) as reader:
                return [chunk async for chunk in reader]

        chunks = asyncio.run(collect())
        assert all(len(chunk) == chunk_bytes for chunk in chunks[:-1])
        return np.frombuffer(b"".join(chunks), dtype="<i2") / 32768.0

    return read
