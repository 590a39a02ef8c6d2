"""What the container answers to plain HTTP: `/ping`, and InvokeEndpoint's `/invocations`."""

import asyncio
import secrets

import h11

from voxtral_bridge.health import HealthProbe
from voxtral_bridge.http_server import Answer, HttpRequest
from voxtral_bridge.settings import BridgeSettings
from voxtral_bridge.vllm_http import ask_vllm

MAX_INVOCATION_BYTES = 25 * 1024 * 1024
"""SageMaker's own limit of an InvokeEndpoint body."""


class HttpRoutes:
    """Answers requests; WebSockets never come here."""

    def __init__(self, settings: BridgeSettings, probe: HealthProbe) -> None:
        self._settings = settings
        self._probe = probe

    async def answer(self, request: HttpRequest) -> Answer:
        match request.method, request.path:
            case "GET", "/ping":
                return Answer(200) if self._probe.healthy else Answer.error(503, "not_ready", self._probe.detail)
            case "POST", "/invocations":
                return await self._transcribe(request)
        text = f"{request.method} {request.path} is not served here: GET /ping, POST /invocations, or a WebSocket"
        return Answer.error(404, "unknown_route", text)

    async def _transcribe(self, request: HttpRequest) -> Answer:
        """Pass one recording to vLLM's transcription route, as a form when the client sent bare audio."""
        body, content_type = request.body, request.content_type
        if content_type.startswith("audio/") or content_type == "application/octet-stream":
            body, content_type = _form(body, content_type)
        elif not content_type.startswith("multipart/form-data"):
            text = f"send a recording (audio/*) or a multipart form with `file`, not {content_type[:60] or 'no type'!r}"
            return Answer.error(415, "unsupported_media_type", text)
        limit = self._settings.invocation_timeout
        try:
            async with asyncio.timeout(limit):
                answer = await ask_vllm(
                    self._settings.vllm_port,
                    "POST",
                    "/v1/audio/transcriptions",
                    content_type=content_type,
                    body=body,
                )
        except TimeoutError:
            return Answer.error(504, "timeout", f"vLLM did not answer within {limit:g} s")
        except (OSError, h11.RemoteProtocolError) as error:
            return Answer.error(502, "upstream_unavailable", f"vLLM cannot be reached: {type(error).__name__}")
        if answer.status in (404, 405, 501):
            text = "this model transcribes streams only: open a bidirectional stream instead of InvokeEndpoint"
            return Answer.error(501, "not_offered", text)
        return answer


def _form(audio: bytes, content_type: str) -> tuple[bytes, str]:
    """Return a multipart form with the recording as `file` (RFC 7578), and its content type."""
    boundary = secrets.token_hex(16)
    head = f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="audio"\r\n'
    head += f"Content-Type: {content_type}\r\n\r\n"
    return b"".join((head.encode(), audio, f"\r\n--{boundary}--\r\n".encode())), (
        f"multipart/form-data; boundary={boundary}"
    )
