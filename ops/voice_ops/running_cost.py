"""What a stage costs while it runs: estimates from dated tables, for the cheapest and the dearest instance type."""

from collections.abc import Sequence
from dataclasses import dataclass

from stacks.settings import StageSettings
from voice_constructs.prices import (
    HOURS_PER_MONTH,
    USD_PER_HOUR_OF_AN_INTERFACE_ENDPOINT,
    USD_PER_MONTH,
    USD_PER_MONTH_OF_A_METRIC,
)
from voice_ops.assembly import SynthesizedStack
from voice_ops.prices import EndpointCost, endpoint_costs


@dataclass(frozen=True, slots=True)
class StageCost:
    """What a stage costs.

    Attributes:
        endpoints: each of them; empty while paused.
        standing: US dollars a month for what does not depend on use: keys, alarms, metrics, dashboard, VPC endpoints.
    """

    endpoints: tuple[EndpointCost, ...]
    standing: float

    @property
    def per_hour(self) -> tuple[float | None, float | None]:
        """All endpoints together, cheapest and dearest; None when a price is missing."""
        lows, highs = [cost.cheapest for cost in self.endpoints], [cost.dearest for cost in self.endpoints]
        return _sum(lows), _sum(highs)

    @property
    def per_month(self) -> tuple[float | None, float | None]:
        """With the standing costs, for 730 hours."""
        low, high = self.per_hour
        return (
            None if low is None else low * HOURS_PER_MONTH + self.standing,
            None if high is None else high * HOURS_PER_MONTH + self.standing,
        )


def stage_cost(settings: StageSettings, stacks: Sequence[SynthesizedStack]) -> StageCost:
    """Add up what a stage costs, by its settings and what its templates hold."""
    standing = 0.0
    metrics = set()
    for stack in stacks:
        for resource in stack.resources.values():
            standing += USD_PER_MONTH.get(resource["Type"], 0.0)
            properties = resource.get("Properties", {})
            for transformation in properties.get("MetricTransformations", []):
                metrics.add((transformation["MetricNamespace"], transformation["MetricName"]))
            if properties.get("VpcEndpointType") == "Interface":
                zones = len(properties["SubnetIds"])
                standing += zones * USD_PER_HOUR_OF_AN_INTERFACE_ENDPOINT * HOURS_PER_MONTH
    return StageCost(endpoint_costs(settings), standing + len(metrics) * USD_PER_MONTH_OF_A_METRIC)


def _sum(prices: Sequence[float | None]) -> float | None:
    known = [price for price in prices if price is not None]
    return sum(known) if len(known) == len(prices) else None
