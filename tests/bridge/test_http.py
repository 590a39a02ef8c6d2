"""`POST /invocations` passes a recording to vLLM's transcription route; everything unknown is answered clearly."""

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
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


def test_no_vllm_and_unknown_routes(stage: Stage) -> None:
    bridge = stage.bridge(healthy=False)
    assert call(bridge, "/invocations", RECORDING, "audio/wav")[0] == 502
    assert ping(bridge.port) == 503
    for path in ("/", "/v1/models", "/docs", "/openapi.json"):
        status, answer = call(bridge, path, None, "")
        assert (status, answer["code"]) == (404, "unknown_route")
        assert path in answer["error"]
    assert call(bridge, "/ping", b"", "")[0] == 404


@pytest.mark.parametrize("path", ["/v1/realtime", "/invocations-bidirectional-stream"])
def test_websocket_path_without_upgrade(stage: Stage, path: str) -> None:
    bridge = stage.bridge(healthy=False)
    assert call(bridge, path, None, "")[0] == 404
