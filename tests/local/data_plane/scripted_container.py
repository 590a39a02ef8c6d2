"""A small real container: a WebSocket and HTTP server on loopback whose paths each behave in one way."""

import asyncio
import base64
import contextlib
import hashlib
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
                await self.reading.wait()
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
        if path.startswith("/accept-after/"):
            await asyncio.sleep(int(path.rpartition("/")[2]) / 1000)
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


@contextlib.asynccontextmanager
async def late_closer(last_words: bytes, *, close: bool = True) -> AsyncIterator[int]:
    """A WebSocket server by hand: after the peer's close frame it sends one message more, then (or never) its own.

    The websockets library answers a close frame at once, so it cannot play this part.
    """
    done = asyncio.Event()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        key = next(line for line in head.split("\r\n") if line.lower().startswith("sec-websocket-key")).split(": ")[1]
        accept = base64.b64encode(hashlib.sha1(f"{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11".encode()).digest()).decode()  # noqa: S324 - RFC 6455
        upgrade = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        writer.write(f"{upgrade}Sec-WebSocket-Accept: {accept}\r\n\r\n".encode())
        first = await reader.readexactly(2)
        assert first[0] == 0x88, "the first frame must be the close frame"
        await asyncio.sleep(0.05)
        writer.write(bytes([0x82, len(last_words)]) + last_words)
        if close:
            writer.write(b"\x88\x02\x03\xe8")
        else:
            await done.wait()
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        done.set()
        server.close()
