"""How vLLM is: whether it serves, asked all the time so that `/ping` itself answers at once, and how full it is."""

import asyncio
import math
from collections.abc import Callable
from typing import Any

import h11

from voxtral_bridge.event_log import log_event
from voxtral_bridge.settings import BridgeSettings
from voxtral_bridge.vllm_http import ask_vllm

_GAUGES = {
    "vllm:num_requests_running": "requests_running",
    "vllm:num_requests_waiting": "requests_waiting",
    "vllm:kv_cache_usage_perc": "kv_cache_use",
}
"""vLLM's own names (v1/metrics/loggers.py) and the log's; the use is a share from 0 to 1 in spite of its name."""


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
                status = (await ask_vllm(self._settings.vllm_port, "GET", "/health")).status
        except TimeoutError:
            return f"vLLM did not answer /health within {self._settings.probe_timeout:g} s"
        except (OSError, h11.RemoteProtocolError) as error:
            return f"vLLM cannot be asked for /health: {type(error).__name__}"
        return "" if status == 200 else f"vLLM answers /health with {status}"


async def log_gauges(settings: BridgeSettings, open_sessions: Callable[[], int]) -> None:
    """Write a `gauges` line again and again until cancelled."""
    while True:
        await asyncio.sleep(settings.gauges_interval)
        gauges: dict[str, Any] = {}
        try:
            async with asyncio.timeout(settings.probe_timeout):
                answer = await ask_vllm(settings.vllm_port, "GET", "/metrics")
            if answer.status == 200:
                gauges = read_gauges(answer.body.decode(errors="replace"))
        except (OSError, h11.RemoteProtocolError):
            pass  # /ping and its log line tell of that
        log_event("gauges", sessions=open_sessions(), **gauges)


def read_gauges(metrics: str) -> dict[str, float]:
    """Return vLLM's gauges from its `/metrics`, by the names of the log; what is not there is left out.

    Of several engines the requests are added up, and the fullest cache counts.
    """
    gauges: dict[str, float] = {}
    for line in metrics.splitlines():
        gauge = _GAUGES.get(line.partition("{")[0].partition(" ")[0])
        if gauge is None:
            continue
        try:
            value = float(line.rpartition(" ")[2])
        except ValueError:
            continue
        if math.isfinite(value):
            known = gauges.get(gauge, 0.0)
            gauges[gauge] = max(known, value) if gauge == "kv_cache_use" else known + value
    return gauges
