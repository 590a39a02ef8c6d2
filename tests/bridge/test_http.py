"""`POST /invocations` passes a recording to vLLM's transcription route; everything unknown is answered clearly."""

import json
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from tests.bridge.staging import Process, Stage, ping

RECORDING = bytes(range(256)) * 40


class TranscriptionServer(BaseHTTPRequestHandler):
    """vLLM's HTTP side: repeats the form it was sent, or has no such route."""

    offered = True
    seen: dict[str, Any]

    def do_GET(self) -> None:
        self.answer(200, b"")

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        type(self).seen = {"path": self.path, "type": self.headers["content-type"], "body": body}
        if self.offered:
            self.answer(200, b'{"text":"hello"}')
        else:
            self.answer(404, b'{"detail":"Not Found"}')

    def answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def transcriptions(port: int, *, offered: bool) -> Iterator[type[TranscriptionServer]]:
    handler = type("Handler", (TranscriptionServer,), {"offered": offered, "seen": {}})
    with ThreadingHTTPServer(("127.0.0.1", port), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield handler
        finally:
            server.shutdown()
            thread.join()


def call(bridge: Process, path: str, body: bytes | None, content_type: str) -> tuple[int, dict[str, Any]]:
    url = f"http://127.0.0.1:{bridge.port}{path}"
    request = urllib.request.Request(url, body, {"content-type": content_type})
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def test_recording_is_transcribed(stage: Stage) -> None:
    with transcriptions(stage.vllm_port, offered=True) as vllm:
        bridge = stage.bridge()
        assert call(bridge, "/invocations", RECORDING, "audio/wav") == (200, {"text": "hello"})
        assert vllm.seen["path"] == "/v1/audio/transcriptions"
        assert vllm.seen["type"].startswith("multipart/form-data; boundary=")
        assert b'name="file"' in vllm.seen["body"]
        assert RECORDING in vllm.seen["body"]

        form = b'--x\r\nContent-Disposition: form-data; name="model"\r\n\r\nm\r\n--x--\r\n'
        assert call(bridge, "/invocations", form, "multipart/form-data; boundary=x")[0] == 200
        assert (vllm.seen["body"], vllm.seen["type"]) == (form, "multipart/form-data; boundary=x")

        assert call(bridge, "/invocations", b"{}", "application/json")[0] == 415
        status, answer = call(bridge, "/invocations", b"x" * (25 * 1024 * 1024 + 1), "audio/wav")
        assert (status, answer["code"]) == (413, "too_large")


def test_model_without_transcriptions_says_so(stage: Stage) -> None:
    with transcriptions(stage.vllm_port, offered=False):
        bridge = stage.bridge()
        status, answer = call(bridge, "/invocations", RECORDING, "audio/wav")
    assert (status, answer["code"]) == (501, "not_offered")
    assert "stream" in answer["error"]


@pytest.fixture(scope="module")
def lonely(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """A bridge whose vLLM never comes up."""
    stage = Stage(tmp_path_factory.mktemp("lonely"))
    try:
        yield stage.bridge(healthy=False, BRIDGE_REQUEST_TIMEOUT="1")
    finally:
        stage.close()


def exchange(bridge: Process, *pieces: bytes) -> bytes:
    """Send pieces one after the other on one connection and return all that comes until it is closed."""
    with socket.create_connection(("127.0.0.1", bridge.port), 10) as connection:
        answer = b""
        for piece in pieces:
            connection.sendall(piece)
            if piece.endswith(b"\r\n\r\n"):
                connection.settimeout(0.3)
                with suppress(TimeoutError):
                    answer += connection.recv(65536)
                connection.settimeout(10)
        while data := connection.recv(65536):
            answer += data
    return answer


def test_no_vllm_and_unknown_routes(lonely: Process) -> None:
    assert call(lonely, "/invocations", RECORDING, "audio/wav")[0] == 502
    assert ping(lonely.port) == 503
    for path in ("/", "/v1/models", "/docs", "/openapi.json"):
        status, answer = call(lonely, path, None, "")
        assert (status, answer["code"]) == (404, "unknown_route")
        assert path in answer["error"]
    assert call(lonely, "/ping", b"", "")[0] == 404


@pytest.mark.parametrize("path", ["/v1/realtime", "/invocations-bidirectional-stream"])
def test_websocket_path_without_upgrade(lonely: Process, path: str) -> None:
    assert call(lonely, path, None, "")[0] == 404


def test_recording_in_chunks_after_the_bridge_said_to_go_on(lonely: Process) -> None:
    """As some proxies and curl send a large body."""
    head = b"POST /invocations HTTP/1.1\r\nHost: x\r\nContent-Type: audio/wav\r\nTransfer-Encoding: chunked\r\n"
    answer = exchange(lonely, head + b"Expect: 100-continue\r\n\r\n", b"5\r\nabcde\r\n", b"1\r\nf\r\n0\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 100 ")
    assert b"HTTP/1.1 502 " in answer
    assert b"upstream_unavailable" in answer


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"\x16\x03\x01 TLS?\r\n\r\n",
        b"GET / HTTP/1.1\r\nno colon\r\n\r\n",
        b"x" * 99_999,
        b"GET / HTTP/1.1\r\n" + b"more: headers\r\n" * 50_000,
    ],
)
def test_what_is_no_http_request_is_refused(lonely: Process, request_bytes: bytes) -> None:
    answer = exchange(lonely, request_bytes)
    assert answer.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 431 "))
    assert b"bad_request" in answer


def test_the_head_alone_can_be_asked_for(lonely: Process) -> None:
    head, _, body = exchange(lonely, b"HEAD / HTTP/1.1\r\nHost: x\r\n\r\n").partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 404 ")
    assert body == b""


def test_a_handshake_is_a_get(lonely: Process) -> None:
    head = b"POST /v1/realtime HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    answer = exchange(
        lonely, head + b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
    assert answer.startswith(b"HTTP/1.1 404 ")


def test_a_broken_handshake_is_refused(lonely: Process) -> None:
    head = b"GET /v1/realtime HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
    assert exchange(lonely, head).startswith(b"HTTP/1.1 400 ")


def test_a_request_that_never_ends_does_not_hold_a_connection(lonely: Process) -> None:
    answer = exchange(lonely, b"POST /invocations HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n", b"123")
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b"request_timeout" in answer
