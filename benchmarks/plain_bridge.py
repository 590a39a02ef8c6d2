"""The bridge one would write first, on FastAPI, uvicorn and `websockets`: what benchmarks/bridge.py compares with.

It relays and nothing else: no limit, no half-close, no error event, no log line of a session.
"""

import asyncio
import os

import uvicorn
from fastapi import FastAPI, Response, WebSocket, WebSocketDisconnect
from websockets.asyncio.client import ClientConnection, connect

VLLM_PORT = int(os.environ["VLLM_PORT"])

app = FastAPI()


@app.get("/ping")
async def ping() -> Response:
    """Answer at once: the benchmark starts the upstream first."""
    return Response(status_code=200)


async def _client_to_vllm(client: WebSocket, vllm: ClientConnection) -> None:
    try:
        while True:
            message = await client.receive()
            if message["type"] == "websocket.disconnect":
                break
            data = message.get("text")
            if data is None:
                data = message["bytes"].decode()
            await vllm.send(data)
    finally:
        await vllm.close()


async def _vllm_to_client(client: WebSocket, vllm: ClientConnection) -> None:
    async for message in vllm:
        if isinstance(message, str):
            await client.send_text(message)
        else:
            await client.send_bytes(message)


@app.websocket("/invocations-bidirectional-stream")
async def relay(client: WebSocket) -> None:
    """Join a client to a session of the upstream until either side ends."""
    await client.accept()
    async with connect(f"ws://127.0.0.1:{VLLM_PORT}/v1/realtime", proxy=None, max_size=None) as vllm:
        tasks = {
            asyncio.create_task(_client_to_vllm(client, vllm)),
            asyncio.create_task(_vllm_to_client(client, vllm)),
        }
        _, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in pending:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    try:
        await client.close()
    except (RuntimeError, WebSocketDisconnect):
        return  # the client closed first


if __name__ == "__main__":
    uvicorn.run(app, host="127.0.0.1", port=int(os.environ["BRIDGE_PORT"]), log_level="warning", access_log=False)
