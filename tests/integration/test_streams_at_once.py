"""Two callers at once: neither waits for the other, and nobody gets the other's words."""

import asyncio

import pytest

from tests.e2e.deployed_cloud import RECORDINGS
from tests.integration.measuring import Measuring
from tests.integration.speech import CONVERSATION_SECONDS, SHORTEST, TRANSCRIPTS, hear, speak, unpaced
from tests.integration.stage import DeployedStage
from voice_client import Synthesizer, Transcriber
from voice_local.demo.sentence import spoken_sentences
from voice_local.word_error_rate import word_error_rate

pytestmark = pytest.mark.timeout(600)

SHARE_OF_MISHEARD = 0.35
"""Of one short recording; what is asked here is that the words are its own."""

TWO_EARS, TWO_VOICES, BESIDE = "stt.two_at_once", "tts.two_at_once", "stt.beside_two_voices"
"""Names of the figures: they are not to be mixed with those of streams alone."""


async def test_two_recordings_are_heard_at_once(stage: DeployedStage, measuring: Measuring) -> None:
    names = sorted(TRANSCRIPTS)[-2:]

    async def hear_one(name: str) -> str:
        async with Transcriber.connect(stage=stage.stage) as ear:
            return (await hear(ear, RECORDINGS / name, measuring, paced=True, name=TWO_EARS)).text

    with stage.explained("stt"):
        async with asyncio.timeout(CONVERSATION_SECONDS):
            texts = await asyncio.gather(*(hear_one(name) for name in names))

    for name, text in zip(names, texts, strict=True):
        assert word_error_rate(TRANSCRIPTS[name], text) <= SHARE_OF_MISHEARD, (name, text)


async def test_two_texts_are_spoken_while_one_recording_is_heard(stage: DeployedStage, measuring: Measuring) -> None:
    sentences = [spoken_sentences(), spoken_sentences()]

    async def speak_one(text: str) -> float:
        async with Synthesizer.connect(stage=stage.stage) as voice:
            return (await speak(voice, text, measuring, name=TWO_VOICES)).seconds

    async def hear_one() -> str:
        async with Transcriber.connect(stage=stage.stage, settings=unpaced()) as ear:
            return (await hear(ear, SHORTEST, measuring, paced=False, name=BESIDE)).text

    with stage.explained("stt", "tts"):
        async with asyncio.timeout(CONVERSATION_SECONDS), asyncio.TaskGroup() as group:
            spoken = [group.create_task(speak_one(sentence)) for sentence in sentences]
            heard = group.create_task(hear_one())

    assert all(one.result() > 1.0 for one in spoken)
    assert word_error_rate(TRANSCRIPTS[SHORTEST.name], heard.result()) <= SHARE_OF_MISHEARD, heard.result()
