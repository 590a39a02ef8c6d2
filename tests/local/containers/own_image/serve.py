"""The smallest container for bidirectional streaming: answers /ping and /invocations, and sends back what it hears."""

import asyncio
import os
import signal
import sys
from http import HTTPStatus

from websockets.asyncio.server import ServerConnection, serve
from websockets.http11 import Request, Response


def answer_http(connection: ServerConnection, request: Request) -> Response | None:
    """Answer plain requests; None goes on to the WebSocket."""
    if request.path == "/ping":
        # SICK makes it a container that never becomes healthy.
        status = HTTPStatus.SERVICE_UNAVAILABLE if "SICK" in os.environ else HTTPStatus.OK
        return connection.respond(status, "")
    return None


async def echo(stream: ServerConnection) -> None:
    """Send every message back, text as text and bytes as bytes."""
    async for message in stream:
        await stream.send(message)


async def main() -> None:
    """Serve until SIGTERM."""
    assert sys.argv[1:] == ["serve"], "SageMaker runs IMAGE serve"
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    # PORT_ANYWAY makes it a container that does not listen to SAGEMAKER_BIND_TO_PORT.
    port = int(os.environ.get("PORT_ANYWAY") or os.environ.get("SAGEMAKER_BIND_TO_PORT", "8080"))
    async with serve(echo, "127.0.0.1", port, process_request=answer_http):
        print(f"echo container on port {port}, greeting {os.environ.get('GREETING')}")
        await ended.wait()
    print("good bye")


if __name__ == "__main__":
    asyncio.run(main())
