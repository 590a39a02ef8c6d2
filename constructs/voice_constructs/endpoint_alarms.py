"""The alarms of an endpoint: which metric, how bad for how long, and what missing data means.

docs/operations.md says what each of them means and what to do.
"""

from collections.abc import Sequence

from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_sns as sns
from constructs import Construct, IDependable

from voice_constructs.endpoint_metrics import MeasuredEndpoint

KV_CACHE_LIMIT = 0.9
"""Above this share of the KV cache in use, vLLM soon pre-empts sessions, which then fall silent for a while."""


def error_alarms(scope: Construct, endpoint: MeasuredEndpoint) -> tuple[cloudwatch.Alarm, ...]:
    """Create the alarms that roll an update back: errors of the server, and nothing else.

    One failed call is no reason; calls that fail in three minutes of five are. No data is no error: without calls there
    are no errors either.
    """
    return (
        _alarm(
            scope,
            "ServerErrors",
            endpoint.metric_invocation5_xx_errors(),
            f"{endpoint.endpoint_name}: the container answered with 5xx in 3 of the last 5 minutes",
            threshold=1,
            minutes=(3, 5),
        ),
        _alarm(
            scope,
            "ModelErrors",
            endpoint.metric_invocation_model_errors(),
            f"{endpoint.endpoint_name}: the model failed to answer in 3 of the last 5 minutes",
            threshold=1,
            minutes=(3, 5),
        ),
    )


def operation_alarms(
    scope: Construct, endpoint: MeasuredEndpoint, *, in_service: IDependable, logs_sessions: bool
) -> tuple[cloudwatch.Alarm, ...]:
    """Create the alarms that only tell somebody.

    Args:
        scope: parent construct.
        endpoint: whose metrics.
        in_service: what must be there first: an endpoint that is only being created sends no metrics yet.
        logs_sessions: whether the container writes the lines that session metrics are made of.
    """
    silent = _alarm(
        scope,
        "InstanceMetricsMissing",
        endpoint.metric_cpu_utilization(statistic="SampleCount"),
        f"{endpoint.endpoint_name}: no instance has sent metrics for 10 minutes; SageMaker has no metric that says "
        "'no healthy instance'",
        threshold=1,
        minutes=(10, 10),
        below=True,
        missing=cloudwatch.TreatMissingData.BREACHING,
    )
    alarms = [silent]
    if logs_sessions:
        alarms.append(
            _alarm(
                scope,
                "KvCacheFull",
                endpoint.metric_kv_cache_use(),
                f"{endpoint.endpoint_name}: more than {KV_CACHE_LIMIT:.0%} of the KV cache in use for 5 minutes",
                threshold=KV_CACHE_LIMIT,
                minutes=(5, 5),
            )
        )
        alarms.append(
            _alarm(
                scope,
                "SessionsRefused",
                endpoint.metric_refused_sessions(),
                f"{endpoint.endpoint_name}: sessions were refused because an instance was full",
                threshold=1,
                minutes=(1, 1),
            )
        )
    for alarm in alarms:
        alarm.node.add_dependency(in_service)
    return tuple(alarms)


def notify(alarms: Sequence[cloudwatch.Alarm], topic: sns.ITopic) -> None:
    """Send every alarm's change to ALARM and back to OK to a topic."""
    for alarm in alarms:
        alarm.add_alarm_action(actions.SnsAction(topic))
        alarm.add_ok_action(actions.SnsAction(topic))


def _alarm(
    scope: Construct,
    alarm_id: str,
    metric: cloudwatch.Metric,
    description: str,
    *,
    threshold: float,
    minutes: tuple[int, int],
    below: bool = False,
    missing: cloudwatch.TreatMissingData = cloudwatch.TreatMissingData.NOT_BREACHING,
) -> cloudwatch.Alarm:
    operators = cloudwatch.ComparisonOperator
    bad, looked_at = minutes
    return cloudwatch.Alarm(
        scope,
        alarm_id,
        metric=metric,
        alarm_description=description,
        threshold=threshold,
        comparison_operator=operators.LESS_THAN_THRESHOLD if below else operators.GREATER_THAN_OR_EQUAL_TO_THRESHOLD,
        datapoints_to_alarm=bad,
        evaluation_periods=looked_at,
        treat_missing_data=missing,
    )
