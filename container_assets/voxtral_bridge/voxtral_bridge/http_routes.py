"""The plain HTTP side of the container: `/ping`, and InvokeEndpoint's `/invocations`."""

import asyncio
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response

from voxtral_bridge.health import HealthProbe
from voxtral_bridge.settings import BridgeSettings

MAX_INVOCATION_BYTES = 25 * 1024 * 1024
"""SageMaker's own limit of an InvokeEndpoint body."""


def _error(status: int, code: str, message: str) -> JSONResponse:
    return JSONResponse({"error": message, "code": code}, status)


def create_app(settings: BridgeSettings, probe: HealthProbe) -> FastAPI:
    """Return the application; WebSockets never reach it, `ClientSocket` takes them before."""
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)

    @app.get("/ping")
    async def ping() -> Response:
        if probe.healthy:
            return Response(status_code=200)
        return _error(503, "not_ready", probe.detail)

    @app.post("/invocations")
    async def invocations(request: Request) -> Response:
        body = bytearray()
        async for chunk in request.stream():
            body += chunk
            if len(body) > MAX_INVOCATION_BYTES:
                return _error(413, "too_large", f"a body may have {MAX_INVOCATION_BYTES} bytes: stream longer audio")
        try:
            async with asyncio.timeout(settings.invocation_timeout):
                return await _transcribe(settings, bytes(body), request.headers.get("content-type", ""))
        except TimeoutError:
            return _error(504, "timeout", f"vLLM did not answer within {settings.invocation_timeout:g} s")

    @app.exception_handler(404)
    @app.exception_handler(405)
    async def unknown_route(request: Request, _: Exception) -> Response:
        text = f"{request.method} {request.url.path} is not served here: GET /ping, POST /invocations, or a WebSocket"
        return _error(404, "unknown_route", text)

    return app


async def _transcribe(settings: BridgeSettings, body: bytes, content_type: str) -> Response:
    """Pass one recording to vLLM's transcription route, as a form when the client sent bare audio."""
    import httpx  # noqa: PLC0415 - only here, so that a bridge that only streams does not carry it

    content: dict[str, Any]
    if content_type.startswith("multipart/form-data"):
        content = {"content": body, "headers": {"content-type": content_type}}
    elif content_type.startswith("audio/") or content_type == "application/octet-stream":
        content = {"files": {"file": ("audio", body, content_type)}}
    else:
        text = f"send a recording (audio/*) or a multipart form with `file`, not {content_type[:60] or 'no type'!r}"
        return _error(415, "unsupported_media_type", text)
    url = f"http://127.0.0.1:{settings.vllm_port}/v1/audio/transcriptions"
    try:
        async with httpx.AsyncClient(trust_env=False, timeout=None) as client:  # noqa: S113 - the caller has a deadline
            answer = await client.post(url, **content)
    except httpx.HTTPError as error:
        return _error(502, "upstream_unavailable", f"vLLM cannot be reached: {type(error).__name__}")
    if answer.status_code in (404, 405, 501):
        text = "this model transcribes streams only: open a bidirectional stream instead of InvokeEndpoint"
        return _error(501, "not_offered", text)
    return Response(answer.content, answer.status_code, media_type=answer.headers.get("content-type"))
