"""HTTP/1.1 on asyncio's streams, one request and its answer a connection: the container's port, and vLLM's."""

import asyncio
import json
from typing import NamedTuple, cast

import h11

MAX_BODY_BYTES = 25 * 1024 * 1024
"""Of a request or an answer: SageMaker's own limit of an InvokeEndpoint body."""

_READ_BYTES = 64 * 1024


class Answer(NamedTuple):
    """An HTTP answer."""

    status: int
    body: bytes = b""
    content_type: str = "application/json"
    error: str = ""
    """What went wrong, for people, when the answer is the bridge's own."""

    @classmethod
    def failure(cls, status: int, code: str, message: str) -> "Answer":
        """An error in the shape that the stream's `error` events have."""
        return cls(status, json.dumps({"error": message, "code": code}).encode(), error=message)

    def head(self) -> h11.Response:
        """The head of the only answer on a connection."""
        headers = [
            ("content-type", self.content_type),
            ("content-length", str(len(self.body))),
            ("connection", "close"),
        ]
        return h11.Response(status_code=self.status, headers=headers)


async def read_message(
    http: h11.Connection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> tuple[h11.Request | h11.Response, bytes]:
    """Return the head and the body of the peer's next message; the caller has a deadline.

    Raises:
        OSError: the connection broke, or was closed before anything was said.
        h11.RemoteProtocolError: the peer does not speak HTTP, says too much or ends early.
    """
    head: h11.Request | h11.Response | None = None
    body = bytearray()
    while not isinstance(event := http.next_event(), h11.EndOfMessage):
        if event is h11.NEED_DATA:
            if http.they_are_waiting_for_100_continue:
                writer.write(http.send(h11.InformationalResponse(status_code=100, headers=[])) or b"")
            http.receive_data(await reader.read(_READ_BYTES))
        elif isinstance(event, h11.Request | h11.Response):
            head = event
        elif isinstance(event, h11.Data) and len(body) <= MAX_BODY_BYTES:
            body += event.data  # one that is too large is read to its end: closing before would lose the answer
        elif isinstance(event, h11.ConnectionClosed):
            break
    if len(body) > MAX_BODY_BYTES:
        raise h11.RemoteProtocolError(f"a body may have {MAX_BODY_BYTES} bytes", error_status_hint=413)
    if head is None:
        raise ConnectionResetError("the connection was closed before anything was said")
    return head, bytes(body)


def message(http: h11.Connection, head: h11.Request | h11.Response, body: bytes) -> bytes:
    """Return a whole message, to be written."""
    return b"".join(http.send(event) or b"" for event in (head, h11.Data(body), h11.EndOfMessage()))


async def ask_vllm(
    port: int, method: str, path: str, *, limit: float, content_type: str = "", body: bytes = b""
) -> Answer:
    """Send one request to vLLM on loopback and return its answer; 502 or 504 when none came within `limit` seconds."""
    headers = [("host", "127.0.0.1"), ("connection", "close")]
    if body:
        headers += [("content-length", str(len(body))), ("content-type", content_type)]
    try:
        async with asyncio.timeout(limit):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                http = h11.Connection(h11.CLIENT)
                # Not waited for: the answer may come before all of it is read.
                writer.write(message(http, h11.Request(method=method, target=path, headers=headers), body))
                head, answer = await read_message(http, reader, writer)
            finally:
                writer.transport.abort()
    except TimeoutError:
        return Answer.failure(504, "timeout", f"vLLM did not answer {path} within {limit:g} s")
    except (OSError, h11.RemoteProtocolError) as error:
        return Answer.failure(502, "upstream_unavailable", f"vLLM cannot be asked for {path}: {type(error).__name__}")
    content_type = dict(head.headers).get(b"content-type", b"").decode("latin-1")
    return Answer(cast("h11.Response", head).status_code, answer, content_type)
