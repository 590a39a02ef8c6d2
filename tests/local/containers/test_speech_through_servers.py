"""Real speech through the stand-ins as processes: human recordings to text, and text to speech and back."""

import asyncio
import base64
import json
import random
import time
import wave
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soxr
from numpy.typing import NDArray
from websockets.asyncio.client import connect

from tests.local.engines.no_speech import NO_SPEECH
from voice_local.word_error_rate import word_error_rate

pytestmark = pytest.mark.engines

RECORDINGS = Path(__file__).parents[2] / "recordings"
VOXTRAL = "mistralai/Voxtral-Mini-4B-Realtime-2602"
PIECE = 2048
"""128 ms of audio."""
TIMES_REAL_TIME = 3


@pytest.fixture(scope="module")
def ear(vllm_server: Callable[..., AbstractContextManager[Any]]) -> Iterator[Any]:
    with vllm_server("0.27", engine="whisper") as server:
        yield server


@pytest.fixture(scope="module")
def voice(omni_server: Callable[..., AbstractContextManager[Any]]) -> Iterator[Any]:
    with omni_server("piper") as server:
        yield server


@dataclass(frozen=True)
class Heard:
    text: str
    deltas: list[str]
    words_before_the_end: int


def recording(name: str) -> NDArray[np.int16]:
    with wave.open(str(RECORDINGS / name)) as file:
        return np.frombuffer(file.readframes(file.getnframes()), dtype="<i2")


async def hear(server: Any, samples: NDArray[np.int16], times_real_time: float = TIMES_REAL_TIME) -> Heard:
    deltas: list[str] = []
    before_the_end = 0
    async with connect(server.url("/v1/realtime"), compression=None) as stream, asyncio.timeout(60):
        await stream.recv()
        await stream.send(json.dumps({"type": "session.update", "model": VOXTRAL}))
        await stream.send(json.dumps({"type": "input_audio_buffer.commit"}))

        async def speak() -> None:
            nonlocal before_the_end
            began = time.monotonic()
            for start in range(0, len(samples), PIECE):
                audio = base64.b64encode(samples[start : start + PIECE].tobytes()).decode()
                await stream.send(json.dumps({"type": "input_audio_buffer.append", "audio": audio}))
                due = began + (start + PIECE) / 16000 / times_real_time
                await asyncio.sleep(max(0.0, due - time.monotonic()))
            before_the_end = len("".join(deltas).split())
            await stream.send(json.dumps({"type": "input_audio_buffer.commit", "final": True}))

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(speak())
            while (event := json.loads(await stream.recv()))["type"] == "transcription.delta":
                deltas.append(event["delta"])
    assert event["type"] == "transcription.done", event
    assert event["usage"]["completion_tokens"] == len(deltas)
    return Heard(event["text"], deltas, before_the_end)


async def test_human_recordings_become_text_while_they_are_read(ear: Any) -> None:
    transcripts: dict[str, str] = json.loads((RECORDINGS / "transcripts.json").read_text(encoding="utf-8"))
    texts = []
    words_before_the_end = 0
    for name in transcripts:
        samples = recording(name)
        heard = await hear(ear, samples)
        assert "".join(heard.deltas) == heard.text
        assert len(heard.deltas) >= len(samples) // 1280
        texts.append(heard.text)
        words_before_the_end += heard.words_before_the_end
    spoken = " ".join(transcripts.values())
    assert word_error_rate(spoken, " ".join(texts)) <= 0.08
    # How many depends on how busy the machine is; that there are some is what live means.
    assert words_before_the_end >= 5


async def test_minutes_of_silence_noise_and_tones_hold_no_words(ear: Any) -> None:
    for name in ("silence", "soft noise", "rumble", "chord"):
        heard = await hear(ear, NO_SPEECH[name], times_real_time=1000)
        assert heard.text == "", name
        assert not any(heard.deltas)


async def test_a_caller_that_breaks_off_takes_no_word_from_two_others(ear: Any) -> None:
    transcripts: dict[str, str] = json.loads((RECORDINGS / "transcripts.json").read_text(encoding="utf-8"))
    names = sorted(transcripts, key=lambda name: (RECORDINGS / name).stat().st_size)[:2]

    async def break_off() -> None:
        stream = await connect(ear.url("/v1/realtime"), compression=None)
        for event in ({"type": "session.update", "model": VOXTRAL}, {"type": "input_audio_buffer.commit"}):
            await stream.send(json.dumps(event))
        audio = base64.b64encode(recording(names[1])[:32_000].tobytes()).decode()
        await stream.send(json.dumps({"type": "input_audio_buffer.append", "audio": audio}))
        async with asyncio.timeout(60):
            while json.loads(await stream.recv())["type"] != "transcription.delta":
                pass
        stream.transport.abort()

    async with asyncio.TaskGroup() as callers:
        heard = {name: callers.create_task(hear(ear, recording(name))) for name in names}
        callers.create_task(break_off())
    for name, one in heard.items():
        assert word_error_rate(transcripts[name], one.result().text) <= 0.25, one.result().text


async def test_what_is_spoken_is_understood(ear: Any, voice: Any) -> None:
    chance = random.SystemRandom()
    # Three sentences: over them, one word that the small engines mishear is a few per cent.
    sentence = " ".join(
        f"{chance.choice(['Several', 'Many', 'Some'])} {chance.choice(['small', 'empty', 'wooden'])} "
        f"{chance.choice(['boats', 'houses', 'chairs'])} stood {chance.choice(['behind', 'beside', 'before'])} the "
        f"{chance.choice(['school', 'castle', 'mountain'])}, and {chance.choice(['nobody', 'everybody'])} "
        f"{chance.choice(['remembered', 'noticed', 'wanted'])} them this {chance.choice(['summer', 'winter', 'year'])}."
        for _ in range(3)
    )
    pieces: list[bytes] = []
    async with connect(voice.url("/v1/audio/speech/stream"), compression=None) as stream, asyncio.timeout(30):
        config = {"type": "session.config", "voice": "Vivian", "language": "English"}
        await stream.send(json.dumps({**config, "response_format": "pcm", "stream_audio": True}))
        await stream.send(json.dumps({"type": "input.text", "text": sentence}))
        await stream.send(json.dumps({"type": "input.done"}))
        assert json.loads(await stream.recv())["type"] == "audio.start"
        while isinstance(received := await stream.recv(), bytes):
            pieces.append(received)
        done = json.loads(received)
    assert (done["type"], done["error"], done["total_bytes"]) == ("audio.done", False, sum(map(len, pieces)))
    assert len(pieces) > 10
    speech = np.frombuffer(b"".join(pieces), dtype="<i2")
    assert len(speech) / 24000 == pytest.approx(len(sentence) / 15, rel=0.5)
    heard = await hear(ear, soxr.resample(speech, 24000, 16000), times_real_time=10)
    assert word_error_rate(sentence, heard.text) <= 0.15
