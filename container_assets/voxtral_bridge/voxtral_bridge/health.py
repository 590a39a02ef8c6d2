"""Whether vLLM serves: asked in the background, so that `/ping` itself answers at once."""

import asyncio

from voxtral_bridge.event_log import log_event
from voxtral_bridge.settings import BridgeSettings


class HealthProbe:
    """Asks vLLM's `GET /health` again and again; an engine that takes connections but does not answer is down."""

    def __init__(self, settings: BridgeSettings) -> None:
        self._settings = settings
        self.healthy = False
        self.detail = "vLLM was not asked yet"
        """Why it is down, for people."""

    async def run(self) -> None:
        """Probe until cancelled."""
        while True:
            detail = await self._failure()
            if (detail == "") != self.healthy or self.detail != detail:
                self.healthy, self.detail = detail == "", detail
                log_event("health", healthy=self.healthy, detail=detail)
            await asyncio.sleep(self._settings.probe_interval)

    async def _failure(self) -> str:
        try:
            async with asyncio.timeout(self._settings.probe_timeout):
                status = await self._ask()
        except TimeoutError:
            return f"vLLM did not answer /health within {self._settings.probe_timeout:g} s"
        except (OSError, ValueError) as error:
            return f"vLLM cannot be asked for /health: {type(error).__name__}"
        return "" if status == 200 else f"vLLM answers /health with {status}"

    async def _ask(self) -> int:
        # By hand: an HTTP client would cost more memory than the rest of the bridge.
        reader, writer = await asyncio.open_connection("127.0.0.1", self._settings.vllm_port)
        try:
            writer.write(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
            await writer.drain()
            version, _, rest = (await reader.readline()).partition(b" ")
            if not version.startswith(b"HTTP/"):
                raise ValueError("not an HTTP answer")
            return int(rest[:3])
        finally:
            writer.transport.abort()
