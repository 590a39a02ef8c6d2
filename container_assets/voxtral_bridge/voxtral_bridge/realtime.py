"""What the bridge has to know of vLLM's realtime protocol: whether a generation runs, and how to end it.

Pure, no I/O. JSON text both ways. `input_audio_buffer.commit` starts a generation, with `final` true it ends the
audio; `transcription.done` ends the generation. Anything not understood here is vLLM's to judge and passes.
"""

import json
import re
from typing import Any

FINAL_COMMIT = b'{"type":"input_audio_buffer.commit","final":true}'

BYTES_PER_SECOND = 2 * 16_000
"""Of the audio in `append`: PCM16 mono at 16 kHz, before base64."""


def error_event(code: str, message: str) -> bytes:
    """Return an `error` event in vLLM's own shape: `error` is a string, beside a `code`."""
    return json.dumps({"type": "error", "error": message, "code": code}, separators=(",", ":")).encode()


class GenerationTracker:
    """Follows one session from the messages of both sides."""

    def __init__(self) -> None:
        self.generating = False
        """A generation runs: its `transcription.done` is still to come."""
        self.final_commit_due = False
        """The engine waits for more audio until somebody sends the final commit."""
        self.pending_audio_bytes = 0
        """PCM bytes appended for the generation that runs, or for the next one."""
        self.last_error_code = ""
        """Code of vLLM's latest `error` event."""

    @property
    def pending_audio(self) -> float:
        """Seconds of audio appended for the generation that runs, or for the next one."""
        return self.pending_audio_bytes / BYTES_PER_SECOND

    def take_audio(self) -> float:
        """Return the seconds of audio the ended generation had, and count anew."""
        seconds, self.pending_audio_bytes = self.pending_audio, 0
        return seconds

    def observe_input(self, message: bytes) -> None:
        """Take note of a message that goes to vLLM."""
        if (audio_size := _plain_append(message)) is not None:
            self.pending_audio_bytes += audio_size
            return
        event = _parse(message)
        kind = event.get("type")
        if kind == "input_audio_buffer.append":
            audio = event.get("audio")
            if isinstance(audio, str):
                self.pending_audio_bytes += _decoded_size(len(audio), audio[-2:].count("="))
        elif kind == "input_audio_buffer.commit":
            if event.get("final"):
                self.final_commit_due = False
            elif not self.generating:
                self.generating = self.final_commit_due = True

    def observe_output(self, message: bytes) -> str:
        """Take note of a message that came from vLLM and return its type, empty when it has none."""
        plain = _PLAIN_TYPE.match(message)
        kind = plain[1].decode() if plain else _parse(message).get("type")
        if kind == "transcription.delta":
            self.generating = True
        elif kind == "transcription.done":
            self.generating = self.final_commit_due = False
        elif kind == "error":
            self.last_error_code = str(_parse(message).get("code", ""))
            if self.last_error_code == "model_not_validated":
                # vLLM 0.27 refused to start. 0.17 says the same and starts: its deltas set this back to true, and a
                # final commit stays due.
                self.generating = False
        return kind if isinstance(kind, str) else ""


# Nearly all messages are written in the usual way, by the JSON library that wrote them: those are read here without
# parsing what they carry, which would cost more than passing them on. JSON decides on all others.

_PLAIN_TYPE = re.compile(rb'\{"type": ?"([a-z_.]+)"')

_APPEND = re.compile(rb'\{"type": ?"input_audio_buffer\.append", ?"audio": ?"')


def _plain_append(message: bytes) -> int | None:
    """Return the PCM bytes of an `append` written in the usual way, None for everything else."""
    start = _APPEND.match(message)
    if start is None or message[-2:] != b'"}':
        return None
    end = len(message) - 2
    if message.find(b'"', start.end()) != end or b"\\" in message:
        return None
    return _decoded_size(end - start.end(), message.count(b"=", end - 2, end))


def _decoded_size(characters: int, padding: int) -> int:
    return max(characters * 3 // 4 - padding, 0)


def _parse(message: bytes) -> dict[str, Any]:
    try:
        event = json.loads(message)
    except (ValueError, RecursionError):
        return {}
    return event if isinstance(event, dict) else {}
