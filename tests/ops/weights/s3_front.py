"""Stands before an S3 server and answers in its place when a test says so: slow down, no access, not yet."""

import http.client
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urlsplit

from tests.ops.loopback_server import LoopbackServer, QuietHandler


@dataclass(frozen=True, slots=True)
class Refusal:
    """What S3 answers instead: an HTTP status and its error code."""

    status: int
    code: str


Choice = Callable[[str, str], Refusal | None]
"""From method and path with query to what is answered; None: S3 itself answers."""


class S3Front(LoopbackServer):
    """Passes requests on to `url`, but for those that `refuse` chooses; keeps what was asked."""

    def __init__(self, url: str, refuse: Choice = lambda _method, _path: None, *, delay_seconds: float = 0.0) -> None:
        self.asked: list[tuple[str, str]] = []
        self.arrived = threading.Event()
        """Set by the first part of an upload."""
        self._behind = urlsplit(url).netloc
        self._refuse = refuse
        self._delay_seconds = delay_seconds
        super().__init__(self._handler())

    def count(self, method: str, part: str) -> int:
        """Return how many requests of a method had this in their path or query."""
        return sum(1 for asked, path in self.asked if asked == method and part in path)

    def _handler(self) -> type[QuietHandler]:
        front = self

        class Handler(QuietHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:  # noqa: N802 - the name http.server looks for
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                front.asked.append((self.command, self.path))
                if "partNumber=" in self.path and self.command == "PUT":
                    front.arrived.set()
                    time.sleep(front._delay_seconds)
                refusal = front._refuse(self.command, self.path)
                if refusal is not None:
                    self.say(refusal.status, [], f"<Error><Code>{refusal.code}</Code></Error>".encode())
                    return
                connection = http.client.HTTPConnection(front._behind, timeout=30)
                try:
                    connection.request(self.command, self.path, body, dict(self.headers.items()))
                    answer = connection.getresponse()
                    content = answer.read()
                    length = answer.headers.get("Content-Length") if self.command == "HEAD" else None
                    self.say(answer.status, answer.getheaders(), content, length)
                finally:
                    connection.close()

            do_HEAD = do_PUT = do_POST = do_DELETE = do_GET  # noqa: N815 - the names http.server looks for

            def say(self, status: int, headers: list[tuple[str, str]], body: bytes, length: str | None = None) -> None:
                self.send_response(status)
                for name, value in headers:
                    if name.lower() not in {"content-length", "connection", "transfer-encoding", "date", "server"}:
                        self.send_header(name, value)
                self.send_header("Content-Length", length or str(len(body)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)

        return Handler
