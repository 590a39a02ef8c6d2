"""Prices in an operator's words: what a stage costs an hour, what an instance has cost so far. Always estimates.

The figures are in one dated table, `voice_constructs.prices`; nothing here holds one.
"""

from dataclasses import dataclass

from stacks.endpoint_settings import EndpointSettings
from stacks.settings import StageSettings
from voice_constructs.prices import (
    HOURS_PER_MONTH,
    PRICES_AS_OF,
    PRICES_REGION,
    PRICES_SOURCE,
    USD_PER_HOUR,
    hourly_price_range,
)

ESTIMATE = f"estimate: {PRICES_SOURCE}, {PRICES_AS_OF}; AWS's pricing page has the last word"
"""What every price is printed with."""

_SECONDS_PER_HOUR = 3600


@dataclass(frozen=True, slots=True)
class EndpointCost:
    """What one endpoint costs, in US dollars an hour.

    Attributes:
        endpoint: its name.
        instances: least and most of them, scaling considered.
        cheapest: least instances of the cheapest type with a known price; None when none is known.
        dearest: most instances of the dearest type with a known price; None when none is known.
        unknown: types without a price in the table: either figure may be wrong because of them.
        first_choice: least instances of the type that is tried first; None when its price is not known.
    """

    endpoint: str
    instances: tuple[int, int]
    cheapest: float | None
    dearest: float | None
    unknown: tuple[str, ...]
    first_choice: float | None


def endpoint_costs(settings: StageSettings) -> tuple[EndpointCost, ...]:
    """Return what each endpoint of a stage costs an hour; none while the stage is paused."""
    if settings.paused:
        return ()
    return (
        _endpoint_cost(settings.endpoint_name("stt"), settings.stt),
        _endpoint_cost(settings.endpoint_name("tts"), settings.tts),
    )


def price_per_hour(instance_type: str, instances: int = 1) -> float | None:
    """Return what instances of a type cost in US dollars an hour; None when its price is not in the table."""
    price = USD_PER_HOUR.get(instance_type)
    return None if price is None else price * instances


def cost_of(instance_type: str, seconds: float, instances: int = 1) -> float | None:
    """Return what instances of a type have cost after so many seconds, in US dollars; None when it is not known."""
    price = price_per_hour(instance_type, instances)
    return None if price is None else price * seconds / _SECONDS_PER_HOUR


def money(amount: float | None) -> str:
    """Write US dollars with cents, thousands separated; a missing amount is `unknown`."""
    return "unknown" if amount is None else f"{amount:,.2f}"


def region_note(region: str | None) -> str:
    """Return the warning for a region whose prices the table does not hold; empty for the table's own."""
    if region is None or region == PRICES_REGION:
        return ""
    return f"prices are {PRICES_REGION}'s; {region} costs other amounts, mostly more"


def per_month(hourly: float | None) -> float | None:
    """Return what an hourly price is in the average month of 730 hours, US dollars."""
    return None if hourly is None else hourly * HOURS_PER_MONTH


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
        first_choice=price_per_hour(settings.instance_types[0], least),
    )
