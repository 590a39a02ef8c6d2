"""`python -m voxtral_bridge`: serve until SIGTERM, then let the sessions finish."""

import asyncio
import importlib
import os
import signal
import sys
from typing import cast

from voxtral_bridge.event_log import configure, log_event
from voxtral_bridge.port import Bridge
from voxtral_bridge.settings import BridgeSettings, ConfigurationError


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
