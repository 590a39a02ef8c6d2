"""Serves the page on loopback until it is told to end."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager

import uvicorn
from starlette.types import ASGIApp

from voice_client.errors import BadInputError
from voice_client.ui.settings import PageSettings

HOST = "127.0.0.1"

_START_SECONDS = 30.0
"""From the start of the server to its being ready; Gradio's own start-up takes a second or two."""


def listening_socket(port: int) -> socket.socket:
    """Return a socket that listens on loopback; port 0 takes a free one.

    Raises:
        BadInputError: the port is taken, or this user may not have it.
    """
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((HOST, port))
        listener.listen(128)
    except (OSError, OverflowError) as error:
        listener.close()
        said = error.strerror if isinstance(error, OSError) else str(error)
        raise BadInputError(
            f"the page cannot listen on {HOST}:{port}: {said}", advice="Choose another port with --port"
        ) from error
    return listener


@asynccontextmanager
async def serving(app: ASGIApp, listener: socket.socket, settings: PageSettings) -> AsyncGenerator[asyncio.Task[None]]:
    """Serve an application; yields the serving task when it is ready, and ends it at the end of the block."""
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        ws="websockets-sansio",
        ws_max_size=settings.largest_message,
        ws_ping_interval=settings.ping_every,
        ws_ping_timeout=settings.ping_answer,
        ws_per_message_deflate=False,
        timeout_graceful_shutdown=max(1, round(settings.shutdown)),
        server_header=False,
        proxy_headers=False,
    )
    server = _Server(config)
    task = asyncio.create_task(server.serve(sockets=[listener]), name="page-server")
    try:
        async with asyncio.timeout(_START_SECONDS):
            while not server.started and not task.done():  # noqa: ASYNC110 - uvicorn offers nothing to wait for
                await asyncio.sleep(0.02)
        if task.done():
            task.result()
            raise BadInputError("the page's server ended while it started")
        yield task
    finally:
        server.should_exit = True
        await asyncio.wait({task})
        listener.close()


class _Server(uvicorn.Server):
    """A server that leaves the signals to the command that runs it."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        """Capture none."""
        yield
