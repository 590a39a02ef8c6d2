"""The container's port: plain HTTP requests are answered, WebSocket handshakes handed over."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import NamedTuple, cast

import h11

from voxtral_bridge.web_socket import MAX_HEAD_BYTES, ClientSocket


class HttpRequest(NamedTuple):
    """A whole request."""

    method: str
    path: str
    content_type: str
    body: bytes


class Answer(NamedTuple):
    """An HTTP answer."""

    status: int
    body: bytes = b""
    content_type: str = "application/json"

    @classmethod
    def error(cls, status: int, code: str, message: str) -> "Answer":
        """An error in the shape that the stream's `error` events have."""
        return cls(status, json.dumps({"error": message, "code": code}).encode())


class HttpConnection(asyncio.Protocol):
    """One connection, for one request.

    `upgrade` gives the socket that takes over a handshake for a path, None when there is none there; a request whose
    body is over `max_body_bytes` is answered with 413.
    """

    def __init__(
        self,
        answer: Callable[[HttpRequest], Awaitable[Answer]],
        upgrade: Callable[[str], ClientSocket | None],
        *,
        max_body_bytes: int,
        timeout: float,
    ) -> None:
        self._answer = answer
        self._upgrade = upgrade
        self._max_body_bytes = max_body_bytes
        self._timeout = timeout
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD_BYTES)
        self._head = b""
        self._request: h11.Request | None = None
        self._body = bytearray()
        self._too_large = False
        self._transport: asyncio.Transport
        self._deadline: asyncio.TimerHandle
        self._answering: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._deadline = asyncio.get_running_loop().call_later(self._timeout, self._give_up)

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._deadline.cancel()
        if self._answering is not None:
            self._answering.cancel()

    def eof_received(self) -> bool:
        return self._answering is not None  # who has sent a request may close that half and wait for the answer

    def data_received(self, data: bytes) -> None:
        if self._request is None:
            self._head += data
        try:
            self._http.receive_data(data)
            while (event := self._http.next_event()) not in (h11.NEED_DATA, h11.PAUSED):
                if isinstance(event, h11.Request):
                    if self._hand_over(event):
                        return
                    self._request, self._head = event, b""
                    if self._http.they_are_waiting_for_100_continue:
                        self._write(h11.InformationalResponse(status_code=100, headers=[]))
                elif isinstance(event, h11.Data):
                    # One that is too large is read to its end all the same: closing before would lose the answer.
                    self._too_large = self._too_large or len(self._body) + len(event.data) > self._max_body_bytes
                    if not self._too_large:
                        self._body += event.data
                elif isinstance(event, h11.EndOfMessage):
                    self._answering = asyncio.get_running_loop().create_task(self._respond())
        except h11.RemoteProtocolError as error:
            self._send(Answer.error(error.error_status_hint, "bad_request", f"this is no HTTP request: {error}"))

    def _hand_over(self, request: h11.Request) -> bool:
        if dict(request.headers).get(b"upgrade", b"").lower() != b"websocket":
            return False
        socket = self._upgrade(request.target.decode())
        if socket is None:
            return False
        self._deadline.cancel()
        self._transport.set_protocol(socket)
        socket.connection_made(self._transport)
        socket.receive(self._head)
        return True

    def _give_up(self) -> None:
        text = f"the request did not arrive whole within {self._timeout:g} s"
        self._send(Answer.error(HTTPStatus.REQUEST_TIMEOUT, "request_timeout", text))

    async def _respond(self) -> None:
        request = cast("h11.Request", self._request)
        if self._too_large:
            text = f"a body may have {self._max_body_bytes} bytes: stream longer audio"
            self._send(Answer.error(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "too_large", text))
            return
        headers = dict(request.headers)
        content_type = headers.get(b"content-type", b"").decode("latin-1")
        path = request.target.decode().partition("?")[0]
        self._send(await self._answer(HttpRequest(request.method.decode(), path, content_type, bytes(self._body))))

    def _send(self, answer: Answer) -> None:
        headers = [
            ("content-type", answer.content_type),
            ("content-length", str(len(answer.body))),
            ("connection", "close"),
        ]
        self._deadline.cancel()
        self._write(h11.Response(status_code=answer.status, headers=headers))
        self._write(h11.Data(answer.body))
        self._write(h11.EndOfMessage())
        self._transport.close()

    def _write(self, event: h11.Event) -> None:
        if data := self._http.send(event):
            self._transport.write(data)
