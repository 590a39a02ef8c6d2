"""Any endpoint that speaks OpenAI's chat-completions protocol: a local one (Ollama, llama.cpp, vLLM) or a service.

The protocol: `POST {url}/chat/completions` with `stream: true`; the answer is server-sent events, each `data:` a JSON
object whose `choices[0].delta.content` is more text, and `data: [DONE]` at the end.
"""

import asyncio
import ipaddress
import json
import os
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Self
from urllib.parse import urlsplit

from voice_client.errors import BadInputError
from voice_client.replies.reply import Exchange, ReplyError
from voice_client.replies.server_sent_events import event_data

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
"""Longest time without an event. A large local model reads a long transcript before it says its first word."""
_LONGEST_EVENT = 1024 * 1024
"""Bytes of one event; a token takes a few hundred. What streams without an end is no event stream."""
_LONGEST_REFUSAL = 64 * 1024
"""Bytes that are read of an answer that is no reply."""
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
        """Check the address and the key.

        Raises:
            BadInputError: no http(s) URL that a path can be added to, a key that no header can hold, or one that would
                cross a network unencrypted; all problems together.
        """
        problems = []
        try:
            parts = urlsplit(self.url)
            usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
        except ValueError:  # brackets that do not match, a port out of range
            usable = False
        if not usable:
            problems.append(f"{URL} is no http:// or https:// address")
        else:
            if parts.query or parts.fragment:
                problems.append(f"{URL} ends in a query or a fragment: give the base address, such as http://host/v1")
            if "@" in parts.netloc:
                problems.append(f"{URL} holds a user name: give the key as {KEY}")
            if self.key and parts.scheme == "http" and not self._local:
                problems.append(f"{URL} is not https, so {KEY} would cross the network unencrypted")
        if self.key and not (self.key.isascii() and self.key.isprintable() and " " not in self.key):
            problems.append(f"{KEY} holds a character that no key has (a space, a line break, or none of ASCII)")
        if problems:
            raise BadInputError("; ".join(problems))

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
        return cls(url, model, environment.get(KEY, "").strip() or None, environment.get(PROMPT) or SPOKEN_STYLE)

    @property
    def host(self) -> str:
        """What messages call it: host and port, never the key."""
        return urlsplit(self.url).netloc

    @property
    def _local(self) -> bool:
        return _is_loopback(urlsplit(self.url).hostname or "")

    async def __call__(self, turn: str, history: Sequence[Exchange]) -> AsyncGenerator[str]:
        """Reply to a turn; see `Reply`."""
        messages = [{"role": "system", "content": self.prompt}]
        for exchange in history:
            messages.append({"role": "user", "content": exchange.user})
            if exchange.reply:
                messages.append({"role": "assistant", "content": exchange.reply})
        messages.append({"role": "user", "content": turn})
        async with aclosing(self._completion(messages)) as pieces:
            async for piece in pieces:
                yield piece

    async def summary(self, transcript: str) -> AsyncGenerator[str]:
        """Yield a summary of a transcript, as it is made.

        Raises:
            ReplyError: the endpoint gave none.
        """
        messages = [{"role": "system", "content": SUMMARY_STYLE}, {"role": "user", "content": transcript}]
        async with aclosing(self._completion(messages)) as pieces:
            async for piece in pieces:
                yield piece

    async def _completion(self, messages: list[dict[str, str]]) -> AsyncGenerator[str]:
        httpx = _httpx()
        headers = {"accept": "text/event-stream"} | ({"authorization": f"Bearer {self.key}"} if self.key else {})
        body = {"model": self.model, "messages": messages, "stream": True}
        begun = False
        try:
            async with (
                self._client(httpx) as client,
                client.stream("POST", f"{self.url.rstrip('/')}/chat/completions", json=body, headers=headers) as answer,
            ):
                if answer.status_code != 200:
                    raise self._refused(answer.status_code, await _beginning(answer))
                begun = True
                async with aclosing(self._words(answer)) as words:
                    async for piece in words:
                        yield piece
        except (httpx.TimeoutException, TimeoutError) as error:
            raise ReplyError(f"the chat endpoint {self.host} did not answer in time", retryable=True) from error
        except httpx.HTTPError as error:
            what = "broke off in the middle of the reply" if begun else "cannot be reached"
            raise ReplyError(
                f"the chat endpoint {self.host} {what}: {self._without_key(str(error)) or _name(error)}",
                retryable=True,
                advice="Look into the server's log" if begun else f"Check {URL}, and that the server runs",
            ) from error

    def _client(self, httpx: Any) -> Any:
        try:
            return httpx.AsyncClient(
                timeout=httpx.Timeout(_SILENCE_SECONDS, connect=_CONNECT_SECONDS),
                # A proxy of the environment would get what is meant for this machine, the key included.
                trust_env=not self._local,
            )
        except (ValueError, OSError) as error:
            raise ReplyError(
                f"the chat endpoint {self.host} cannot be reached with this environment's proxy or certificate "
                f"settings ({_name(error)})",
                advice="Check HTTP_PROXY, HTTPS_PROXY, ALL_PROXY, SSL_CERT_FILE and SSL_CERT_DIR",
            ) from error

    async def _words(self, answer: Any) -> AsyncGenerator[str]:
        """Yield the reply's text from the events of an answer."""
        came = complete = False
        async with aclosing(event_data(answer.aiter_bytes(), longest=_LONGEST_EVENT)) as events:
            while not complete:
                try:
                    # Of its own: comments that keep a connection alive are always in time for the client's.
                    async with asyncio.timeout(_SILENCE_SECONDS):
                        data = await anext(events, None)
                except ValueError as error:
                    raise ReplyError(f"the chat endpoint {self.host} sent {error}, which is no reply") from error
                if data is None:
                    break
                came = True
                if data == "[DONE]":
                    complete = True
                    continue
                piece, complete = self._piece(data)
                if piece:
                    yield piece
        if not complete:
            kind = answer.headers.get("content-type", "").partition(";")[0]
            what = "broke off in the middle of the reply" if came else f"answered with {kind or 'something'}, no events"
            raise ReplyError(f"the chat endpoint {self.host} {what}", advice="" if came else f"Check {URL}")

    def _piece(self, data: str) -> tuple[str, bool]:
        """Return the text of one event, and whether the model says that it was the last."""
        try:
            event = json.loads(data)
        except ValueError as error:
            raise ReplyError(f"the chat endpoint {self.host} sent an event that is no JSON") from error
        if not isinstance(event, dict):
            raise ReplyError(f"the chat endpoint {self.host} sent an event that is no JSON object")
        if event.get("error"):
            raise ReplyError(f"the chat endpoint {self.host} failed in the middle of the reply: {self._said(event)}")
        choices = event.get("choices") or [{}]  # empty in the event that carries the usage
        first = choices[0] if isinstance(choices, list) and isinstance(choices[0], dict) else {}
        delta = first.get("delta") or {}
        content = delta.get("content") if isinstance(delta, dict) else None
        return content if isinstance(content, str) else "", first.get("finish_reason") is not None

    def _refused(self, status: int, body: bytes) -> ReplyError:
        try:
            said = self._said(json.loads(body))
        except ValueError:
            said = self._without_key(" ".join(body.decode("utf-8", "replace").split()))[:_LONGEST_ERROR]
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

    def _said(self, event: Any) -> str:
        """Return what an error object says: `{"error": {"message": ...}}`, or `{"error": "..."}`."""
        error = event.get("error") if isinstance(event, dict) else None
        message = error.get("message") if isinstance(error, dict) else error
        return self._without_key(" ".join(str(message or "").split()))[:_LONGEST_ERROR]

    def _without_key(self, text: str) -> str:
        """Return what a server said; some quote the key that they refuse."""
        return text.replace(self.key, "***") if self.key else text


async def _beginning(answer: Any) -> bytes:
    """Return the first bytes of an answer's body."""
    body = b""
    async with asyncio.timeout(_SILENCE_SECONDS):
        async for piece in answer.aiter_bytes():
            body += piece
            if len(body) >= _LONGEST_REFUSAL:
                break
    return body[:_LONGEST_REFUSAL]


def _name(error: Exception) -> str:
    return type(error).__name__


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
