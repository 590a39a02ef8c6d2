"""One WebSocket on `/v1/realtime`: what vLLM's front-end does, its traps included."""

import asyncio
import base64
import binascii
import json
import logging
import time
import uuid
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

import numpy as np
from fastapi import WebSocket, WebSocketDisconnect

from voice_local.containers.stand_in_vllm import events
from voice_local.containers.stand_in_vllm.releases import Release
from voice_local.engines.interfaces import STT_SAMPLE_RATE, Samples, Transcriber, Transcription

STEP_SAMPLES = STT_SAMPLE_RATE * 80 // 1000
"""Voxtral Realtime makes one token, and the server one delta, per 80 ms of audio (1280 samples)."""

_log = logging.getLogger(__name__)


class EngineDeadError(Exception):
    """The engine is gone, as vLLM 0.17's is after a session reached the model's length limit."""


@dataclass(frozen=True, slots=True)
class RealtimeService:
    """What all sessions of one server share."""

    release: Release
    served_model_names: tuple[str, ...]
    max_model_len: int
    """Tokens of 80 ms in one utterance."""
    transcriber: Transcriber
    executor: Executor
    """Runs the engine, so that the event loop never waits for it."""
    on_engine_death: Callable[[], None]


class RealtimeSession:
    """Serves one client until it leaves."""

    def __init__(self, websocket: WebSocket, service: RealtimeService) -> None:
        self._websocket = websocket
        self._service = service
        self._validated = False
        self._audio: asyncio.Queue[Samples | None] = asyncio.Queue()
        self._generation: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Answer messages until the client closes or sends a binary frame.

        A binary frame ends the session with no event and, as the caller sends none, no close frame.
        There is no idle limit: no release of vLLM has one.
        """
        await self._websocket.accept()
        await self._send(events.session_created(f"sess-{uuid.uuid4().hex}", int(time.time())))
        try:
            async with asyncio.TaskGroup() as tasks:
                while (message := await self._receive_text()) is not None:
                    await self._answer(message, tasks)
                if self._generation is not None:
                    self._generation.cancel()
        except* WebSocketDisconnect:
            _log.info("The client left")
        except* EngineDeadError:
            _log.error("The engine died: an utterance reached max_model_len (%d)", self._service.max_model_len)
            self._service.on_engine_death()

    async def _receive_text(self) -> str | None:
        message = await self._websocket.receive()
        if message["type"] == "websocket.disconnect":
            return None
        text: str | None = message.get("text")
        return text

    async def _send(self, event: dict[str, Any]) -> None:
        await self._websocket.send_text(json.dumps(event))

    async def _answer(self, message: str, tasks: asyncio.TaskGroup) -> None:
        try:
            event = json.loads(message)
        except json.JSONDecodeError:
            await self._send(events.error("Invalid JSON", "invalid_json"))
            return
        try:
            await self._handle(event, tasks)
        except WebSocketDisconnect:
            raise
        except Exception as problem:  # noqa: BLE001 - vLLM reports whatever its handler raised, in these words
            await self._send(events.error(str(problem), "processing_error"))

    async def _handle(self, event: Any, tasks: asyncio.TaskGroup) -> None:
        kind = event.get("type")
        if kind == "session.update":
            await self._update_session(event)
        elif kind == "input_audio_buffer.append":
            await self._append(events.InputAudioBufferAppend(**event))
        elif kind == "input_audio_buffer.commit":
            await self._commit(event, tasks)
        else:
            await self._send(events.error(f"Unknown event type: {kind}", "unknown_event"))

    async def _update_session(self, event: dict[str, Any]) -> None:
        if self._service.release.validates_session_update and not event.get("model"):
            await self._send(events.error("Missing required field: model", "invalid_event"))
            return
        model = event["model"]
        if self._service.release.checks_model and model not in self._service.served_model_names:
            await self._send(events.error(f"The model `{model}` does not exist.", "model_not_found"))
            return
        self._validated = True

    async def _append(self, event: events.InputAudioBufferAppend) -> None:
        try:
            samples = np.frombuffer(base64.b64decode(event.audio), dtype="<i2")
        except (binascii.Error, ValueError):
            samples = np.zeros(0, dtype="<i2")
        if not len(samples):
            await self._send(events.error("Invalid audio data", "invalid_audio"))
            return
        self._audio.put_nowait(samples)

    async def _commit(self, event: dict[str, Any], tasks: asyncio.TaskGroup) -> None:
        if not self._validated:
            await self._send(
                events.error(
                    "Model not validated. Make sure to validate the model by sending a session.update event.",
                    "model_not_validated",
                )
            )
            if self._service.release.needs_session_update:
                return
        if events.InputAudioBufferCommit(**event).final:
            # With no generation running, this mark stays in the queue and ends the next one at once.
            self._audio.put_nowait(None)
        elif self._generation is None or self._generation.done():
            self._generation = tasks.create_task(self._generate())

    async def _generate(self) -> None:
        try:
            await self._transcribe_utterance()
        except (WebSocketDisconnect, EngineDeadError):
            raise
        except Exception as problem:  # noqa: BLE001 - one failed utterance must not end the session
            # The type only: the message of an engine's error could quote what was said.
            _log.error("The engine failed: %s", type(problem).__name__)
            await self._send(events.error(f"Engine failure: {type(problem).__name__}", "processing_error"))

    async def _transcribe_utterance(self) -> None:
        loop = asyncio.get_running_loop()
        executor = self._service.executor
        utterance = _Utterance(self._service.transcriber.begin())
        more = True
        while more:
            samples, more = await self._next_audio()
            room = self._service.max_model_len * STEP_SAMPLES - utterance.samples
            if len(samples) >= room:
                if not self._service.release.survives_length_limit:
                    raise EngineDeadError
                samples, more = samples[:room], False
            if len(samples):
                for delta in await loop.run_in_executor(executor, utterance.feed, samples, more):
                    await self._send(events.transcription_delta(delta))
        for delta in await loop.run_in_executor(executor, utterance.finish):
            await self._send(events.transcription_delta(delta))
        await self._send(
            events.transcription_done(
                utterance.text,
                prompt_tokens=1 if utterance.samples else 0,
                completion_tokens=utterance.tokens,
            )
        )
        # As vLLM does: whatever a client sent ahead for its next utterance is lost here.
        while not self._audio.empty():
            self._audio.get_nowait()

    async def _next_audio(self) -> tuple[Samples, bool]:
        """Wait for audio, take all that is there; the flag is False when the audio ends with it."""
        pieces: list[Samples] = []
        piece = await self._audio.get()
        while piece is not None:
            pieces.append(piece)
            if self._audio.empty():
                return np.concatenate(pieces), True
            piece = self._audio.get_nowait()
        return (np.concatenate(pieces) if pieces else np.zeros(0, dtype=np.int16)), False


class _Utterance:
    """Turns an engine's text into vLLM's rhythm: one delta for every 80 ms of audio, the text in the last of them."""

    def __init__(self, transcription: Transcription) -> None:
        self._transcription = transcription
        self.samples = 0
        self.tokens = 0
        self.text = ""

    def feed(self, samples: Samples, more_to_come: bool) -> list[str]:
        steps_before = self.samples // STEP_SAMPLES
        self.samples += len(samples)
        text = self._transcription.feed(samples, more_to_come=more_to_come)
        return self._deltas(self.samples // STEP_SAMPLES - steps_before, text)

    def finish(self) -> list[str]:
        return self._deltas(0, self._transcription.finish()) if self.samples else []

    def _deltas(self, steps: int, text: str) -> list[str]:
        deltas = [""] * steps
        if text:
            deltas = [*deltas[:-1], text]
        self.tokens += len(deltas)
        self.text += text
        return deltas
