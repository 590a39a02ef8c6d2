"""One CloudWatch dashboard for all endpoints of a stage."""

from collections.abc import Sequence

from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from voice_constructs.endpoint_metrics import MeasuredEndpoint

_HALF_WIDTH = 12
_HEIGHT = 6


class StageDashboard(Construct):
    """A row of graphs for each endpoint: traffic, errors, sessions, instances."""

    def __init__(self, scope: Construct, id: str, *, title: str) -> None:  # noqa: A002 - the CDK's own name
        """Create an empty dashboard.

        Args:
            scope: parent construct.
            id: construct id.
            title: its heading.
        """
        super().__init__(scope, id)
        self.dashboard = cloudwatch.Dashboard(self, "Resource", period_override=cloudwatch.PeriodOverride.INHERIT)
        self.dashboard.add_widgets(
            cloudwatch.TextWidget(markdown=f"# {title}", width=2 * _HALF_WIDTH, height=1),
        )

    def add_endpoint(self, endpoint: MeasuredEndpoint, *, heading: str, logs_sessions: bool) -> None:
        """Add an endpoint's graphs.

        Args:
            endpoint: whose metrics.
            heading: what the endpoint does.
            logs_sessions: whether its container writes the lines that session metrics are made of.
        """
        self.dashboard.add_widgets(
            cloudwatch.TextWidget(markdown=f"## {heading}: {endpoint.endpoint_name}", width=2 * _HALF_WIDTH, height=1)
        )
        for row in endpoint_widgets(endpoint, logs_sessions=logs_sessions):
            self.dashboard.add_widgets(*row)


def endpoint_widgets(endpoint: MeasuredEndpoint, *, logs_sessions: bool) -> Sequence[Sequence[cloudwatch.IWidget]]:
    """Return rows of graphs of one endpoint, for a dashboard of one's own."""
    rows: list[list[cloudwatch.IWidget]] = [
        [
            _graph("Streams", endpoint.metric_concurrent_requests_per_model(), endpoint.metric_invocations()),
            _graph(
                "Errors",
                endpoint.metric_invocation5_xx_errors(),
                endpoint.metric_invocation_model_errors(),
                endpoint.metric_invocation4_xx_errors(),
            ),
        ],
        [
            _graph("GPU, percent", endpoint.metric_gpu_utilization(), endpoint.metric_gpu_memory_utilization()),
            _graph("CPU and memory, percent", endpoint.metric_cpu_utilization(), endpoint.metric_memory_utilization()),
        ],
    ]
    if logs_sessions:
        rows.append(
            [
                _graph(
                    "Sessions of the container",
                    endpoint.metric_open_sessions(),
                    endpoint.metric_session_errors(),
                    endpoint.metric_refused_sessions(),
                ),
                _graph(
                    "Seconds to the first delta",
                    endpoint.metric_first_delta_seconds(statistic="p50"),
                    endpoint.metric_first_delta_seconds(statistic="p95"),
                    right=[endpoint.metric_kv_cache_use()],
                ),
            ]
        )
    return rows


def _graph(title: str, *left: cloudwatch.IMetric, right: Sequence[cloudwatch.IMetric] = ()) -> cloudwatch.GraphWidget:
    return cloudwatch.GraphWidget(
        title=title, left=list(left), right=list(right), width=_HALF_WIDTH, height=_HEIGHT, live_data=False
    )
