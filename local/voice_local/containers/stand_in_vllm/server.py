"""The HTTP side of the stand-in: the routes of vLLM that the bridge and its users ask for."""

import time
from typing import Any

from fastapi import FastAPI, Response, WebSocket

from voice_local.containers.stand_in_vllm.session import RealtimeService, RealtimeSession


def vllm_app(service: RealtimeService) -> FastAPI:
    """Return the application; its engine is warm, so `/health` says 200 from the first moment."""
    app = FastAPI(title="vLLM stand-in", openapi_url=None)
    started = int(time.time())

    @app.get("/health")
    async def health() -> Response:
        return Response(status_code=200)

    @app.get("/version")
    async def version() -> dict[str, str]:
        return {"version": service.release.name}

    @app.get("/v1/models")
    async def models() -> dict[str, Any]:
        return {
            "object": "list",
            "data": [
                {
                    "id": name,
                    "object": "model",
                    "created": started,
                    "owned_by": "vllm",
                    "root": service.served_model_names[0],
                    "parent": None,
                    "max_model_len": service.max_model_len,
                }
                for name in service.served_model_names
            ],
        }

    @app.websocket("/v1/realtime")
    async def realtime(websocket: WebSocket) -> None:
        await RealtimeSession(websocket, service).run()

    return app
