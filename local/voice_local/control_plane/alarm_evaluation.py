"""Alarms fire by themselves: each is compared with its metric again and again, as CloudWatch does.

https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/alarm-evaluation.html

Only alarms on metrics that exist here are evaluated: those that metric filters and PutMetricData make. What AWS's own
services would publish (namespaces `AWS/...` and `/aws/...`) nobody measures here, and an alarm that takes missing data
for a breach would lie. Actions are not carried out; nothing may leave this machine.
"""

import logging
import math
import operator
import threading
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from moto.cloudwatch.models import Statistics, cloudwatch_backends

from voice_local.identity import LocalIdentity

_log = logging.getLogger(__name__)

_COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    "GreaterThanOrEqualToThreshold": operator.ge,
    "GreaterThanThreshold": operator.gt,
    "LessThanThreshold": operator.lt,
    "LessThanOrEqualToThreshold": operator.le,
}

_EVALUATED = '{"version": "1.0"}'
"""StateReasonData of a state that was found here, not set by hand."""


class AlarmEvaluation:
    """Looks at every alarm at an interval, in a thread of its own, from `start` to `stop`."""

    def __init__(self, identity: LocalIdentity, state_lock: threading.RLock, interval_seconds: float) -> None:
        self._identity = identity
        self._state_lock = state_lock
        self._interval = interval_seconds
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="alarm-evaluation", daemon=True)
        self._found: dict[str, str] = {}
        """Alarm's ARN to what was found last: a state that is set by hand stays until the metric says something new."""

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def stop(self) -> None:
        """End; returns when it has."""
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopping.wait(self._interval):
            try:
                with self._state_lock:
                    self._evaluate_all(time.time())
            except Exception:  # noqa: BLE001 (the thread outlives an alarm that moto keeps in an odd form)
                _log.exception("The alarms could not be evaluated")

    def _evaluate_all(self, now: float) -> None:
        cloudwatch = cloudwatch_backends[self._identity.account_id][self._identity.region]
        living = {}
        for alarm in cloudwatch.alarms.values():
            if not _is_measured_here(alarm):
                continue
            known = alarm.state_value if alarm.state_reason_data == _EVALUATED else "OK"  # moto's first state
            before = self._found.get(alarm.alarm_arn, known)
            state, reason = evaluated(alarm, cloudwatch.metric_data, now, before)
            living[alarm.alarm_arn] = state
            if state != before:
                alarm.update_state(reason, _EVALUATED, state)
        self._found = living


def _is_measured_here(alarm: Any) -> bool:
    return bool(
        alarm.metric_name
        and alarm.statistic
        and alarm.comparison_operator in _COMPARISONS
        and not alarm.namespace.lower().lstrip("/").startswith("aws/")
    )


def evaluated(alarm: Any, data: Sequence[Any], now: float, before: str) -> tuple[str, str]:
    """Return the state of an alarm and the reason for it.

    Args:
        alarm: moto's.
        data: all metric data, moto's.
        now: seconds since 1970; the periods that ended before it are looked at.
        before: the state until now, which stays where missing data is to be ignored.
    """
    periods = int(alarm.evaluation_periods)
    needed = int(alarm.datapoints_to_alarm or periods)
    points = _points(alarm, data, now, periods)
    compare, missing = _COMPARISONS[alarm.comparison_operator], alarm.treat_missing_data or "missing"
    known = [point for point in points if point is not None]
    breaching = sum(compare(point, float(alarm.threshold)) for point in known)
    if missing == "breaching":
        breaching += len(points) - len(known)
    told = f"{breaching} of the last {periods} datapoints breach the threshold ({float(alarm.threshold)})"
    if breaching >= needed:
        return "ALARM", f"Threshold Crossed: {told}; {needed} or more do for ALARM."
    if not known and missing == "ignore":
        return before, told
    if not known and missing == "missing":
        return "INSUFFICIENT_DATA", f"Insufficient Data: {periods} datapoints were unknown."
    return "OK", f"Threshold not crossed: {told}; {needed} or more do for ALARM."


def _points(alarm: Any, data: Sequence[Any], now: float, periods: int) -> list[float | None]:
    """Return the alarm's statistic of each period that has ended, oldest first; None where there is no data."""
    seconds = int(alarm.period)
    end = math.floor(now / seconds) * seconds
    dimensions = {(one.name, one.value) for one in alarm.dimensions}
    windows: list[list[Any]] = [[] for _ in range(periods)]
    for datum in data:
        if datum.namespace != alarm.namespace or datum.name != alarm.metric_name:
            continue
        index = math.floor((_seconds(datum.timestamp) - (end - periods * seconds)) / seconds)
        if 0 <= index < periods and {(one.name, one.value) for one in datum.dimensions} == dimensions:
            windows[index].append(datum)
    return [_statistic(alarm.statistic, window) for window in windows]


def _statistic(name: str, window: list[Any]) -> float | None:
    if not window:
        return None
    statistics = Statistics([name], window[0].timestamp)
    statistics.metric_data = window
    value = statistics.get_statistics_for_type(name)
    return None if value is None else float(value)


def _seconds(moment: datetime) -> float:
    return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp()
