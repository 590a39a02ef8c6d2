"""Time-outs of the container host."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ContainerHostSettings:
    """Seconds."""

    ping_seconds: float = 2.0
    """SageMaker's own limit for `GET /ping`."""
    grace_seconds: float = 10.0
    """From SIGTERM to SIGKILL. SageMaker gives 30; on a laptop somebody waits for Ctrl-C."""
    remains_seconds: float = 5.0
    """How long killed processes may take to disappear before stopping counts as failed."""
