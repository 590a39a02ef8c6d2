"""What the container answers to plain HTTP: `/ping`, and InvokeEndpoint's `/invocations`."""

import secrets

import h11

from voxtral_bridge.health import HealthProbe
from voxtral_bridge.http_messages import Answer, ask_vllm
from voxtral_bridge.settings import BridgeSettings


async def answer_to(request: h11.Request, body: bytes, settings: BridgeSettings, probe: HealthProbe) -> Answer:
    """Answer a request that is no WebSocket's."""
    method, path = request.method.decode(), request.target.decode().partition("?")[0]
    match method, path:
        case "GET", "/ping":
            return Answer(200) if probe.healthy else Answer.failure(503, "not_ready", probe.detail)
        case "POST", "/invocations":
            content_type = dict(request.headers).get(b"content-type", b"").decode("latin-1")
            return await _transcribe(body, content_type, settings)
    text = f"{method} {path} is not served here: GET /ping, POST /invocations, or a WebSocket"
    answer = Answer.failure(404, "unknown_route", text)
    return answer._replace(body=b"") if method == "HEAD" else answer  # which has none by HTTP's rules


async def _transcribe(body: bytes, content_type: str, settings: BridgeSettings) -> Answer:
    """Pass one recording to vLLM's transcription route, as a form when the client sent bare audio."""
    if content_type.startswith("audio/") or content_type == "application/octet-stream":
        # A multipart form with the recording as `file` (RFC 7578).
        boundary = secrets.token_hex(16)
        head = f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="audio"\r\n'
        head += f"Content-Type: {content_type}\r\n\r\n"
        body = b"".join((head.encode("latin-1"), body, f"\r\n--{boundary}--\r\n".encode()))
        content_type = f"multipart/form-data; boundary={boundary}"
    elif not content_type.startswith("multipart/form-data"):
        text = f"send a recording (audio/*) or a multipart form with `file`, not {content_type[:60] or 'no type'!r}"
        return Answer.failure(415, "unsupported_media_type", text)
    port, limit = settings.vllm_port, settings.invocation_timeout
    path = "/v1/audio/transcriptions"
    answer = await ask_vllm(port, "POST", path, limit=limit, content_type=content_type, body=body)
    if answer.status in (404, 405, 501):
        text = "this model transcribes streams only: open a bidirectional stream instead of InvokeEndpoint"
        return Answer.failure(501, "not_offered", text)
    return answer
