"""What a stage costs while it runs: estimates from dated tables, for the cheapest and the dearest instance type."""

from collections.abc import Sequence
from dataclasses import dataclass

from stacks.endpoint_settings import EndpointSettings
from stacks.settings import StageSettings
from voice_constructs.instance_prices import HOURS_PER_MONTH, hourly_price_range
from voice_ops.assembly import SynthesizedStack

# List prices in us-east-1, US dollars a month; each is beyond the free tier.
USD_PER_MONTH = {
    "AWS::CloudWatch::Alarm": 0.10,
    "AWS::CloudWatch::Dashboard": 3.00,
    "AWS::KMS::Key": 1.00,
}
USD_PER_MONTH_OF_A_METRIC = 0.30
USD_PER_HOUR_OF_AN_INTERFACE_ENDPOINT = 0.01
"""In each availability zone."""


@dataclass(frozen=True, slots=True)
class EndpointCost:
    """What one endpoint costs, in US dollars an hour.

    Attributes:
        endpoint: its name.
        instances: least and most of them, scaling considered.
        cheapest: least instances of the cheapest type with a known price; None when none is known.
        dearest: most instances of the dearest type with a known price; None when none is known.
        unknown: types without a price in the table: either figure may be wrong because of them.
    """

    endpoint: str
    instances: tuple[int, int]
    cheapest: float | None
    dearest: float | None
    unknown: tuple[str, ...]


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
    endpoints = (
        ()
        if settings.paused
        else (
            _endpoint_cost(settings.endpoint_name("stt"), settings.stt),
            _endpoint_cost(settings.endpoint_name("tts"), settings.tts),
        )
    )
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
    return StageCost(endpoints, standing + len(metrics) * USD_PER_MONTH_OF_A_METRIC)


def _endpoint_cost(name: str, settings: EndpointSettings) -> EndpointCost:
    price = hourly_price_range(settings.instance_types)
    scaling = settings.scaling
    least = settings.certain_instance_count
    most = scaling.max_instances if scaling.enabled else settings.instance_count
    return EndpointCost(
        endpoint=name,
        instances=(least, most),
        cheapest=None if price.cheapest is None else price.cheapest * least,
        dearest=None if price.dearest is None else price.dearest * most,
        unknown=price.unknown,
    )


def _sum(prices: Sequence[float | None]) -> float | None:
    known = [price for price in prices if price is not None]
    return sum(known) if len(known) == len(prices) else None
