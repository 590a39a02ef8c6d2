"""A client of the stand-in's `/v1/realtime` that speaks at the speed of life and notes when each text came."""

import asyncio
import base64
import json
import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from websockets.asyncio.client import connect

MODEL = "mistralai/Voxtral-Mini-4B-Realtime-2602"
RATE = 16_000
PIECE = 2048
"""Samples of one message: 128 ms, what the client sends."""
AUDIBLE = 800
"""Amplitude of PCM16 from which a sample counts as heard (-32 dB)."""
LONGEST_TAIL_SECONDS = 60.0
"""How long after the end of its audio a session may still take before it has failed."""


@dataclass(frozen=True)
class LiveSession:
    """What one utterance gave; seconds."""

    text: str
    first_delta: float
    """From sending the first audible sample to the first text."""
    final: float
    """From sending the final commit to `transcription.done`."""
    seconds: float
    """Length of the audio."""


async def live_session(url: str, samples: NDArray[np.int16]) -> LiveSession:
    """Speak 16 kHz audio into a server, paced as somebody speaks, and wait for its final text."""
    onset = int(np.argmax(np.abs(samples.astype(np.int32)) > AUDIBLE)) // PIECE * PIECE
    heard_at = finished_at = first_at = 0.0
    text = ""
    length = len(samples) / RATE
    async with asyncio.timeout(length + LONGEST_TAIL_SECONDS), connect(url, compression=None, proxy=None) as stream:
        await stream.recv()
        await stream.send(json.dumps({"type": "session.update", "model": MODEL}))
        await stream.send(json.dumps({"type": "input_audio_buffer.commit"}))

        async def speak() -> None:
            nonlocal heard_at, finished_at
            began = time.perf_counter()
            for start in range(0, len(samples), PIECE):
                if start == onset:
                    heard_at = time.perf_counter()
                audio = base64.b64encode(samples[start : start + PIECE].tobytes()).decode()
                await stream.send(json.dumps({"type": "input_audio_buffer.append", "audio": audio}))
                await asyncio.sleep(max(0.0, began + (start + PIECE) / RATE - time.perf_counter()))
            finished_at = time.perf_counter()
            await stream.send(json.dumps({"type": "input_audio_buffer.commit", "final": True}))

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(speak())
            while (event := json.loads(await stream.recv()))["type"] == "transcription.delta":
                first_at = first_at or (time.perf_counter() if event["delta"] else 0.0)
                text += event["delta"]
    done_at = time.perf_counter()
    if event["type"] != "transcription.done" or event["text"] != text:
        raise AssertionError(f"the deltas are not the final text, or there is none: {event['type']}")
    return LiveSession(text, (first_at or done_at) - heard_at, done_at - finished_at, length)
