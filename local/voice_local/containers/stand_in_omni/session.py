"""One WebSocket on `/v1/audio/speech/stream`: what vLLM-Omni's front-end does, its traps included."""

import asyncio
import json
import logging
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from fastapi import WebSocket, WebSocketDisconnect
from pydantic import ValidationError

from voice_local.containers.stand_in_omni.audio_formats import encode
from voice_local.containers.stand_in_omni.limits import SpeechLimits
from voice_local.containers.stand_in_omni.request import VOICES, StreamingSpeechSessionConfig, problems_of
from voice_local.engines.interfaces import TTS_SAMPLE_RATE, EngineError, Voice

_LINGER_SECONDS = 0.1
"""Long enough for what a client sent ahead to arrive on loopback; too short to be taken for an open session."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SpeechService:
    """What all sessions of one server share."""

    model: str
    voice: Voice
    limits: SpeechLimits


class _SessionOverError(Exception):
    """The front-end gives up on this client: the last event has been sent, no close frame follows."""


class SpeechSession:
    """Serves one client until either side ends it.

    Messages are taken one after the other, and none while speech is made: a client cannot interrupt in-band, and
    what it sends meanwhile waits.
    """

    def __init__(self, websocket: WebSocket, service: SpeechService) -> None:
        self._websocket = websocket
        self._service = service
        self._config: StreamingSpeechSessionConfig | None = None
        self._text: list[str] = []
        self._utterances = 0

    async def run(self) -> None:
        """Answer messages until `session.close`, a fatal mistake, a time-out, or the client's leaving.

        Mistakes before the first good `session.config` are fatal, later ones are only reported.
        """
        await self._websocket.accept()
        try:
            while True:
                message = await self._next_message()
                if message is None:
                    self._fatal_before_config()
                elif message.get("type") == "session.close" and self._config is not None:
                    await self._websocket.close()
                    return
                else:
                    await self._handle(message)
        except _SessionOverError:
            await self._linger()
        except WebSocketDisconnect:
            _log.info("The client left")

    async def _linger(self) -> None:
        """Read on for a moment, so that the last event arrives.

        A TCP socket closed with unread input is reset, and a reset throws away what the other side has not read yet.
        """
        try:
            async with asyncio.timeout(_LINGER_SECONDS):
                while (await self._websocket.receive())["type"] != "websocket.disconnect":
                    pass
        except TimeoutError:
            return

    async def _send(self, event: dict[str, Any]) -> None:
        await self._websocket.send_text(json.dumps(event))

    async def _send_error(self, message: str) -> None:
        await self._send({"type": "error", "message": message})

    def _fatal_before_config(self) -> None:
        if self._config is None:
            raise _SessionOverError

    async def _next_message(self) -> dict[str, Any] | None:
        """Return the client's next message, None when it was refused (the client has been told)."""
        text = await self._receive_text()
        limits = self._service.limits
        if len(text) > limits.config_characters:
            await self._send_error("WebSocket message too large")
            return None
        try:
            message = json.loads(text)
        except json.JSONDecodeError:
            await self._send_error("Invalid JSON message")
            return None
        if not isinstance(message, dict):
            await self._send_error("WebSocket messages must be JSON objects")
            return None
        if message.get("type") != "session.config" and len(text) > limits.message_characters:
            await self._send_error("input.text message too large")
            return None
        return message

    async def _receive_text(self) -> str:
        limits = self._service.limits
        try:
            async with asyncio.timeout(limits.config_seconds if self._config is None else limits.idle_seconds):
                frame = await self._websocket.receive()
        except TimeoutError:
            await self._send_error(
                "Timeout waiting for session.config" if self._config is None else "Idle timeout: no message received"
            )
            raise _SessionOverError from None
        if frame["type"] == "websocket.disconnect":
            raise WebSocketDisconnect(frame.get("code", 1005))
        text: str | None = frame.get("text")
        if text is None:
            # A binary frame: the real handler stumbles over the missing key "text" and says so.
            await self._send_error("Internal error: 'text'")
            raise _SessionOverError
        return text

    async def _handle(self, message: dict[str, Any]) -> None:
        kind = message.get("type")
        if kind == "session.config":
            await self._configure(message)
        elif self._config is None:
            await self._send_error(f"Expected session.config, got: {kind}")
            raise _SessionOverError
        elif kind == "input.text":
            text = message.get("text", "")
            if isinstance(text, str):
                self._text.append(text)
            else:
                await self._send_error("input.text requires a string value")
        elif kind == "input.done":
            await self._speak_utterance(self._config)
        else:
            await self._send_error(f"Unknown message type: {kind}")

    async def _configure(self, message: dict[str, Any]) -> None:
        if self._text:
            await self._send_error("session.config cannot be applied while input is buffered; send input.done first")
            return
        try:
            config = StreamingSpeechSessionConfig(**{name: value for name, value in message.items() if name != "type"})
        except ValidationError as problem:
            await self._send_error(f"Invalid session config: {problem}")
            self._fatal_before_config()
            return
        if config.model and config.model != self._service.model:
            await self._send_error(f"The model `{config.model}` does not exist.")
            self._fatal_before_config()
            return
        self._config = config

    async def _speak_utterance(self, config: StreamingSpeechSessionConfig) -> None:
        """Speak all the text since the last `input.done` as one request: the server does not split sentences."""
        text = "".join(self._text).strip()
        self._text.clear()
        if text and config.word_timestamps:
            await self._send_error(
                "word_timestamps=true but the server was launched without --forced-aligner; either restart the "
                "server with that flag or set word_timestamps=false in session.config."
            )
        elif text:
            await self._speak(text, config)
        await self._send(
            {"type": "session.done", "utterance_index": self._utterances, "total_sentences": 1 if text else 0}
        )
        self._utterances += 1

    async def _speak(self, text: str, config: StreamingSpeechSessionConfig) -> None:
        place = {"utterance_index": self._utterances, "sentence_index": 0}
        start: dict[str, Any] = {
            "type": "audio.start",
            **place,
            "sentence_text": text,
            "format": config.response_format,
        }
        if config.stream_audio:
            start["sample_rate"] = TTS_SAMPLE_RATE
        await self._send(start)
        sent = _ByteCount()
        failure = "; ".join(problems_of(config))
        if not failure:
            try:
                await self._send_audio(text, config, sent)
            except EngineError as problem:
                failure = str(problem)
            except WebSocketDisconnect:
                raise
            except Exception as problem:  # noqa: BLE001 - one failed utterance must not end the session
                # The type only: the message could quote the text.
                failure = type(problem).__name__
        if failure:
            _log.warning("An utterance failed (%d bytes sent)", sent.bytes)
            await self._send_error(f"Generation failed: {failure}")
        await self._send({"type": "audio.done", **place, "total_bytes": sent.bytes, "error": bool(failure)})

    async def _send_audio(self, text: str, config: StreamingSpeechSessionConfig, sent: "_ByteCount") -> None:
        speech = self._service.voice.speak(
            text,
            voice=(config.voice or VOICES[0]).lower(),
            language=config.language or "Auto",
            speed=config.speed,
        )
        async with aclosing(speech) as pieces:
            if config.stream_audio:
                async for piece in pieces:
                    sent.bytes += len(piece)
                    await self._websocket.send_bytes(piece)
                return
            whole = b"".join([piece async for piece in pieces])
        # Encoding takes milliseconds per second of speech, so it leaves the event loop.
        file = await asyncio.to_thread(encode, whole, config.response_format)
        sent.bytes += len(file)
        await self._websocket.send_bytes(file)


@dataclass(slots=True)
class _ByteCount:
    """What has been sent of an utterance, counted even when the engine fails half-way."""

    bytes: int = 0
