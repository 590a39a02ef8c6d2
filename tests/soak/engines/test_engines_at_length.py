"""The small engines over minutes of speech: what they hear, and that every voice and language is told apart."""

import asyncio
import itertools
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import soxr
from numpy.typing import NDArray

from tests.local.engines.test_piper import fundamental
from voice_local.engines.piper.client import PiperVoice
from voice_local.engines.piper.variants import VARIANTS
from voice_local.engines.whisper_live import WhisperLive
from voice_local.word_error_rate import normalized, word_error_rate

pytestmark = [pytest.mark.soak, pytest.mark.engines]

PASSAGES = Path(__file__).parents[2] / "local" / "engines" / "passages.txt"
PIECE = 2048
"""128 ms of 16 kHz audio."""
AT_ONCE = 3


async def spoken(voice: PiperVoice, text: str, name: str = "vivian", language: str = "English") -> NDArray[np.int16]:
    """Return PCM16 at 24 kHz."""
    pieces = [piece async for piece in voice.speak(text, voice=name, language=language, speed=1.0)]
    return np.frombuffer(b"".join(pieces), dtype="<i2")


def word_count(text: str) -> int:
    return len(normalized(text).split())


def for_the_ear(samples: NDArray[np.int16]) -> NDArray[np.int16]:
    return np.clip(soxr.resample(samples.astype(np.float32), 24_000, 16_000), -32768, 32767).astype(np.int16)


async def test_three_sessions_at_once_hear_minutes_of_speech_and_never_take_a_word_back() -> None:
    texts = PASSAGES.read_text(encoding="utf-8").splitlines()
    assert len(normalized(" ".join(texts)).split()) >= 300
    voice = PiperVoice()
    await voice.start()
    clips = [for_the_ear(await spoken(voice, text, name)) for text, name in zip(texts, itertools.cycle(VARIANTS))]
    await voice.aclose()
    whisper = await asyncio.to_thread(WhisperLive.load)

    def heard(samples: NDArray[np.int16]) -> tuple[str, int]:
        """Return the text and how many of its words came before the end."""
        session = whisper.begin()
        before = "".join(session.feed(samples[start : start + PIECE]) for start in range(0, len(samples), PIECE))
        return before + session.finish(), len(before.split())

    def whole(samples: NDArray[np.int16]) -> str:
        return "".join(whisper.words(samples.astype(np.float32) / np.float32(32768)))

    with ThreadPoolExecutor(AT_ONCE) as sessions:
        live = list(sessions.map(heard, clips))
        offline = list(sessions.map(whole, clips))
    live_rate = word_error_rate(" ".join(texts), " ".join(text for text, _ in live))
    offline_rate = word_error_rate(" ".join(texts), " ".join(offline))
    print(f"live {live_rate:.1%}, offline {offline_rate:.1%}, {sum(map(len, clips)) / 16_000:.0f} s of speech")
    assert live_rate <= 0.08
    assert live_rate <= offline_rate + 0.04
    assert all(words > 0 for _, words in live), "some words of each came before its end, however busy the model was"


async def test_a_short_answer_is_heard_once() -> None:
    """Whisper likes to say it twice when it is given little silence after it. Told without chance."""
    answers = ("Yes.", "No.", "Please.", "I am here.", "Help!", "Right.", "Next.", "Stop!")
    voice = PiperVoice(variation=0)
    await voice.start()
    clips = [for_the_ear(await spoken(voice, text, name)) for text in answers for name in ("vivian", "uncle_fu")]
    await voice.aclose()
    whisper = await asyncio.to_thread(WhisperLive.load)
    pause = np.zeros(8_000, dtype=np.int16)
    heard = []
    for clip in clips:
        session, samples = whisper.begin(), np.concatenate([pause, clip, pause, pause])
        given = [session.feed(samples[start : start + PIECE]) for start in range(0, len(samples), PIECE)]
        heard.append("".join(given) + session.finish())
    print(heard)
    said = [text for text in answers for _ in range(2)]
    twice = [text for wanted, text in zip(said, heard, strict=True) if word_count(text) > word_count(wanted)]
    assert len(twice) <= 1, heard


async def test_no_two_of_the_nine_voices_sound_the_same() -> None:
    """Told without chance: otherwise the same sentence comes out up to a tenth higher or lower from time to time."""
    text = "Nine voices say one sentence, and no two of them sound the same. This is the second sentence that they say."
    voice = PiperVoice(variation=0)
    await voice.start()
    audio = {name: await spoken(voice, text, name) for name in VARIANTS}
    await voice.aclose()
    pitch = {name: fundamental(samples, 24_000) for name, samples in audio.items()}
    print({name: f"{pitch[name]:.0f} Hz {len(samples) / 24_000:.2f} s" for name, samples in audio.items()})
    middle = pitch["vivian"]
    for name, variant in VARIANTS.items():
        assert pitch[name] / middle == pytest.approx(variant.pitch, rel=0.06), name
        assert len(audio["vivian"]) / len(audio[name]) == pytest.approx(variant.rate, rel=0.05), name


SPOKEN = {
    ("German", "de"): "Guten Morgen. Der alte Bauer hat am Montag viele grüne Flaschen auf dem Markt gekauft.",
    ("Spanish", "es"): "Buenos días. El viejo campesino compró el lunes muchas botellas verdes en el mercado.",
    ("Portuguese", "pt"): "Bom dia. O velho camponês comprou na segunda-feira muitas garrafas verdes no mercado.",
    ("Russian", "ru"): "Доброе утро. Старый крестьянин купил в понедельник на рынке много зелёных бутылок.",
}


async def test_a_language_is_nearly_taken_for_itself() -> None:
    """Whisper, asked which of its hundred languages it hears, has the right one among the first five."""
    voice = PiperVoice()
    await voice.start()
    speech = {
        key: for_the_ear(await spoken(voice, text, language=key[0])).astype(np.float32) / np.float32(32768)
        for key, text in SPOKEN.items()
    }
    await voice.aclose()
    whisper = await asyncio.to_thread(WhisperLive.load)
    for (language, code), samples in speech.items():
        _, _, ranked = whisper._model.detect_language(samples)
        assert code in [name for name, _ in ranked[:5]], f"{language}: {ranked[:5]}"
