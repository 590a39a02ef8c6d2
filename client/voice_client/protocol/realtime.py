"""vLLM's `/v1/realtime`, the speech-to-text protocol: JSON text frames both ways (vLLM 0.17 to 0.33).

Order on the wire: connect, `session.created`, `session.update`, `commit` (starts the generation), `append` for each
chunk of audio, `commit final=true` (ends the audio), deltas all along, `transcription.done`. The next utterance may
start only after `done`: what is sent before it is lost.
"""

import base64
import json
from dataclasses import dataclass, field

from voice_client.errors import ProtocolError
from voice_client.protocol.json_message import JsonMessage, Unknown, read_message

SAMPLE_RATE_HZ = 16_000
"""Audio goes up as PCM16 little-endian, mono, at this rate."""

BYTES_PER_SECOND = 2 * SAMPLE_RATE_HZ

_PASSING_CODES = {
    "processing_error",
    "session_limit",
    "shutting_down",
    "idle_timeout",
    "client_stalled",
    "internal_error",
    "drain_timeout",
}
"""Codes of errors that are over with a new session: vLLM's fault inside the engine, and those of the bridge in front of
it (no free session, the container stops, nothing was sent for long, a stall, a fault of its own)."""


@dataclass(frozen=True, slots=True)
class SessionCreated:
    """The first event of a connection."""

    id: str


@dataclass(frozen=True, slots=True)
class TranscriptionDelta:
    """Words heard since the last delta; about one per 80 ms of audio, often empty."""

    delta: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens an utterance took; one prompt token stands for 80 ms of audio."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


@dataclass(frozen=True, slots=True)
class TranscriptionDone:
    """The end of an utterance, with its whole text."""

    text: str = field(repr=False)
    usage: Usage | None


@dataclass(frozen=True, slots=True)
class ErrorEvent:
    """The server could not do what was asked."""

    message: str
    code: str | None
    """invalid_json, processing_error, invalid_audio, model_not_validated, unknown_event; from 0.26 invalid_event,
    model_not_found. The bridge in front of vLLM adds its own, such as session_limit and upstream_died."""

    @property
    def passing(self) -> bool:
        """Whether the same audio may be heard in a new session."""
        return self.code is not None and (self.code in _PASSING_CODES or self.code.startswith("upstream_"))


type ServerEvent = SessionCreated | TranscriptionDelta | TranscriptionDone | ErrorEvent | Unknown


def parse(message: str | bytes) -> ServerEvent:
    """Turn one message of the server into an event.

    Raises:
        ProtocolError: a binary message, no JSON, or a known event without its fields.
    """
    if isinstance(message, bytes):
        raise ProtocolError(f"the speech-to-text server sent a binary message of {len(message)} bytes")
    event = read_message(message)
    match event.type:
        case "transcription.delta":
            return TranscriptionDelta(event.text("delta"))
        case "transcription.done":
            return TranscriptionDone(event.text("text"), _usage(event))
        case "session.created":
            return SessionCreated(event.text("id"))
        case "error":
            return ErrorEvent(*_error(event))
        case _:
            return Unknown(event.type, event.fields)


def _usage(event: JsonMessage) -> Usage | None:
    usage = event.fields.get("usage")
    if not isinstance(usage, dict):
        return None
    counts = JsonMessage(f"{event.type} usage", usage)
    return Usage(
        prompt_tokens=counts.integer("prompt_tokens", 0),
        completion_tokens=counts.integer("completion_tokens", 0),
        total_tokens=counts.integer("total_tokens", 0),
    )


def _error(event: JsonMessage) -> tuple[str, str | None]:
    # vLLM sends a string; servers that follow OpenAI's realtime API send an object with message and code.
    error = event.fields.get("error")
    fields = error if isinstance(error, dict) else {"message": error, "code": event.fields.get("code")}
    message, code = fields.get("message"), fields.get("code")
    return (
        message if isinstance(message, str) and message else "the server gave no reason",
        code if isinstance(code, str) else None,
    )


def session_update(model: str) -> str:
    """Encode the choice of model; it gets no acknowledgement."""
    return json.dumps({"type": "session.update", "model": model})


def start() -> str:
    """Encode the commit that starts the generation of an utterance."""
    return json.dumps({"type": "input_audio_buffer.commit"})


def append(pcm: bytes) -> str:
    """Encode a chunk of audio (PCM16 little-endian, mono, 16 kHz).

    Raises:
        ProtocolError: no bytes, or half a sample: the server would answer `invalid_audio`.
    """
    if not pcm or len(pcm) % 2:
        raise ProtocolError(f"a chunk of {len(pcm)} bytes is no PCM16 audio")
    return json.dumps({"type": "input_audio_buffer.append", "audio": base64.b64encode(pcm).decode("ascii")})


def finish() -> str:
    """Encode the commit that ends the audio of an utterance."""
    return json.dumps({"type": "input_audio_buffer.commit", "final": True})
