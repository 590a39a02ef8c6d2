"""A small real container: a WebSocket and HTTP server on loopback whose paths each behave in one way."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from http import HTTPStatus
from urllib.parse import urlsplit

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

type Message = str | bytes


@dataclass
class ScriptedContainer:
    """What the container saw, and how it is told to behave."""

    port: int = 0
    requests: list[str] = field(default_factory=list)
    """Path and query of each WebSocket handshake."""
    received: list[Message] = field(default_factory=list)
    close_codes: list[int | None] = field(default_factory=list)
    """How each socket ended, seen from the container."""
    open_sockets: int = 0
    reading: asyncio.Event = field(default_factory=asyncio.Event)
    """`/no-read` reads nothing until this is set."""

    async def handle(self, websocket: ServerConnection) -> None:
        assert websocket.request is not None
        self.requests.append(websocket.request.path)
        self.open_sockets += 1
        behaviour = urlsplit(websocket.request.path).path.strip("/").split("/")
        try:
            await self._behave(websocket, behaviour)
        except ConnectionClosed:
            pass
        finally:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(5):
                    await websocket.wait_closed()
            self.open_sockets -= 1
            self.close_codes.append(websocket.close_code)

    async def _behave(self, websocket: ServerConnection, behaviour: list[str]) -> None:
        match behaviour:
            case ["close-after", count, code]:
                for _ in range(int(count)):
                    await self._echo_one(websocket)
                await websocket.close(int(code), "as told")
            case ["die-after", count]:
                for _ in range(int(count)):
                    await self._echo_one(websocket)
                websocket.transport.abort()
            case ["no-read"]:
                await self.reading.wait()
                while True:
                    await self._echo_one(websocket)
            case ["flood", megabytes]:
                for _ in range(int(megabytes)):
                    await websocket.send(bytes(1024 * 1024))
                await websocket.close()
            case ["deaf"]:
                # Neither reads nor answers pings: the socket's receiving side stands still.
                websocket.transport.pause_reading()
                await asyncio.sleep(30)
            case ["silent"]:
                async for message in websocket:
                    self.received.append(message)
            case _:
                while True:
                    await self._echo_one(websocket)

    async def _echo_one(self, websocket: ServerConnection) -> None:
        message = await websocket.recv()
        self.received.append(message)
        await websocket.send(message)

    async def process_request(self, websocket: ServerConnection, request: Request) -> Response | None:
        path = urlsplit(request.path).path
        if path == "/refuse":
            return websocket.respond(HTTPStatus.FORBIDDEN, "no such model here\n")
        if path == "/redirect":
            response = websocket.respond(HTTPStatus.FOUND, "")
            response.headers["Location"] = f"ws://127.0.0.1:{self.port}/elsewhere"
            return response
        if path == "/slow":
            await asyncio.sleep(1)
        return None


@contextlib.asynccontextmanager
async def running_container() -> AsyncIterator[ScriptedContainer]:
    container = ScriptedContainer()
    server: Server
    async with serve(
        container.handle,
        "127.0.0.1",
        0,
        process_request=container.process_request,
        compression=None,
        max_size=None,
        ping_interval=None,
        close_timeout=1,
    ) as server:
        container.port = next(iter(server.sockets)).getsockname()[1]
        yield container
        container.reading.set()
