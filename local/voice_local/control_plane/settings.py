"""Time-outs of the control plane, all in one place."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ControlPlaneSettings:
    """Limits on what the control plane waits for; all in seconds."""

    start_seconds: float = 20.0
    """Until the server answers its first request; importing and starting moto takes 2 to 4 s on two busy cores."""

    stop_seconds: float = 10.0
    """Until every thread of the control plane has ended after `stop()`; containers are stopped before."""

    container_startup_seconds: float = 180.0
    """Until a container answers `/ping`. A variant's own `ContainerStartupHealthCheckTimeoutInSeconds` counts when it
    is shorter: AWS allows an hour for weights of many gigabytes, which nobody waits for on a laptop."""

    ping_interval_seconds: float = 0.1
    """Between two `/ping` of a starting container; SageMaker's own interval is not published."""

    stabilization_poll_seconds: float = 0.1
    """Between two looks of a stack operation at an endpoint that is starting or going."""

    stabilization_margin_seconds: float = 30.0
    """How long a stack operation waits beyond the endpoint's own limits before it gives up on it."""

    request_body_seconds: float = 60.0
    """For a client to send its request; a stalled one must not hold a thread for ever."""
