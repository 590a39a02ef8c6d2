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


def fundamental(audio: NDArray[np.int16], rate: int) -> float:
    """Return the median pitch in Hz of what is voiced: the lag at which each loud 40 ms repeat themselves best."""
    size = rate // 25
    frames = audio[: len(audio) // size * size].reshape(-1, size).astype(np.float64)
    loud = frames[frames.std(axis=1) > 0.5 * frames.std()]
    pitches = []
    for frame in loud - loud.mean(axis=1, keepdims=True):
        likeness = np.correlate(frame, frame, "full")[size - 1 :]
        lags = likeness[rate // 300 : rate // 60] / likeness[0]
        if lags.max() > 0.6:
            pitches.append(rate / (rate // 300 + int(lags.argmax())))
    return float(np.median(pitches))


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


async def test_the_voices_differ_in_pitch_and_rate() -> None:
    """Told without chance: otherwise one telling comes out up to a tenth higher or lower than the next."""
    voice = PiperVoice(variation=0)
    await voice.start()
    text = "Nine voices say one sentence, and no two of them sound the same."
    names = ("vivian", "uncle_fu", "ryan", "sohee")  # the middle of both scales, and their ends
    audio = {name: samples(await spoken(voice, text, name)) for name in names}
    await voice.aclose()
    pitch = {name: fundamental(sound, 24000) for name, sound in audio.items()}
    assert pitch["uncle_fu"] < 0.92 * pitch["vivian"]
    assert pitch["sohee"] > 1.06 * pitch["vivian"]
    assert len(audio["ryan"]) < 0.95 * len(audio["vivian"]) < 0.95 * 0.97 * len(audio["sohee"])
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


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("German", "Guten Morgen. Wie geht es Ihnen?"),
        ("Russian", "Доброе утро. Как дела?"),
        ("Chinese", "早上好。你今天怎么样。"),
        ("Korean", "안녕하세요. 오늘은 어떠세요?"),
    ],
)
async def test_other_languages_have_a_voice_of_their_own(voice: PiperVoice, language: str, text: str) -> None:
    pieces = [piece async for piece in voice.speak(text, voice="vivian", language=language, speed=1.0)]
    audio = samples(pieces)
    assert 1.0 < len(audio) / 24000 < 5.0
    assert np.abs(audio.astype(np.int32)).max() > 3000
    faster = [piece async for piece in voice.speak(text, voice="vivian", language=language, speed=2.0)]
    assert len(samples(faster)) < 0.8 * len(audio)


async def test_a_language_without_a_voice_is_refused_by_name(voice: PiperVoice) -> None:
    with pytest.raises(UnsupportedSpeechError, match=r"do not speak Japanese; they speak English, Chinese, .*German"):
        await anext(voice.speak("おはようございます。", voice="vivian", language="Japanese", speed=1.0))


async def test_text_without_words_gives_little_or_nothing(voice: PiperVoice) -> None:
    assert await spoken(voice, "  ") == []
    assert len(samples(await spoken(voice, "\N{GRINNING FACE}"))) < 3 * 24000


async def test_a_voice_that_is_none_is_refused(tmp_path: Path) -> None:
    broken = tmp_path / "voice.onnx"
    broken.write_bytes(b"no model")
    with pytest.raises(EngineUnavailableError, match=r"no description voice\.onnx\.json beside it"):
        PiperVoice(voice_model=broken)
    (tmp_path / "voice.onnx.json").write_text('{"audio": {}}', encoding="utf-8")
    with pytest.raises(EngineUnavailableError, match="sample_rate"):
        PiperVoice(voice_model=broken)
    (tmp_path / "voice.onnx.json").write_text('{"audio": {"sample_rate": 22050}}', encoding="utf-8")
    with pytest.raises(EngineUnavailableError, match="cannot load its voice"):
        await PiperVoice(voice_model=broken).start()
    with pytest.raises(EngineUnavailableError, match="no Piper voice at"):
        PiperVoice(voice_model=tmp_path / "absent.onnx")
