"""Settings of the bridge: each limit and time-out with its variable, its default and the reason for it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Self

SECONDS_PER_TOKEN = 0.08
"""Voxtral Realtime spends one token for 80 ms of audio."""

LENGTH_MARGIN_TOKENS = 64
"""Kept free below MAX_MODEL_LEN (5 s): the prompt, and the silence vLLM pads the last audio with."""


class ConfigurationError(Exception):
    """The environment cannot be served with; every problem found in it is listed at once."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("wrong configuration: " + "; ".join(problems))


def _read_from[T](*names: str, default: T) -> T:
    """Declare a setting: the first of the variables `names` that is set, else `default`."""
    return field(default=default, metadata={"names": names})


@dataclass(frozen=True, slots=True, kw_only=True)
class BridgeSettings:
    """What the bridge can be told by environment; times in seconds."""

    host: str = _read_from("BRIDGE_HOST", default="127.0.0.1")
    """Loopback unless told otherwise; the image sets 0.0.0.0, as SageMaker's proxy comes from outside."""
    port: int = _read_from("BRIDGE_PORT", "SAGEMAKER_BIND_TO_PORT", default=8080)
    """SageMaker's port for a container."""
    vllm_port: int = _read_from("VLLM_PORT", default=8081)
    """Where vLLM listens on loopback."""
    max_sessions: int = _read_from("BRIDGE_MAX_SESSIONS", "SM_VLLM_MAX_NUM_SEQS", default=256)
    """As many as the engine runs at once (256 is vLLM's own default): one more would wait in its queue, silent."""
    max_model_len: int = _read_from("SM_VLLM_MAX_MODEL_LEN", default=0)
    """Tokens of one generation; 0: not told, no limit of audio. At it an old engine dies and a new one goes deaf."""
    max_message_bytes: int = _read_from("BRIDGE_MAX_MESSAGE_BYTES", default=16 * 1024 * 1024)
    """Of one WebSocket message, both ways: vLLM's own limit."""
    idle_timeout: float = _read_from("BRIDGE_IDLE_TIMEOUT", default=300.0)
    """Without a message either way. vLLM has no limit of its own and holds the KV cache for ever."""
    stall_timeout: float = _read_from("BRIDGE_STALL_TIMEOUT", default=60.0)
    """A side that takes no message for so long hangs, and so does vLLM when it owes output: it answers every 80 ms
    of audio."""
    unresponsive_timeout: float = _read_from("BRIDGE_UNRESPONSIVE_TIMEOUT", default=20.0)
    """vLLM that fails to answer /health for so long hangs: its sessions are ended."""
    connect_timeout: float = _read_from("BRIDGE_CONNECT_TIMEOUT", default=10.0)
    """To open a session on vLLM; on loopback it takes milliseconds."""
    drain_timeout: float = _read_from("BRIDGE_DRAIN_TIMEOUT", default=10.0)
    """Without output while a generation is finished; once the client has gone, in all."""
    shutdown_drain: float = _read_from("BRIDGE_SHUTDOWN_DRAIN", default=12.0)
    """For generations in progress at SIGTERM; with drain and closing below the 30 s after which SageMaker kills."""
    close_timeout: float = _read_from("BRIDGE_CLOSE_TIMEOUT", default=2.0)
    """For a peer to answer a closing handshake, or to read an HTTP answer."""
    probe_interval: float = _read_from("BRIDGE_PROBE_INTERVAL", default=1.0)
    """Between questions to vLLM's /health."""
    probe_timeout: float = _read_from("BRIDGE_PROBE_TIMEOUT", default=3.0)
    """Of one such question; with the interval it keeps a wedged engine's /ping at 200 for less than 5 s."""
    request_timeout: float = _read_from("BRIDGE_REQUEST_TIMEOUT", default=30.0)
    """For an HTTP request or a handshake to arrive whole: 25 MB within the 60 s that SageMaker has in all."""
    invocation_timeout: float = _read_from("BRIDGE_INVOCATION_TIMEOUT", default=58.0)
    """Of POST /invocations: SageMaker gives up at 60 s."""
    gauges_interval: float = _read_from("BRIDGE_GAUGES_INTERVAL", default=60.0)
    """Between lines with vLLM's gauges: CloudWatch's own period."""

    @property
    def max_audio(self) -> float:
        """Seconds of audio one generation may take."""
        if not self.max_model_len:
            return float("inf")
        return max(self.max_model_len - LENGTH_MARGIN_TOKENS, 1) * SECONDS_PER_TOKEN

    @property
    def tick(self) -> float:
        """Seconds between looks at a session's limits: a few within each of them."""
        limits = (self.idle_timeout, self.stall_timeout, self.unresponsive_timeout, self.drain_timeout)
        return min(1.0, self.shutdown_drain / 4, *(limit / 4 for limit in limits))

    @property
    def shutdown_limit(self) -> float:
        """Seconds from SIGTERM until the bridge has ended, whatever its sessions do."""
        return self.shutdown_drain + self.drain_timeout + 2 * self.close_timeout

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Self:
        """Read the settings; an empty variable counts as not set.

        Raises:
            ConfigurationError: with every variable that has a value it cannot have.
        """
        problems: list[str] = []
        values: dict[str, Any] = {}
        for setting in fields(cls):
            kind: type[Any] = type(setting.default)
            top = 65535 if setting.name.endswith("port") else 1e9
            for name in [name for name in setting.metadata["names"] if _is_told(name, environment)][:1]:
                try:
                    values[setting.name] = _whole(environment[name]) if kind is int else kind(environment[name])
                    wrong = kind is not str and not 0 < values[setting.name] <= top
                except (ValueError, OverflowError):
                    wrong = True
                if wrong:
                    what = f"a {'whole ' if kind is int else ''}number above 0 and at most {top:g}"
                    problems.append(f"{name} must be {what}, not {environment[name][:40]!r}")
        settings = cls(**values)
        if settings.port == settings.vllm_port:
            problems.append(f"the bridge and vLLM both have port {settings.port}: change BRIDGE_PORT or VLLM_PORT")
        if problems:
            raise ConfigurationError(problems)
        return settings


def _is_told(name: str, environment: Mapping[str, str]) -> bool:
    """By `auto` or -1 vLLM is left to choose."""
    return environment.get(name, "") not in (("", "auto", "-1") if name.startswith("SM_VLLM_") else ("",))


def _whole(text: str) -> int:
    """Read a whole number as vLLM does: 45000, `45k` or `25.6k` of 1000, `44K` of 1024."""
    units = {"k": 10**3, "m": 10**6, "g": 10**9, "K": 2**10, "M": 2**20, "G": 2**30}
    if unit := units.get(text[-1]):
        return int((float if text[-1].islower() else int)(text[:-1]) * unit)
    return int(text)
