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

_UNANSWERED_BYTES = BYTES_PER_SECOND
"""PCM without an answer that is no sign of a fault yet: vLLM waits for whole steps of 80 ms."""

_PLAIN_APPEND = re.compile(rb'\{"type": ?"input_audio_buffer\.append", ?"audio": ?"')
_PLAIN_TYPE = re.compile(rb'\{"type": ?"([a-z_.]+)"')
"""How JSON libraries write nearly all messages; those are not parsed, which would cost as much as passing them on."""


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
        self._answered_bytes = 0

    @property
    def pending_audio(self) -> float:
        """Seconds of audio appended for the generation that runs, or for the next one."""
        return self.pending_audio_bytes / BYTES_PER_SECOND

    @property
    def owes_output(self) -> bool:
        """Whether vLLM has what it needs to say something more."""
        unanswered = self.pending_audio_bytes - self._answered_bytes
        return self.generating and (unanswered >= _UNANSWERED_BYTES or not self.final_commit_due)

    def take_audio(self) -> float:
        """Return the seconds of audio the ended generation had, and count anew."""
        seconds, self.pending_audio_bytes, self._answered_bytes = self.pending_audio, 0, 0
        return seconds

    def observe_input(self, message: bytes) -> None:
        """Take note of a message that goes to vLLM."""
        plain = _PLAIN_APPEND.match(message)
        if (
            plain
            and message.find(b'"', plain.end()) == len(message) - 2
            and message[-1:] == b"}"
            and b"\\" not in message
        ):
            self._append(message[plain.end() : -2])
            return
        event = _parse(message)
        kind, audio = event.get("type"), event.get("audio")
        if kind == "input_audio_buffer.append" and isinstance(audio, str):
            self._append(audio.encode("ascii", "replace"))
        elif kind == "input_audio_buffer.commit" and event.get("final"):
            self.final_commit_due = False
        elif kind == "input_audio_buffer.commit" and not self.generating:
            self.generating = self.final_commit_due = True

    def observe_output(self, message: bytes) -> str:
        """Take note of a message that came from vLLM and return its type, empty when it has none."""
        plain = _PLAIN_TYPE.match(message)
        kind = plain[1].decode() if plain else _parse(message).get("type")
        if kind == "transcription.delta":
            self.generating, self._answered_bytes = True, self.pending_audio_bytes
        elif kind == "transcription.done":
            self.generating = self.final_commit_due = False
        elif kind == "error":
            self.last_error_code = str(_parse(message).get("code", ""))
            if self.last_error_code == "model_not_validated":
                # vLLM 0.27 refused to start. 0.17 says the same and starts: its deltas set this back to true, and a
                # final commit stays due.
                self.generating = False
        return kind if isinstance(kind, str) else ""

    def _append(self, base64: bytes) -> None:
        self.pending_audio_bytes += max(len(base64) * 3 // 4 - base64.count(b"=", -2), 0)


def _parse(message: bytes) -> dict[str, Any]:
    try:
        event = json.loads(message)
    except (ValueError, RecursionError):
        return {}
    return event if isinstance(event, dict) else {}
