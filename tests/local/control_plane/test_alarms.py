"""What a container logs is counted, and the alarms on it fire and end by themselves."""

import json
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from tests.local.control_plane.conftest import ClientFactory
from voice_local.control_plane import ControlPlaneSettings
from voice_local.control_plane.alarm_evaluation import evaluated
from voice_local.control_plane.filter_pattern import FilterPattern, PatternNotReadError, value_of

GROUP, STREAM = "/aws/sagemaker/Endpoints/dev-voice-stt", "AllTraffic/i-1"
NAMESPACE = "SageMakerVoice/dev-voice-stt"


@pytest.fixture
def settings() -> ControlPlaneSettings:
    return ControlPlaneSettings(alarm_interval_seconds=0.05)


def line(event: str, **fields: Any) -> str:
    return json.dumps({"time": "2026-11-29T12:00:00.000Z", "level": "info", "event": event, **fields})


@pytest.mark.parametrize(
    ("pattern", "message", "matches"),
    [
        ('{ ($.event = "gauges") }', line("gauges"), True),
        ('{ $.event = "gauges" }', line("health"), False),
        ('{ ($.event = "session_error") && ($.code = "session_limit") }', line("session_error"), False),
        (
            '{ ($.event = "session_error") && ($.code = "session_limit") }',
            line("session_error", code="session_limit"),
            True,
        ),
        ('{ ($.event = "a") || ($.event = "b") && ($.n > 1) }', line("b", n=1), False),
        ('{ ($.event = "a" || $.event = "b") && $.n >= 1 }', line("b", n=1), True),
        ('{ $.event = "session_*" }', line("session_closed"), True),
        ('{ $.event != "session_*" }', line("session_closed"), False),
        ('{ $.fields.codes[1] = "x[1]" }', line("e", fields={"codes": ["", "x[1]"]}), True),
        ("{ $.healthy = true }", line("health", healthy=True), True),
        ("{ $.n = 1 }", line("e", n="1"), False),
        ('{ $.event = "gauges" }', "no JSON at all, gauges", False),
        ('ERROR "out of memory"', "12:00 ERROR worker: out of memory", True),
        ('ERROR "out of memory"', "12:00 ERROR worker: memory", False),
        ("", "anything", True),
    ],
)
def test_a_pattern_means_the_events_that_it_means_on_aws(pattern: str, message: str, matches: bool) -> None:
    assert FilterPattern(pattern).matches(message) is matches


@pytest.mark.parametrize(
    "pattern", ["{ $.event }", '{ ($.event = "a" }', '{ $.a < "b" }', "[ip, user]", "?ERROR ?WARN", "{ $.a = 1 ; }"]
)
def test_a_pattern_that_is_not_read_says_so_and_names_itself(pattern: str) -> None:
    with pytest.raises(PatternNotReadError) as raised:
        FilterPattern(pattern)

    assert repr(pattern) in str(raised.value)


@pytest.mark.parametrize(
    ("value", "message", "found"),
    [("1", "", 1.0), ("$.seconds", line("e", seconds=0.25), 0.25), ("$.seconds", line("e"), None)],
)
def test_a_metrics_value_is_a_number_or_a_field(value: str, message: str, found: float | None) -> None:
    assert value_of(value, message) == found


def plant(client: ClientFactory, *, missing: str = "notBreaching", namespace: str = NAMESPACE) -> None:
    """Make the log group, the filter and the alarm on refused sessions as the ear's stack has them."""
    client("logs").create_log_group(logGroupName=GROUP)
    client("logs").create_log_stream(logGroupName=GROUP, logStreamName=STREAM)
    client("logs").put_metric_filter(
        logGroupName=GROUP,
        filterName="refused",
        filterPattern='{ ($.event = "session_error") && ($.code = "session_limit") }',
        metricTransformations=[
            {"metricName": "RefusedSessions", "metricNamespace": NAMESPACE, "metricValue": "1", "unit": "Count"}
        ],
    )
    client("cloudwatch").put_metric_alarm(
        AlarmName="refused",
        Namespace=namespace,
        MetricName="RefusedSessions",
        Statistic="Sum",
        Period=60,
        EvaluationPeriods=5,
        DatapointsToAlarm=1,
        Threshold=2,
        ComparisonOperator="GreaterThanOrEqualToThreshold",
        TreatMissingData=missing,
    )


def refuse(client: ClientFactory, times: int) -> None:
    """Log refused sessions of a minute ago, so that their period has ended."""
    at = int((time.time() - 60) * 1000)
    events = [{"timestamp": at, "message": line("session_error", code="session_limit", session="")}] * times
    other = {"timestamp": at, "message": line("session_error", code="idle", session="0a")}
    client("logs").put_log_events(logGroupName=GROUP, logStreamName=STREAM, logEvents=[*events, other])


def alarm(client: ClientFactory) -> dict[str, Any]:
    found: dict[str, Any] = client("cloudwatch").describe_alarms(AlarmNames=["refused"])["MetricAlarms"][0]
    return found


def wait_for(condition: Callable[[], bool], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come to that"
        time.sleep(0.05)


def test_sessions_that_are_refused_set_the_stacks_alarm_off(client: ClientFactory) -> None:
    plant(client)
    refuse(client, 1)
    statistics = client("cloudwatch").get_metric_statistics(
        Namespace=NAMESPACE,
        MetricName="RefusedSessions",
        StartTime=time.time() - 300,
        EndTime=time.time() + 60,
        Period=300,
        Statistics=["Sum"],
    )
    assert [point["Sum"] for point in statistics["Datapoints"]] == [1.0], "the other error is not counted"
    assert alarm(client)["StateValue"] == "OK"

    refuse(client, 3)

    wait_for(lambda: alarm(client)["StateValue"] == "ALARM")
    assert "1 of the last 5 datapoints breach the threshold (2.0)" in alarm(client)["StateReason"]


def test_a_state_that_is_set_by_hand_stays(client: ClientFactory) -> None:
    plant(client)
    client("cloudwatch").set_alarm_state(AlarmName="refused", StateValue="ALARM", StateReason="a test")
    time.sleep(0.3)  # several looks

    assert alarm(client)["StateValue"] == "ALARM"


def test_what_nobody_measures_here_sets_no_alarm_off(client: ClientFactory) -> None:
    plant(client, missing="breaching", namespace="/aws/sagemaker/Endpoints")
    client("cloudwatch").put_metric_alarm(
        AlarmName="silent",
        Namespace=NAMESPACE,
        MetricName="Nothing",
        Statistic="Sum",
        Period=60,
        EvaluationPeriods=1,
        Threshold=1,
        ComparisonOperator="LessThanThreshold",
        TreatMissingData="breaching",
    )
    wait_for(lambda: [one["AlarmName"] for one in _in_alarm(client)] == ["silent"])


def _in_alarm(client: ClientFactory) -> list[dict[str, Any]]:
    return list(client("cloudwatch").describe_alarms(StateValue="ALARM")["MetricAlarms"])


@pytest.mark.parametrize(
    ("missing", "before", "state"),
    [("missing", "OK", "INSUFFICIENT_DATA"), ("ignore", "ALARM", "ALARM"), ("notBreaching", "ALARM", "OK")],
)
def test_missing_data_means_what_the_alarm_says(missing: str, before: str, state: str) -> None:
    silent = SimpleNamespace(
        namespace=NAMESPACE,
        metric_name="Nothing",
        dimensions=[],
        period=60,
        evaluation_periods=2,
        datapoints_to_alarm=None,
        statistic="Sum",
        comparison_operator="GreaterThanThreshold",
        threshold=1,
        treat_missing_data=missing,
    )

    assert evaluated(silent, [], 1_000_000.0, before)[0] == state
