"""`python -m voxtral_bridge`: serve until SIGTERM, then let the sessions finish."""

import asyncio
import importlib
import os
import signal
import sys
from collections.abc import Coroutine
from typing import cast

from voxtral_bridge.errors import ConfigurationError
from voxtral_bridge.event_log import configure, log_event
from voxtral_bridge.health import HealthProbe, log_gauges
from voxtral_bridge.http_routes import MAX_INVOCATION_BYTES, HttpRoutes
from voxtral_bridge.http_server import HttpConnection
from voxtral_bridge.session import Ending, Session, refuse
from voxtral_bridge.settings import BridgeSettings
from voxtral_bridge.web_socket import ClientSocket

PATHS = ("/invocations-bidirectional-stream", "/v1/realtime")
"""SageMaker's default path, and vLLM's own, which a client may name as its model invocation path."""


class Bridge:
    """Listens on the container's port and admits clients up to the limit of sessions."""

    def __init__(self, settings: BridgeSettings) -> None:
        self._settings = settings
        self._probe = HealthProbe(settings)
        self._routes = HttpRoutes(settings, self._probe)
        self._sessions: set[Session] = set()
        self._clients: set[asyncio.Task[None]] = set()

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until `stop` is set, then let the sessions finish.

        Raises:
            OSError: the port cannot be listened on.
        """
        settings, loop = self._settings, asyncio.get_running_loop()
        server = await loop.create_server(self._connection, settings.host, settings.port, backlog=2048)
        log_event("starting", host=settings.host, port=settings.port, vllm_port=settings.vllm_port)
        background = [
            loop.create_task(it)
            for it in (self._probe.run(), log_gauges(settings, lambda: len(self._sessions)), self._tick())
        ]
        await stop.wait()
        server.close()
        for session in self._sessions:
            session.shut_down()
        if self._clients:
            await asyncio.wait(self._clients, timeout=settings.shutdown_limit)
        for task in background:
            task.cancel()
        log_event("stopped")

    def _connection(self) -> HttpConnection:
        return HttpConnection(
            self._routes.answer,
            self._socket,
            max_body_bytes=MAX_INVOCATION_BYTES,
            timeout=self._settings.request_timeout,
        )

    def _socket(self, path: str) -> ClientSocket | None:
        if path.partition("?")[0] not in PATHS:
            return None
        return ClientSocket(self._settings.max_message_bytes, self._admit)

    def _admit(self, client: ClientSocket) -> None:
        if len(self._sessions) >= self._settings.max_sessions:
            text = f"all {self._settings.max_sessions} sessions of this instance are in use; try again later"
            self._serve(refuse(client, self._settings, Ending("session_limit", 1013, "bridge", text)))
        else:
            session = Session(client, self._settings)
            self._sessions.add(session)
            task = self._serve(session.run(len(self._sessions)))
            task.add_done_callback(lambda _: self._sessions.discard(session))

    def _serve(self, client: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(client)
        self._clients.add(task)
        task.add_done_callback(self._clients.discard)
        return task

    def _tick_all(self) -> None:
        for session in self._sessions:
            session.tick()

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(self._settings.tick)
            self._tick_all()  # with a frame of its own, so that no ended session is held over the sleep


async def serve(settings: BridgeSettings) -> None:
    """Serve until SIGTERM or SIGINT."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await Bridge(settings).run(stop)


def _new_event_loop() -> asyncio.AbstractEventLoop:
    """uvloop's, which vLLM's server uses too, where it is installed (docs/decisions/bridge-server.md)."""
    try:
        return cast("asyncio.AbstractEventLoop", importlib.import_module("uvloop").new_event_loop())
    except ImportError:
        return asyncio.new_event_loop()


def main() -> int:
    """Run the bridge; 0 after SIGTERM, 2 for a wrong configuration, a port in use among it."""
    configure()
    try:
        settings = BridgeSettings.from_environment(os.environ)
        asyncio.run(serve(settings), loop_factory=_new_event_loop)
    except ConfigurationError as error:
        log_event("configuration_error", problems=error.problems)
        return 2
    except OSError as error:
        problem = f"port {settings.port} cannot be listened on: {error.strerror or error}"
        log_event("configuration_error", problems=[problem])
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
