"""A container for transport tests: a WebSocket server whose behaviour is chosen by the path. Prints its port."""

import asyncio
import contextlib
import sys
from http import HTTPStatus
from urllib.parse import parse_qs, urlsplit

from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response


async def handshake(connection: ServerConnection, request: Request) -> Response | None:
    path = urlsplit(request.path).path
    if path == "/refuse":
        return connection.respond(HTTPStatus.FORBIDDEN, "not today\n")
    if path == "/slow-accept":
        await asyncio.sleep(30)
    return None


async def behave(connection: ServerConnection) -> None:
    assert connection.request is not None
    url = urlsplit(connection.request.path)
    query = {name: values[0] for name, values in parse_qs(url.query).items()}
    with contextlib.suppress(ConnectionClosed):
        match url.path:
            case "/echo" | "/invocations-bidirectional-stream":
                async for message in connection:
                    await connection.send(message)
            case "/bye":
                await connection.send("bye")
            case "/count":
                count = 0
                async for message in connection:
                    count += 1
                    if message == "how many":
                        await connection.send(str(count))
            case "/break":
                await connection.recv()
                await connection.close(int(query["code"]), "broken on request")
            case "/flood":
                size = int(query["size"])
                for number in range(int(query["count"])):
                    await connection.send(number.to_bytes(4) + bytes(size - 4))
            case "/deaf":  # takes nothing from its socket, ever
                connection.transport.pause_reading()
                await asyncio.sleep(float(query.get("seconds", 300)))
            case "/text-or-bytes":
                await connection.send("Grüße")
                await connection.send(b"\x00\xff")
                await connection.send("")
                await connection.send(b"x" * 1_000_000)


async def main() -> None:
    async with serve(
        behave, "127.0.0.1", 0, process_request=handshake, compression=None, max_size=None, close_timeout=1
    ) as server:
        sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
        sys.stdout.flush()
        await asyncio.get_running_loop().create_future()


asyncio.run(main())
