"""Any endpoint that speaks OpenAI's chat-completions protocol: a local one (Ollama, llama.cpp, vLLM) or a service.

The protocol: `POST {url}/chat/completions` with `stream: true`; the answer is server-sent events, each `data:` a JSON
object whose `choices[0].delta.content` is more text, and `data: [DONE]` at the end.
"""

import ipaddress
import json
import os
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self
from urllib.parse import urlsplit

from voice_client.errors import BadInputError
from voice_client.replies.reply import Exchange, ReplyError

URL = "VOICE_CHAT_URL"
KEY = "VOICE_CHAT_API_KEY"
MODEL = "VOICE_CHAT_MODEL"
PROMPT = "VOICE_CHAT_PROMPT"

SPOKEN_STYLE = (
    "You are speaking with the user. Answer in one to three short sentences of plain spoken language, "
    "in the user's language, without lists, markup or emoji."
)
"""Asked of the model by default: everything it writes is read aloud."""
SUMMARY_STYLE = "Summarize the transcript that follows in its own language: one sentence, then up to five key points."

_CONNECT_SECONDS = 10.0
"""Name look-up, TCP and TLS; a local server answers at once, a far one within two seconds."""
_SILENCE_SECONDS = 60.0
"""Longest silence of the server. A large local model reads a long transcript before it says its first word."""
_LONGEST_ERROR = 300
"""Characters of a server's own words about a failure that are passed on."""


@dataclass(frozen=True, slots=True)
class ChatEndpoint:
    """Where replies come from, and how they are asked for; also a `Reply`."""

    url: str
    """Base URL, such as `http://127.0.0.1:11434/v1`; `/chat/completions` is added."""
    model: str
    key: str | None = field(default=None, repr=False)
    prompt: str = SPOKEN_STYLE
    """What the model is told before the conversation."""

    def __post_init__(self) -> None:
        """Check the address.

        Raises:
            BadInputError: no http(s) URL, or a key that would cross a network unencrypted.
        """
        parts = urlsplit(self.url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise BadInputError(f"{URL} is no http:// or https:// address")
        if self.key and parts.scheme == "http" and not _is_loopback(parts.hostname):
            raise BadInputError(f"{URL} is not https, so {KEY} would cross the network unencrypted")

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Self | None:
        """Return the endpoint that the environment names, None when it names none.

        Raises:
            BadInputError: variables that cannot be, or are missing.
        """
        url = environment.get(URL, "").strip()
        if not url:
            return None
        model = environment.get(MODEL, "").strip()
        if not model:
            raise BadInputError(f"{URL} is set and {MODEL} is not: name the chat endpoint's model")
        return cls(url, model, environment.get(KEY) or None, environment.get(PROMPT) or SPOKEN_STYLE)

    @property
    def host(self) -> str:
        """What messages call it: host and port, never the key."""
        return urlsplit(self.url).netloc.rpartition("@")[2]

    async def __call__(self, turn: str, history: Sequence[Exchange]) -> AsyncGenerator[str]:
        """Reply to a turn; see `Reply`."""
        messages = [{"role": "system", "content": self.prompt}]
        for exchange in history:
            messages.append({"role": "user", "content": exchange.user})
            if exchange.reply:
                messages.append({"role": "assistant", "content": exchange.reply})
        messages.append({"role": "user", "content": turn})
        async for piece in self._completion(messages):
            yield piece

    async def summary(self, transcript: str) -> AsyncGenerator[str]:
        """Yield a summary of a transcript, as it is made.

        Raises:
            ReplyError: the endpoint gave none.
        """
        messages = [{"role": "system", "content": SUMMARY_STYLE}, {"role": "user", "content": transcript}]
        async for piece in self._completion(messages):
            yield piece

    async def _completion(self, messages: list[dict[str, str]]) -> AsyncGenerator[str]:
        httpx = _httpx()
        timeout = httpx.Timeout(_SILENCE_SECONDS, connect=_CONNECT_SECONDS)
        headers = {"accept": "text/event-stream"} | ({"authorization": f"Bearer {self.key}"} if self.key else {})
        body = {"model": self.model, "messages": messages, "stream": True}
        try:
            async with (
                httpx.AsyncClient(timeout=timeout) as client,
                client.stream("POST", f"{self.url.rstrip('/')}/chat/completions", json=body, headers=headers) as answer,
            ):
                if answer.status_code != 200:
                    raise self._refused(answer.status_code, await answer.aread())
                complete = False
                async for data in _events(answer.aiter_lines()):
                    if data == "[DONE]":
                        complete = True
                        break
                    piece, finished = self._piece(data)
                    complete = complete or finished
                    if piece:
                        yield piece
                if not complete:
                    raise ReplyError(f"the chat endpoint {self.host} broke off in the middle of the reply")
        except httpx.TimeoutException as error:
            raise ReplyError(f"the chat endpoint {self.host} did not answer in time", retryable=True) from error
        except httpx.HTTPError as error:
            raise ReplyError(
                f"the chat endpoint {self.host} cannot be reached: {error or type(error).__name__}",
                retryable=True,
                advice=f"Check {URL}, and that the server runs",
            ) from error

    def _piece(self, data: str) -> tuple[str, bool]:
        """Return the text of one event, and whether the model says that it was the last."""
        try:
            event = json.loads(data)
        except ValueError as error:
            raise ReplyError(f"the chat endpoint {self.host} sent an event that is no JSON") from error
        if not isinstance(event, dict):
            raise ReplyError(f"the chat endpoint {self.host} sent an event that is no JSON object")
        if event.get("error"):
            raise ReplyError(f"the chat endpoint {self.host} failed in the middle of the reply: {_said(event)}")
        choices = event.get("choices") or [{}]  # empty in the event that carries the usage
        first = choices[0] if isinstance(choices, list) and isinstance(choices[0], dict) else {}
        delta = first.get("delta") or {}
        content = delta.get("content") if isinstance(delta, dict) else None
        return content if isinstance(content, str) else "", first.get("finish_reason") is not None

    def _refused(self, status: int, body: bytes) -> ReplyError:
        try:
            said = _said(json.loads(body))
        except ValueError:
            said = " ".join(body.decode("utf-8", "replace").split())[:_LONGEST_ERROR]
        advice = {
            401: f"Check {KEY}",
            403: f"Check {KEY} and what it may do",
            404: f"Check {URL} (it usually ends in /v1) and {MODEL}",
            429: "Wait, or raise the limit of the key",
        }.get(status, "Look into the server's log" if status >= 500 else f"Check {URL} and {MODEL}")
        return ReplyError(
            f"the chat endpoint {self.host} answered with status {status}{': ' + said if said else ''}",
            retryable=status == 429 or status >= 500,
            advice=advice,
        )


def _said(event: Any) -> str:
    """Return what an error object says: `{"error": {"message": ...}}`, or `{"error": "..."}`."""
    error = event.get("error") if isinstance(event, dict) else None
    message = error.get("message") if isinstance(error, dict) else error
    return " ".join(str(message or "").split())[:_LONGEST_ERROR]


async def _events(lines: AsyncIterator[str]) -> AsyncGenerator[str]:
    """Yield the data of server-sent events; an event ends with an empty line and may have several data lines."""
    data: list[str] = []
    async for line in lines:
        if line.startswith("data:"):
            data.append(line[5:].removeprefix(" "))
        elif not line and data:
            yield "\n".join(data)
            data = []
    if data:
        yield "\n".join(data)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _httpx() -> Any:
    try:
        import httpx  # noqa: PLC0415  # an extra
    except ImportError as error:
        raise BadInputError(
            "a chat endpoint needs the Python package httpx", advice="Install it: pip install 'sagemaker-voice[chat]'"
        ) from error
    return httpx
