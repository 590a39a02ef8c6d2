"""`--verbose`: every message on standard error, without what was spoken unless it is asked for."""

import json
import sys
import time
from typing import Any

_WORDS = {"text", "delta", "input", "sentence_text", "ref_text"}
"""Fields of both protocols that hold spoken words."""
_AUDIO = {"audio", "audio_b64", "ref_audio"}
"""Fields that hold audio as base64."""


class WireLog:
    """Writes a line a message: seconds since the start, direction, and the message.

    Args:
        show_words: do not redact spoken words. Audio is a count of bytes in any case.
    """

    def __init__(self, *, show_words: bool) -> None:
        self._show_words = show_words
        self._started = time.monotonic()

    def __call__(self, direction: str, message: str | bytes) -> None:
        """Write one message."""
        if sys.stderr is None:  # then `print` would take standard output
            return
        arrow = "->" if direction == "sent" else "<-"
        seconds = time.monotonic() - self._started
        print(f"{seconds:9.3f} {arrow} {self.line(message)}", file=sys.stderr, flush=True)  # noqa: T201

    def line(self, message: str | bytes) -> str:
        """Return what may be written of a message."""
        if isinstance(message, bytes):
            return f"[{len(message)} bytes]"
        try:
            event = json.loads(message)
        except ValueError:
            event = None
        if not isinstance(event, dict):
            return f"[{len(message)} characters that are no JSON object]"
        return json.dumps({name: self._shown(name, value) for name, value in event.items()}, ensure_ascii=False)

    def _shown(self, name: str, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        if name in _AUDIO:
            return f"[{len(value) * 3 // 4 - value[-2:].count('=')} bytes]"
        if name in _WORDS and not self._show_words and value:
            return f"[{len(value)} characters]"
        return value
