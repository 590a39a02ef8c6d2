"""How vLLM is: whether it serves, asked all the time so that `/ping` itself answers at once, and how full it is."""

import asyncio
import re
from collections.abc import Callable
from typing import Any

from voxtral_bridge.event_log import log_event
from voxtral_bridge.http_messages import ask_vllm
from voxtral_bridge.settings import BridgeSettings

_GAUGES = {
    "num_requests_running": "requests_running",
    "num_requests_waiting": "requests_waiting",
    "kv_cache_usage_perc": "kv_cache_use",
}
"""vLLM's own names (v1/metrics/loggers.py) and the log's; the use is a share from 0 to 1 in spite of its name."""

_SAMPLE = re.compile(rf"^vllm:({'|'.join(_GAUGES)})(?:{{.*}})? (\d+(?:\.\d+)?(?:e[+-]?\d\d?)?)$", re.MULTILINE)


class HealthProbe:
    """Asks vLLM's `GET /health` again and again; an engine that takes connections but does not answer is down."""

    def __init__(self, settings: BridgeSettings) -> None:
        self._settings = settings
        self.healthy = False
        self.detail = "vLLM was not asked yet"
        """Why it is down, for people; empty while it is healthy."""
        self.changed_at = asyncio.get_running_loop().time()
        """Loop time at which it came up or went down."""

    async def run(self) -> None:
        """Probe until cancelled."""
        settings = self._settings
        while True:
            answer = await ask_vllm(settings.vllm_port, "GET", "/health", limit=settings.probe_timeout)
            healthy = answer.status == 200
            detail = "" if healthy else answer.error or f"vLLM answers /health with {answer.status}"
            if healthy != self.healthy:
                self.changed_at = asyncio.get_running_loop().time()
            if detail != self.detail:
                self.healthy, self.detail = healthy, detail
                log_event("health", healthy=healthy, detail=detail)
            await asyncio.sleep(settings.probe_interval)


async def log_gauges(settings: BridgeSettings, open_sessions: Callable[[], int]) -> None:
    """Write a `gauges` line again and again until cancelled."""
    while True:
        await asyncio.sleep(settings.gauges_interval)
        # Should vLLM not answer, /ping and its log line tell of that.
        metrics = await ask_vllm(settings.vllm_port, "GET", "/metrics", limit=settings.probe_timeout)
        gauges = read_gauges(metrics.body.decode(errors="replace"))
        log_event("gauges", sessions=open_sessions(), **gauges)


def read_gauges(metrics: str) -> dict[str, Any]:
    """Return vLLM's gauges from its `/metrics`, by the names of the log; what is not there is left out.

    Of several engines the requests are added up, and the fullest cache counts.
    """
    samples: dict[str, list[float]] = {}
    for name, value in _SAMPLE.findall(metrics):
        samples.setdefault(_GAUGES[name], []).append(float(value))
    return {gauge: max(values) if gauge == "kv_cache_use" else sum(values) for gauge, values in samples.items()}
