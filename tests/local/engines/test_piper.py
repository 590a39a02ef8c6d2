"""The Piper voice: early sound, a worker of its own, and speech that Whisper understands."""

import asyncio
import itertools
import time
from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import psutil
import pytest
import pytest_asyncio
import soxr
from numpy.typing import NDArray

from voice_local.engines.interfaces import EngineError, EngineUnavailableError, UnsupportedSpeechError
from voice_local.engines.piper.client import PiperVoice
from voice_local.engines.piper.variants import VARIANTS
from voice_local.engines.whisper_live import WhisperLive
from voice_local.word_error_rate import word_error_rate

pytestmark = [pytest.mark.engines, pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def voice() -> AsyncIterator[PiperVoice]:
    engine = PiperVoice()
    await engine.start()
    yield engine
    await engine.aclose()


async def spoken(voice: PiperVoice, text: str, name: str = "vivian", speed: float = 1.0) -> list[bytes]:
    return [piece async for piece in voice.speak(text, voice=name, language="English", speed=speed)]


def samples(pieces: list[bytes]) -> NDArray[np.int16]:
    return np.frombuffer(b"".join(pieces), dtype="<i2")


def workers() -> set[psutil.Process]:
    return {
        child
        for child in psutil.Process().children()
        if child.status() != psutil.STATUS_ZOMBIE and "piper.worker" in " ".join(child.cmdline())
    }


async def test_a_sentence_comes_in_many_pieces_and_is_understood(
    voice: PiperVoice, whisper: WhisperLive, sentences: list[str]
) -> None:
    heard = []
    for sentence in sentences:
        pieces = await spoken(voice, sentence)
        assert {len(piece) for piece in pieces[:-1]} == {7680}
        assert len(pieces) > 10
        audio = soxr.resample(samples(pieces).astype(np.float32) / 32768, 24000, 16000)
        heard.append("".join(whisper.words(audio)))
    assert word_error_rate(" ".join(sentences), " ".join(heard)) <= 0.15


async def test_the_first_piece_comes_long_before_the_last(voice: PiperVoice, sentence: str) -> None:
    began = time.monotonic()
    speech = voice.speak(" ".join([sentence] * 2), voice="vivian", language="Auto", speed=1.0)
    arrivals = [time.monotonic() - began async for _ in speech]
    assert arrivals[0] < arrivals[-1] / 2


async def test_the_voices_differ_in_pitch_and_rate(voice: PiperVoice) -> None:
    text = "Nine voices say one sentence, and no two of them sound the same."
    heard = {}
    for name in ("ono_anna", "uncle_fu", "ryan", "sohee"):  # the ends of both scales
        audio = samples(await spoken(voice, text, name)).astype(np.float64)
        spectrum = np.abs(np.fft.rfft(audio)) ** 2
        hertz = np.fft.rfftfreq(len(audio), 1 / 24000)
        heard[name] = (float((spectrum * hertz).sum() / spectrum.sum()), len(audio) / 24000)
    assert heard["ono_anna"][0] > heard["uncle_fu"][0] * 1.1
    assert heard["ryan"][1] < heard["sohee"][1]
    pairs = itertools.combinations(VARIANTS.values(), 2)
    assert all(abs(a.pitch - b.pitch) > 0.03 or abs(a.rate - b.rate) > 0.07 for a, b in pairs)


async def test_speed_changes_the_length(voice: PiperVoice) -> None:
    text = "The quick brown fox jumps over the lazy dog."
    assert len(samples(await spoken(voice, text, speed=2.0))) < 0.7 * len(samples(await spoken(voice, text)))


async def test_two_streams_share_one_worker(voice: PiperVoice) -> None:
    first, second = await asyncio.gather(spoken(voice, "One, two, three."), spoken(voice, "Four, five, six."))
    assert min(len(samples(first)), len(samples(second))) > 24000 // 2
    assert len(workers()) == 1


async def test_a_listener_that_leaves_does_not_disturb_the_next(voice: PiperVoice) -> None:
    speech = voice.speak("A long sentence that nobody will hear to its end.", voice="eric", language="Auto", speed=1.0)
    await anext(speech)
    await speech.aclose()
    alone = len(samples(await spoken(voice, "Yes.")))
    assert 0.1 < alone / 24000 < 2.0


async def test_a_worker_that_dies_is_reported_and_replaced(voice: PiperVoice) -> None:
    (worker,) = workers()
    worker.suspend()
    speaking = asyncio.create_task(spoken(voice, "This will not be heard."))
    await asyncio.sleep(0.1)
    worker.kill()
    with pytest.raises(EngineError, match="ended"):
        await speaking
    assert len(samples(await spoken(voice, "This will."))) > 0
    (replacement,) = workers()
    assert replacement != worker


async def test_nothing_is_left_after_closing() -> None:
    before = workers()
    engine = PiperVoice()
    await engine.start()
    (worker,) = workers() - before
    await engine.aclose()
    assert not worker.is_running()


async def test_other_languages_are_refused_by_name(voice: PiperVoice) -> None:
    with pytest.raises(UnsupportedSpeechError, match="German"):
        await anext(voice.speak("Guten Tag.", voice="vivian", language="German", speed=1.0))


async def test_text_without_words_gives_little_or_nothing(voice: PiperVoice) -> None:
    assert await spoken(voice, "  ") == []
    assert len(samples(await spoken(voice, "\N{GRINNING FACE}"))) < 3 * 24000


async def test_a_voice_that_is_none_is_refused(tmp_path: Path) -> None:
    broken = tmp_path / "voice.onnx"
    broken.write_bytes(b"no model")
    with pytest.raises(EngineUnavailableError, match="cannot load its voice"):
        await PiperVoice(voice_model=broken).start()
    with pytest.raises(EngineUnavailableError, match="no Piper voice at"):
        PiperVoice(voice_model=tmp_path / "absent.onnx")
