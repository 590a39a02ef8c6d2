"""How many sessions are open on an endpoint now: the ear's from its bridge's log, the voice's from CloudWatch."""

import json
import time
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from stacks.names import Service, endpoint_name
from voice_ops.logs import LogLine, NoLogError, log_lines
from voice_ops.session import AwsSession, translated

GAUGES_SECONDS = 150.0
"""How far back: an instance writes its gauges every 60 s, and CloudWatch is some seconds behind."""

METRIC_SECONDS = 180
"""How far back for the metric, which comes every 10 s and some seconds late."""

_NAMESPACE, _METRIC = "AWS/SageMaker", "ConcurrentRequestsPerModel"
_VARIANT = "AllTraffic"
"""The endpoints' only production variant, as the stacks name it."""


def sessions_now(stage: str, service: Service, aws: AwsSession) -> int | None:
    """Return the open sessions of all instances; None when nothing tells.

    Raises:
        AwsError: AWS could not be asked.
    """
    if service == "tts":
        return _from_metric(endpoint_name(stage, service), aws)
    try:
        return counted(log_lines(stage, service, aws, since_seconds=GAUGES_SECONDS, follow=False))
    except NoLogError:
        return None


def counted(lines: Iterable[LogLine]) -> int | None:
    """Return the open sessions that a bridge's lines tell of, over all instances; None when none tells."""
    by_instance: dict[str, int] = {}
    for line in lines:
        try:
            fields = json.loads(line.message)
            event = fields["event"]
        except (ValueError, KeyError, TypeError):
            continue
        if event in {"gauges", "session_opened"} and isinstance(fields.get("sessions"), int):
            by_instance[line.instance] = fields["sessions"]
        elif event == "session_closed" and line.instance in by_instance:
            by_instance[line.instance] = max(0, by_instance[line.instance] - 1)
        elif event in {"starting", "stopped"}:
            by_instance[line.instance] = 0
    return sum(by_instance.values()) if by_instance else None


def _from_metric(endpoint: str, aws: AwsSession) -> int | None:
    end = datetime.fromtimestamp(time.time(), UTC)
    with translated(f"reading the metric {_METRIC} of {endpoint}"):
        found = aws.client("cloudwatch").get_metric_statistics(
            Namespace=_NAMESPACE,
            MetricName=_METRIC,
            Dimensions=[{"Name": "EndpointName", "Value": endpoint}, {"Name": "VariantName", "Value": _VARIANT}],
            StartTime=end - timedelta(seconds=METRIC_SECONDS),
            EndTime=end,
            Period=60,
            Statistics=["Maximum"],
        )["Datapoints"]
    if not found:
        return None
    newest = max(found, key=lambda point: point["Timestamp"])
    return round(float(newest["Maximum"]))
