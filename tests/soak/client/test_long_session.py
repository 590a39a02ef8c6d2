"""Two hours of speech over streams that the platform would end after 30 minutes."""

import asyncio
import ctypes
import gc
import random
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import psutil
import pytest

from voice_client.session import Final, Notice, Transcriber
from voice_client.transport import BidiStream

pytestmark = [pytest.mark.soak, pytest.mark.timeout(400)]

MODEL = "mistralai/Voxtral-Mini-4B-Realtime-2602"


class SimulatedClock:
    """Time that jumps over every sleep and wakes up to 15 ms too late."""

    def __init__(self) -> None:
        self.time = 0.0
        self._random = random.Random(7)  # noqa: S311 - a test's own delays

    def now(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        self.time += seconds + self._random.uniform(0, 0.015)
        await asyncio.sleep(0)


async def test_two_hours(vllm_port: int, platform_for: Any, ten_minutes: Any) -> None:
    """Two hours of speech, paced by a simulated clock, through the real transport and the local data plane."""
    hours = 2.0
    hours_bytes = int(hours * 3600) * 32_000
    ten = ten_minutes(20_263)
    ten = ten[: len(ten) // 4096 * 4096]
    clock = SimulatedClock()
    process = psutil.Process()
    streams: list[float] = []

    class TwoHours:
        live = False

        @asynccontextmanager
        async def open(self, *, rate: int, chunk_bytes: int) -> AsyncIterator[AsyncIterator[bytes]]:
            async def chunks() -> AsyncIterator[bytes]:
                for at in range(0, hours_bytes, chunk_bytes):
                    place = at % len(ten)
                    yield ten[place : place + min(chunk_bytes, hours_bytes - at)]

            yield chunks()

    platform = platform_for(vllm_port)
    began = time.monotonic()
    async with platform.transport() as transport:

        async def opener() -> BidiStream:
            streams.append(clock.now())
            stream: BidiStream = await transport.open_stream("v1/realtime")
            return stream

        async with Transcriber(opener, model=MODEL, clock=clock, max_model_len=16_384) as ear:
            gc.collect()
            ctypes.CDLL(None).malloc_trim(0)  # what tests before this one freed is not there to be used
            before = most = process.memory_info().rss
            final: Final | None = None
            started = clock.now()
            async for event in ear.transcribe(TwoHours()):
                most = max(most, process.memory_info().rss)
                assert not isinstance(event, Notice), event.message
                if isinstance(event, Final):
                    final = event
    assert final is not None
    took = clock.now() - started
    lives = np.diff([*streams, clock.now()])
    print(
        f"{len(streams)} streams, longest {max(lives) / 60:.1f} min; memory +{(most - before) / 1e6:.1f} MB; "
        f"drift {(took - final.metrics.audio_seconds) * 1000:.1f} ms; {time.monotonic() - began:.0f} s of real time"
    )
    assert final.metrics.audio_seconds == hours * 3600
    assert final.metrics.retries == 0
    # A stream lives 30 minutes at most; each of the rollovers lost nothing: every 240 ms has its word.
    assert len(streams) >= 5
    assert max(lives) < 30 * 60
    assert len(final.text.split()) >= hours * 3600 / 0.24 - 2 * 30
    assert most - before < 20e6
    assert abs(took - final.metrics.audio_seconds) < 0.05
