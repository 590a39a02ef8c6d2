"""Metrics made of the bridge's JSON log lines. The contract between the two is docs/bridge-log.md."""

from dataclasses import dataclass

from aws_cdk import aws_logs as logs
from constructs import Construct


@dataclass(frozen=True, slots=True)
class SessionMetricFilter:
    """How one metric is read out of log lines.

    Attributes:
        metric_name: in the endpoint's `session_namespace`.
        event: value of a line's `event`.
        value: what the metric gets: a number, or a field of the line as `$.field`.
        unit: CloudWatch's unit; None for a plain number.
        where: further conditions, field to value.
    """

    metric_name: str
    event: str
    value: str
    unit: str | None = None
    where: tuple[tuple[str, str], ...] = ()

    @property
    def pattern(self) -> str:
        """CloudWatch Logs' filter pattern."""
        conditions = [("event", self.event), *self.where]
        terms = [f'($.{name} = "{value}")' for name, value in conditions]
        return f"{{ {' && '.join(terms)} }}"


SESSION_METRIC_FILTERS = (
    SessionMetricFilter("OpenSessions", event="session_opened", value="$.sessions", unit="Count"),
    # A second source of the same metric: sessions that last for an hour are counted while they last.
    SessionMetricFilter("OpenSessions", event="gauges", value="$.sessions", unit="Count"),
    SessionMetricFilter("SessionErrors", event="session_error", value="1", unit="Count"),
    SessionMetricFilter(
        "RefusedSessions", event="session_error", value="1", unit="Count", where=(("code", "session_limit"),)
    ),
    SessionMetricFilter("FirstDeltaSeconds", event="session_first_delta", value="$.seconds", unit="Seconds"),
    SessionMetricFilter("KvCacheUse", event="gauges", value="$.kv_cache_use"),
)


def add_session_metric_filters(scope: Construct, log_group: logs.ILogGroup, *, namespace: str) -> None:
    """Create the filters under `scope`; each writes to `namespace`."""
    for described in SESSION_METRIC_FILTERS:
        event = "".join(word.capitalize() for word in described.event.split("_"))
        logs.CfnMetricFilter(
            scope,
            f"{described.metric_name}Of{event}",
            log_group_name=log_group.log_group_name,
            filter_pattern=described.pattern,
            metric_transformations=[
                logs.CfnMetricFilter.MetricTransformationProperty(
                    metric_namespace=namespace,
                    metric_name=described.metric_name,
                    metric_value=described.value,
                    unit=described.unit,
                )
            ],
        )
