"""Metric filters count: what is put into a log becomes data of the metrics that the log group's filters name.

moto keeps filters and does nothing with them. Not imitated: default values, dimensions out of a log event.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from moto.cloudwatch.models import cloudwatch_backends
from moto.logs.models import LogsBackend

from voice_local.control_plane.filter_pattern import FilterPattern, PatternNotReadError, value_of
from voice_local.control_plane.patches import Patches

_log = logging.getLogger(__name__)

type Put = Callable[[Any, str, str, list[dict[str, Any]]], Any]


class MetricFilters:
    """The filters of one local cloud."""

    def __init__(self) -> None:
        self._patterns: dict[str, FilterPattern | None] = {}

    def install(self, patches: Patches) -> None:
        """Put the gap's filling into moto; `patches` takes it out again."""
        patches.around(LogsBackend, "put_log_events", self._put)

    def _put(
        self,
        put: Put,
        logs: Any,
        log_group_name: str,
        log_stream_name: str,
        log_events: list[dict[str, Any]],
    ) -> Any:
        answer = put(logs, log_group_name, log_stream_name, log_events)
        filters = logs.describe_metric_filters(log_group_name=log_group_name)
        cloudwatch = cloudwatch_backends[logs.account_id][logs.region_name]
        for namespace, datum in self._data(filters, log_events):
            cloudwatch.put_metric_data(namespace, [datum])
        return answer

    def _data(
        self, filters: Sequence[dict[str, Any]], events: Sequence[dict[str, Any]]
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield each metric's namespace and one datum of it."""
        for found in filters:
            pattern = self._pattern(found["filterPattern"])
            if pattern is None:
                continue
            for event in events:
                if not pattern.matches(event["message"]):
                    continue
                at = datetime.fromtimestamp(event["timestamp"] / 1000, UTC).replace(tzinfo=None)  # as moto has them
                for metric in found["metricTransformations"]:
                    if (value := value_of(str(metric["metricValue"]), event["message"])) is not None:
                        named = {"MetricName": metric["metricName"], "Value": value, "Timestamp": at}
                        yield metric["metricNamespace"], {**named, "Unit": metric.get("unit", "None")}

    def _pattern(self, text: str) -> FilterPattern | None:
        if text not in self._patterns:
            try:
                self._patterns[text] = FilterPattern(text)
            except PatternNotReadError as error:
                _log.warning("A metric filter counts nothing: %s", error)
                self._patterns[text] = None
        return self._patterns[text]
