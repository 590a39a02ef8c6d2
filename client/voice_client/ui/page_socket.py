"""One WebSocket to one browser tab: JSON messages both ways, sound as binary messages."""

import json
import struct
import traceback
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from voice_client.cli.failure import debugging
from voice_client.errors import BadInputError, ConnectionLostError, VoiceError

_AUDIO_HEADER = struct.Struct("<II")
"""In front of PCM16: number of the utterance, as the page counts them, and index of the sentence."""

_NOT_UNDERSTOOD = 1003
"""WebSocket close code: data that cannot be accepted."""


class PageSocket:
    """A tab's socket, accepted. One task reads; any may send."""

    def __init__(self, socket: WebSocket) -> None:
        self._socket = socket
        self._gone = False

    async def messages(self) -> AsyncGenerator[dict[str, Any] | bytes]:
        """Yield what the page sends, until the tab is closed or leaves; what is no message closes the socket."""
        while True:
            message = await self._socket.receive()
            if message["type"] == "websocket.disconnect":
                self._gone = True
                return
            if (data := message.get("bytes")) is not None:
                yield data
                continue
            try:
                parsed = json.loads(message.get("text") or "")
            except ValueError:
                parsed = None
            if not isinstance(parsed, dict) or not isinstance(parsed.get("type"), str):
                await self.close(_NOT_UNDERSTOOD)
                return
            yield parsed

    async def send(self, kind: str, **fields: Any) -> None:
        """Send a message; nothing happens when the tab is gone."""
        await self._send_text(json.dumps({"type": kind, **fields}, ensure_ascii=False))

    async def send_audio(self, utterance: int, sentence: int, pcm: bytes) -> None:
        """Send PCM16 little-endian, mono, 24 kHz; waits while the tab takes no more."""
        if self._can_send():
            try:
                await self._socket.send_bytes(_AUDIO_HEADER.pack(utterance, sentence) + pcm)
            except (WebSocketDisconnect, RuntimeError):
                self._gone = True

    async def send_error(self, error: VoiceError, **fields: Any) -> None:
        """Send what an error says."""
        await self.send("error", message=error_text(error), retryable=error.retryable, **fields)

    async def told(self, work: Callable[[], Awaitable[None]]) -> None:
        """Do some work; its failure goes to the page, which would wait for ever for what a fault of ours ended."""
        try:
            await work()
        except VoiceError as error:
            await self.send_error(error)
        except Exception as error:  # noqa: BLE001 - its text may hold anything, also what was spoken
            if debugging():
                traceback.print_exception(error)
            where = "it is written where `voice ui` runs" if debugging() else "VOICE_DEBUG=1 shows where"
            await self.send(
                "error", message=f"Unexpected {type(error).__name__}: a fault of the program; {where}.", retryable=False
            )

    async def close(self, code: int) -> None:
        """Close it."""
        if self._can_send():
            self._gone = True
            await self._socket.close(code)

    async def _send_text(self, text: str) -> None:
        if self._can_send():
            try:
                await self._socket.send_text(text)
            except (WebSocketDisconnect, RuntimeError):
                self._gone = True  # the reading task sees the end too, and ends the session

    def _can_send(self) -> bool:
        return not self._gone and self._socket.application_state is WebSocketState.CONNECTED


def error_text(error: VoiceError) -> str:
    """Return an error as a sentence; a name at its beginning keeps its spelling.

    The advice to open a new stream is for programs: the page does so by itself.
    """
    text = str(error).removesuffix(f". {ConnectionLostError.default_advice}")
    first = text.split(" ", 1)[0]
    begin = text[:1].upper() if first.isalpha() else text[:1]
    return f"{begin}{text[1:]}{'' if text.endswith(('.', '!', '?')) else '.'}"


def text_field(message: dict[str, Any], name: str, default: str = "") -> str:
    """Return a field that holds text.

    Raises:
        BadInputError: it holds something else.
    """
    value = message.get(name, default)
    if not isinstance(value, str):
        raise BadInputError(f"the page sent a {name} that is no text")
    return value


def number_field(message: dict[str, Any], name: str) -> int:
    """Return a field that holds a whole number.

    Raises:
        BadInputError: it holds something else, or is missing.
    """
    value = message.get(name)
    if not isinstance(value, int) or isinstance(value, bool):
        raise BadInputError(f"the page sent a {name} that is no whole number")
    return value
