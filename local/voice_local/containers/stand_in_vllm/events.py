"""The events of vLLM's `/v1/realtime`, fields and codes as its releases have them."""

from typing import Any, Literal

from pydantic import BaseModel


class InputAudioBufferAppend(BaseModel):
    """Client: a piece of audio. The class name is vLLM's: it is part of the error text for a missing field."""

    type: Literal["input_audio_buffer.append"] = "input_audio_buffer.append"
    audio: str
    """Base64 of PCM16, little-endian, 16 kHz, mono."""


class InputAudioBufferCommit(BaseModel):
    """Client: start the generation, or end the audio when `final`."""

    type: Literal["input_audio_buffer.commit"] = "input_audio_buffer.commit"
    final: bool = False


def session_created(session_id: str, created: int) -> dict[str, Any]:
    """Server, on connect; `created` in Unix seconds."""
    return {"type": "session.created", "id": session_id, "created": created}


def transcription_delta(delta: str) -> dict[str, Any]:
    """Server, about once per 80 ms of audio; the text is often empty."""
    return {"type": "transcription.delta", "delta": delta}


def transcription_done(text: str, *, prompt_tokens: int, completion_tokens: int) -> dict[str, Any]:
    """Server, at the end of an utterance; `text` is all its deltas."""
    return {
        "type": "transcription.done",
        "text": text,
        "usage": {
            "prompt_tokens": prompt_tokens,
            "total_tokens": prompt_tokens + completion_tokens,
            "completion_tokens": completion_tokens,
        },
    }


def error(message: str, code: str) -> dict[str, Any]:
    """Server: what went wrong. `error` is a string, not an object as in OpenAI's protocol."""
    return {"type": "error", "error": message, "code": code}
