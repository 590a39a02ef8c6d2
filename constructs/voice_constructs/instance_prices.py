"""What SageMaker's GPU instances cost: a dated table of estimates. AWS's pricing page has the last word."""

from collections.abc import Sequence
from dataclasses import dataclass

PRICES_AS_OF = "November 2026"
PRICES_SOURCE = "third-party figures of SageMaker's on-demand hosting prices in us-east-1"
HOURS_PER_MONTH = 730
"""The average month of AWS's own calculators."""

# Only types somebody looked up; a missing type is told as missing, never guessed.
USD_PER_HOUR: dict[str, float] = {
    "ml.g6.xlarge": 1.127,
    "ml.g6.4xlarge": 1.654,
    "ml.g6e.xlarge": 2.605,
    "ml.g5.xlarge": 1.408,
    "ml.g4dn.xlarge": 0.736,
}
"""On-demand price of one instance, US dollars an hour, in us-east-1."""


@dataclass(frozen=True, slots=True)
class HourlyPriceRange:
    """What one instance of a choice of types costs, in US dollars an hour.

    Attributes:
        cheapest: the lowest known price; None when none is known.
        dearest: the highest known price; None when none is known.
        unknown: types without a price in the table.
    """

    cheapest: float | None
    dearest: float | None
    unknown: tuple[str, ...]


def hourly_price_range(instance_types: Sequence[str]) -> HourlyPriceRange:
    """Return what one instance costs, whichever of the types is provisioned."""
    known = [USD_PER_HOUR[name] for name in instance_types if name in USD_PER_HOUR]
    return HourlyPriceRange(
        cheapest=min(known, default=None),
        dearest=max(known, default=None),
        unknown=tuple(name for name in instance_types if name not in USD_PER_HOUR),
    )
