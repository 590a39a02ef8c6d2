"""`python -m voxtral_bridge`: serve until SIGTERM, then let the sessions finish."""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from typing import Any, cast

import uvicorn

from voxtral_bridge.client_socket import ClientSocket
from voxtral_bridge.errors import ConfigurationError
from voxtral_bridge.event_log import configure, log_event
from voxtral_bridge.health import HealthProbe
from voxtral_bridge.http_routes import create_app
from voxtral_bridge.session import Ending, Session, refuse
from voxtral_bridge.settings import BridgeSettings


class Bridge:
    """Admits clients up to the limit of sessions."""

    def __init__(self, settings: BridgeSettings) -> None:
        self._settings = settings
        self._open: set[Session] = set()

    async def serve(self, client: ClientSocket) -> None:
        """Serve one client until its connection is closed."""
        if len(self._open) >= self._settings.max_sessions:
            text = f"all {self._settings.max_sessions} sessions of this instance are in use; try again later"
            await refuse(client, Ending("session_limit", 1013, "bridge", text))
            return
        session = Session(client, self._settings)
        self._open.add(session)
        try:
            await session.run(len(self._open))
        finally:
            self._open.discard(session)


class _Server(uvicorn.Server):
    """uvicorn, but a signal to stop ends the process with 0 instead of being raised again at the end."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, setattr, self, "should_exit", True)
        yield


async def serve(settings: BridgeSettings) -> None:
    """Serve until SIGTERM or SIGINT."""
    probe = HealthProbe(settings)
    bridge = Bridge(settings)

    def client_socket(*, server_state: Any, **_: Any) -> ClientSocket:
        return ClientSocket(settings, bridge.serve, server_state)

    server = _Server(
        uvicorn.Config(
            create_app(settings, probe),
            host=settings.host,
            port=settings.port,
            ws=cast("type[asyncio.Protocol]", client_socket),
            log_config=None,
            access_log=False,
            lifespan="off",
            server_header=False,
            timeout_graceful_shutdown=round(settings.shutdown_limit) + 1,
        )
    )
    async with asyncio.TaskGroup() as tasks:
        probing = tasks.create_task(probe.run())
        try:
            log_event("starting", host=settings.host, port=settings.port, vllm_port=settings.vllm_port)
            await server.serve()
        finally:
            probing.cancel()
    log_event("stopped")


def main() -> int:
    """Run the bridge; 0 after SIGTERM, 2 for a wrong configuration."""
    configure()
    try:
        settings = BridgeSettings.from_environment(os.environ)
    except ConfigurationError as error:
        log_event("configuration_error", problems=error.problems)
        return 2
    asyncio.run(serve(settings))
    return 0


if __name__ == "__main__":
    sys.exit(main())
