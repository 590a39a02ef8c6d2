"""The HTTP side of the stand-in: the routes that container v1.5 lets through on its port."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request, Response, WebSocket

from voice_local.containers.stand_in_omni.plain_request import SPEECH_ROUTE, answer_invocation, answer_speech
from voice_local.containers.stand_in_omni.request import VOICES
from voice_local.containers.stand_in_omni.session import SpeechService, SpeechSession


def omni_app(service: SpeechService) -> FastAPI:
    """Return the application, its voice started by the caller and let go of here.

    `/ping` says 200 from the first moment, so that InService means warm.

    A WebSocket on any other path, the default `/invocations-bidirectional-stream` among them, is refused at the
    handshake with HTTP 403, as the container's router does.
    """

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncGenerator[None]:
        yield
        await service.voice.aclose()

    app = FastAPI(title="vLLM-Omni stand-in", openapi_url=None, lifespan=lifespan)

    @app.get("/ping")
    @app.get("/health")
    async def ping() -> Response:
        return Response(status_code=200)

    @app.get("/v1/models")
    async def models() -> dict[str, Any]:
        return {"object": "list", "data": [{"id": service.model, "object": "model", "owned_by": "vllm-omni"}]}

    @app.get("/v1/audio/voices")
    async def voices() -> dict[str, list[str]]:
        return {"voices": list(VOICES)}

    @app.post("/invocations")
    async def invocations(request: Request) -> Response:
        return await answer_invocation(request, service)

    @app.post(SPEECH_ROUTE)
    async def whole_speech(request: Request) -> Response:
        return await answer_speech(request, service)

    @app.websocket("/v1/audio/speech/stream")
    async def speech_stream(websocket: WebSocket) -> None:
        await SpeechSession(websocket, service).run()

    return app
