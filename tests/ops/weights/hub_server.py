"""A small hub on loopback: the listing, files behind a redirect to another origin, ranges, and faults on demand."""

import gzip
import hashlib
import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from types import TracebackType
from typing import Any, Self
from urllib.parse import unquote

from tests.ops.loopback_server import LoopbackServer, QuietHandler

LARGE = 1_000_000
"""Files from this size on are large ones, as LFS has them: known by their SHA-256, not by git's checksum."""


@dataclass
class Faults:
    """What goes wrong, by path of a file."""

    cut_after: dict[str, list[int]] = field(default_factory=dict)
    """The next answers end after so many bytes, though more was announced."""
    corrupt: Counter[str] = field(default_factory=Counter)
    """So many of the next complete answers hold a wrong byte."""
    unavailable: Counter[str] = field(default_factory=Counter)
    """So many of the next answers are 503."""
    no_ranges: bool = False
    """Every answer is the whole file."""
    shorter: Counter[str] = field(default_factory=Counter)
    """Storage holds so many bytes less than the hub lists: 416 for what lies beyond."""
    compressed: bool = False
    """Storage answers with gzip, whatever it was asked for."""
    in_a_circle: bool = False
    """Storage sends whoever comes back to itself."""
    listing: bytes | None = None
    """What the hub says instead of its list of files."""
    asks_to_wait: list[int] = field(default_factory=list)
    """The next answers of the hub are 429, with so many seconds to wait."""


class HubServer:
    """One model at one commit, on two ports: the hub, and the storage that it redirects to."""

    def __init__(self, model: str, files: Mapping[str, bytes], *, token: str | None = None) -> None:
        self.model = model
        self.files = dict(files)
        self.commit = _sha1(repr(sorted(files)).encode())
        self.token = token
        self.faults = Faults()
        self.asked: list[tuple[str, str]] = []
        """(path of the file, the range that was asked for), of every request that reached the storage."""
        self.tokens_at_storage: list[str] = []
        self._hub = _serve(self._answer_hub)
        self._storage = _serve(self._answer_storage)

    @property
    def url(self) -> str:
        return self._hub.url

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        for server in (self._hub, self._storage):
            server.close()

    def _answer_hub(self, request: BaseHTTPRequestHandler) -> None:
        if self.faults.asks_to_wait:
            _send(request, 429, b"too many", {"Retry-After": str(self.faults.asks_to_wait.pop(0))})
        elif self.token is not None and request.headers.get("Authorization") != f"Bearer {self.token}":
            _send(request, 401, b"gated")
        elif re.fullmatch(rf"/api/models/{self.model}/revision/(main|{self.commit})\?blobs=true", request.path):
            told = self.faults.listing
            _send(request, 200, json.dumps(self._listing()).encode() if told is None else told)
        elif request.path.startswith(root := f"/{self.model}/resolve/{self.commit}/"):
            request.send_response(302)
            request.send_header("Location", f"{self._storage.url}/{request.path[len(root) :]}")
            request.send_header("Content-Length", "0")
            request.end_headers()
        else:
            _send(request, 404, b"not found")

    def _listing(self) -> dict[str, Any]:
        siblings = []
        for path, content in self.files.items():
            entry: dict[str, Any] = {"rfilename": path, "size": len(content)}
            if len(content) >= LARGE:
                entry["blobId"] = _sha1(f"pointer to {path}".encode())
                entry["lfs"] = {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content), "pointerSize": 134}
            else:
                entry["blobId"] = _sha1(b"blob %d\0" % len(content) + content)
            siblings.append(entry)
        return {"id": self.model, "sha": self.commit, "gated": self.token is not None, "siblings": siblings}

    def _answer_storage(self, request: BaseHTTPRequestHandler) -> None:
        path = unquote(request.path[1:])
        asked = request.headers.get("Range", "")
        self.asked.append((path, asked))
        if given := request.headers.get("Authorization"):
            self.tokens_at_storage.append(given)
        if self.faults.unavailable[path]:
            self.faults.unavailable[path] -= 1
            _send(request, 503, b"slow down")
            return
        if self.faults.in_a_circle:
            _send(request, 302, b"", {"Location": request.path})
            return
        if self.faults.compressed:
            _send(request, 200, gzip.compress(self.files[path]), {"Content-Encoding": "gzip"})
            return
        content = self.files[path][: len(self.files[path]) - self.faults.shorter[path]]
        begin = int(asked.removeprefix("bytes=").removesuffix("-")) if asked and not self.faults.no_ranges else 0
        if begin and begin >= len(content):
            _send(request, 416, b"", {"Content-Range": f"bytes */{len(content)}"})
            return
        body = bytearray(content[begin:])
        cuts = self.faults.cut_after.get(path, [])
        if self.faults.corrupt[path] and not cuts:
            self.faults.corrupt[path] -= 1
            body[len(body) // 2] ^= 1
        request.send_response(206 if begin else 200)
        if begin:
            request.send_header("Content-Range", f"bytes {begin}-{len(content) - 1}/{len(content)}")
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body[: cuts.pop(0)] if cuts else body)
        request.close_connection = True


def _sha1(content: bytes) -> str:
    return hashlib.sha1(content, usedforsecurity=False).hexdigest()


def _serve(answer: Any) -> LoopbackServer:
    class Handler(QuietHandler):
        def do_GET(self) -> None:  # noqa: N802 - the name http.server looks for
            answer(self)

    return LoopbackServer(Handler)


def _send(request: BaseHTTPRequestHandler, status: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
    request.send_response(status)
    for name, value in (headers or {}).items():
        request.send_header(name, value)
    request.send_header("Content-Length", str(len(body)))
    request.end_headers()
    request.wfile.write(body)
