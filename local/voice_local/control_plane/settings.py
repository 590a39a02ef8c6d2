"""Time-outs and places of the control plane, all in one place."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ControlPlaneSettings:
    """Limits on what the control plane waits for, in seconds, and where it finds what it needs."""

    start_seconds: float = 20.0
    """Until the server answers its first request; importing and starting moto takes 2 to 4 s on two busy cores."""

    stop_seconds: float = 10.0
    """Until every thread of the control plane has ended after `stop()`; containers are stopped before."""

    container_startup_seconds: float = 180.0
    """Until a container answers `/ping`. A variant's own `ContainerStartupHealthCheckTimeoutInSeconds` counts when it
    is shorter: AWS allows an hour for weights of many gigabytes, which nobody waits for on a laptop."""

    ping_interval_seconds: float = 0.1
    """Between two `/ping` of a starting container; SageMaker's own interval is not published."""

    longest_baking_seconds: float = 3.0
    """An update watches its roll-back alarms as long as its `WaitIntervalInSeconds` says, here at most this long: no
    metric of SageMaker's own is measured in the local cloud, but an alarm can be set off (SetAlarmState)."""

    longest_termination_wait_seconds: float = 30.0
    """Old containers stay for the streams they have as long as `TerminationWaitInSeconds` says, here at most this long:
    two sets of engines are much for a laptop."""

    mismatch_seconds: float = 20.0
    """How long an endpoint stays Creating when its image cannot run on its AMI. On AWS it is the variant's time-out for
    the container's start, half an hour in our stacks; here it is short enough to wait for, and long enough to see."""

    watch_interval_seconds: float = 0.5
    """Between two looks at a serving container: whether it lives, and what it wrote."""

    watch_ping_seconds: float = 5.0
    """Between two `/ping` of a serving container."""

    unhealthy_seconds: float = 60.0
    """How long `/ping` must have failed before a container that still runs is replaced; a busy laptop may leave several
    in a row unanswered."""

    restart_delay_seconds: float = 0.5
    """Before a container that died is started again; doubled each time until one stays healthy."""

    longest_restart_delay_seconds: float = 30.0
    """A container that dies again and again must not keep the machine busy."""

    stabilization_poll_seconds: float = 0.1
    """Between two looks of a stack operation at an endpoint that is starting or going."""

    stabilization_margin_seconds: float = 30.0
    """How long a stack operation waits beyond the endpoint's own limits before it gives up on it."""

    request_body_seconds: float = 60.0
    """For a client to send its request; a stalled one must not hold a thread for ever."""

    function_start_seconds: float = 20.0
    """What a function's process may take beyond the function's own time-out: starting Python or Node and loading an SDK
    takes 1 to 3 s on two busy cores, and Lambda does not count it either."""

    custom_resource_seconds: float = 3600.0
    """Until a custom resource's function has sent its answer; CloudFormation's own default. A function that ends
    without one is not waited for."""

    node_modules: Path | None = None
    """Where functions for Node.js find the AWS SDK; None for `node_modules` of the folder that the cloud was started
    in, and of this source tree."""

    alarm_interval_seconds: float = 10.0
    """Between two looks at the alarms: CloudWatch evaluates each once a minute, which is long to wait for at a desk."""

    save_interval_seconds: float = 2.0
    """Between a change and its being saved, when the state is kept: a cloud that is killed forgets this much."""
