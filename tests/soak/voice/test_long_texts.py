"""Two thousand words in each of the ten languages: every sentence spoken once, in order, none over the limits."""

import asyncio
import json
import random
from typing import Any

import pytest

from voice_client.session import SpeechChunk, Synthesizer, SynthesizerSettings

pytestmark = pytest.mark.soak

MODEL = "Qwen/Qwen3-TTS-12Hz-1.7B-CustomVoice"
WORDS = 2000
LONGEST = 500

LETTERS = {
    "en": "etaoinshrdlu",
    "de": "enirstadhu\u00e4\u00f6\u00fc",
    "fr": "esaitnrul\u00e9\u00e8\u00e0",
    "es": "eaosrnidl\u00f1\u00f3",
    "pt": "aeosrindm\u00e3\u00e7",
    "it": "eaionlrtsc\u00f2",
    "ru": "\u043e\u0435\u0430\u0438\u043d\u0442\u0441\u0440\u0432\u043b",
    "ko": "\uac00\ub098\ub2e4\ub77c\ub9c8\ubc14\uc0ac\uc544\uc790\ucc28",
    "zh": "\u7684\u4e00\u662f\u4e0d\u4e86\u4eba\u6211\u5728\u6709\u4ed6\u8fd9\u4e2d",
    "ja": "\u306e\u306b\u306f\u3092\u305f\u304c\u3067\u3066\u3068\u3057\u65e5\u672c",
}
"""Frequent letters, of which words are made up."""

ABBREVIATIONS = {
    "en": "Dr.", "de": "z.B.", "fr": "Mme.", "es": "Sra.", "pt": "Exma.", "it": "Sig.", "ru": "\u0442.\u0434.",
}  # fmt: skip


def text_in(language: str, draw: random.Random) -> tuple[str, list[str]]:
    """Return a text of two thousand words and its sentences: of 1 to 30 words, with abbreviations, decimals, commas."""
    spaceless = language in {"zh", "ja"}
    full_stop, comma, space = ("\u3002", "\uff0c", "") if spaceless else (".", ", ", " ")
    sentences, words = [], 0
    while words < WORDS:
        count = draw.randrange(2, 30)
        parts = ["".join(draw.choices(LETTERS[language], k=draw.randrange(3, 9))) for _ in range(count)]
        parts[-1] = "".join(draw.choices(LETTERS[language], k=10))  # too long to be taken for an abbreviation
        for at in range(1, count - 1):
            if draw.random() < 0.06:
                parts[at] = "3.14" if draw.random() < 0.5 else ABBREVIATIONS.get(language, parts[at])
        joined = parts[0]
        for part in parts[1:]:
            joined += (comma if draw.random() < 0.1 else space) + part
        end = full_stop if draw.random() < 0.8 else draw.choice("\uff01\uff1f" if spaceless else "!?")
        sentences.append(joined[0].upper() + joined[1:] + end)
        words += count
    return (" " if not spaceless else "").join(sentences), sentences


@pytest.mark.timeout(120)
@pytest.mark.parametrize("known", [True, False])
async def test_every_sentence_once_and_in_order(mouth: Any, known: bool) -> None:
    async with mouth.transport() as transport:
        for language in LETTERS:
            text, sentences = text_in(language, random.Random(7))  # noqa: S311 - words of a test
            sent: list[str] = []
            opener = observed(mouth.opener(transport), sent)
            settings = SynthesizerSettings(longest_sentence=LONGEST)
            code = language if known else None
            async with Synthesizer(opener, model=MODEL, language=code, settings=settings) as voice:
                speech = voice.open_speech()
                feeding = asyncio.create_task(feed(speech, text))
                size: dict[int, int] = {}
                order = []
                async with asyncio.timeout(60):
                    async for event in speech:
                        assert isinstance(event, SpeechChunk)
                        order.append(event.sentence)
                        size[event.sentence] = size.get(event.sentence, 0) + len(event.pcm)
                await feeding
            assert order == sorted(order)
            assert sent == list(speech.sentences) == sentences, language
            assert max(map(len, sent)) <= LONGEST
            assert size == {number: 12_000 * len(each.split()) for number, each in enumerate(sent)}
            assert speech.metrics.retries == 0


async def feed(speech: Any, text: str) -> None:
    """Push a text in pieces of a few letters, as a language model writes it."""
    for at in range(0, len(text), 7):
        speech.push_text(text[at : at + 7])
        if at % 700 == 0:
            await asyncio.sleep(0)
    speech.end()


def observed(opener: Any, sent: list[str]) -> Any:
    """Note the texts that are asked for."""

    async def open_stream() -> Any:
        stream = await opener()
        send = stream.send_text

        async def send_text(message: str, /) -> None:
            event = json.loads(message)
            if event["type"] == "input.text":
                sent.append(event["text"])
            await send(message)

        stream.send_text = send_text
        return stream

    return open_stream
