"""What a user is promised of the browser's microphone: any rate, one or two channels, no click between blocks."""

import asyncio

import numpy as np
import pytest

from voice_client.errors import BadInputError
from voice_client.ui.browser_audio import BrowserMicrophone

SECONDS = 1.0
HERTZ = 440.0


def sine(rate: int, channels: int) -> np.ndarray:
    wave = 0.5 * np.sin(2 * np.pi * HERTZ * np.arange(int(rate * SECONDS)) / rate)
    return np.repeat(wave[:, None], channels, axis=1).astype("<f4")


async def heard(microphone: BrowserMicrophone) -> np.ndarray:
    async with asyncio.timeout(20), microphone.open(rate=16_000, chunk_bytes=2560) as reader:
        chunks = [chunk async for chunk in reader]
    assert all(len(chunk) == 2560 for chunk in chunks[:-1])
    return np.frombuffer(b"".join(chunks), "<i2") / 32768


@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize("rate", [8_000, 16_000, 22_050, 44_100, 48_000, 96_000])
async def test_a_tone_stays_a_clean_tone_at_every_rate_of_a_browser(rate: int, channels: int) -> None:
    microphone = BrowserMicrophone(rate=rate, channels=channels, kept_seconds=30)
    frames = sine(rate, channels)
    draw = np.random.default_rng(rate)
    at = 0
    while at < len(frames):  # blocks of uneven length, as browsers have them
        block = int(draw.integers(1, rate // 20))
        microphone.feed(frames[at : at + block].tobytes())
        at += block
    microphone.end()

    samples = await heard(microphone)

    assert len(samples) == pytest.approx(16_000 * SECONDS, abs=16)
    spectrum = np.abs(np.fft.rfft(samples[1600:14_400] * np.hanning(12_800)))
    tone = int(np.argmax(spectrum))
    assert tone * 16_000 / 12_800 == pytest.approx(HERTZ, abs=2)
    beside = np.delete(spectrum, range(tone - 8, tone + 9))
    assert 20 * np.log10(spectrum[tone] / beside.max()) > 60, (
        "clicks at the borders of blocks are heard beside the tone"
    )


async def test_two_channels_are_mixed() -> None:
    microphone = BrowserMicrophone(rate=16_000, channels=2, kept_seconds=30)
    left_only = np.zeros((1600, 2), "<f4")
    left_only[:, 0] = 0.5
    microphone.feed(left_only.tobytes())
    microphone.end()

    assert np.allclose(await heard(microphone), 0.25)


async def test_sound_that_nobody_hears_is_kept_for_a_while_and_the_newest_of_it() -> None:
    microphone = BrowserMicrophone(rate=16_000, channels=1, kept_seconds=0.5)
    for number in range(10):
        microphone.feed(np.full(1600, number / 16, "<f4").tobytes())
    microphone.end()

    samples = await heard(microphone)

    assert len(samples) == 8_000
    assert samples[0] == 5 / 16
    assert microphone.dropped_samples == 8_000


async def test_it_can_be_opened_again_and_goes_on() -> None:
    microphone = BrowserMicrophone(rate=16_000, channels=1, kept_seconds=30)
    microphone.feed(np.full(1280, 0.25, "<f4").tobytes())
    async with microphone.open(rate=16_000, chunk_bytes=2560) as reader:
        assert len(await anext(reader)) == 2560
    microphone.feed(np.full(1280, 0.5, "<f4").tobytes())
    microphone.end()

    assert np.allclose(await heard(microphone), 0.5)


@pytest.mark.parametrize(
    ("rate", "channels", "block", "problem"),
    [(100, 1, b"", "sample rate of 100"), (48_000, 3, b"", "3 channels"), (48_000, 2, bytes(12), "12 bytes")],
)
def test_what_no_browser_sends_is_refused(rate: int, channels: int, block: bytes, problem: str) -> None:
    with pytest.raises(BadInputError, match=problem):
        BrowserMicrophone(rate=rate, channels=channels, kept_seconds=1).feed(block)
