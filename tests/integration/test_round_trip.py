"""Text to speech to text: what is spoken can be understood, through another voice than the default one too."""

from pathlib import Path

import pytest

from tests.integration.measuring import Measuring
from tests.integration.speech import CONVERSATION_SECONDS, hear, speak, unpaced
from tests.integration.stage import DeployedStage, within
from voice_client import Synthesizer, Transcriber
from voice_local.demo.sentence import spoken_sentences
from voice_local.word_error_rate import word_error_rate

pytestmark = pytest.mark.timeout(600)

WORST_ROUND_TRIP = 0.2
"""Of some thirty plain words; a voice of another pitch is harder to hear for a small engine."""


@pytest.mark.parametrize("name", ["Vivian", "Ryan"])
async def test_a_text_comes_back(stage: DeployedStage, measuring: Measuring, tmp_path: Path, name: str) -> None:
    text = spoken_sentences()
    with stage.explained("tts"):
        async with Synthesizer.connect(stage=stage.stage, voice=name, language="English") as voice:
            spoken = await within(CONVERSATION_SECONDS, speak(voice, text, measuring))
    path = spoken.save(tmp_path / "spoken.wav")
    with stage.explained("stt"):
        async with Transcriber.connect(stage=stage.stage, settings=unpaced()) as ear:
            heard = await within(CONVERSATION_SECONDS, hear(ear, path, measuring, paced=False))

    error_rate = word_error_rate(text, heard.text)
    measuring.add("wer.round_trip", "ratio", error_rate)
    assert error_rate <= WORST_ROUND_TRIP, f"said: {text}\nheard: {heard.text}"
