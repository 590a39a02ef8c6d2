"""What AWS charges for what the stacks hold: the one dated table of estimates. AWS's pricing page has the last word.

Read by reviews (`voice_ops.review`), by `voice doctor` and by `voice status`. To renew it: look every figure up on
AWS's pricing pages, change the figures and the lines that say when and where, here and nowhere else.
"""

from collections.abc import Sequence
from dataclasses import dataclass

PRICES_AS_OF = "November 2026"
PRICES_SOURCE = "third-party figures of SageMaker's on-demand hosting prices in us-east-1"
PRICES_REGION = "us-east-1"
"""Other regions cost other amounts, most of them more."""

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

# List prices in us-east-1, each beyond the free tier.
USD_PER_MONTH: dict[str, float] = {
    "AWS::CloudWatch::Alarm": 0.10,
    "AWS::CloudWatch::Dashboard": 3.00,
    "AWS::KMS::Key": 1.00,
    "AWS::SecretsManager::Secret": 0.40,
}
"""What one resource costs, US dollars a month, by its CloudFormation type."""
USD_PER_MONTH_OF_A_METRIC = 0.30
"""One custom metric."""
USD_PER_HOUR_OF_AN_INTERFACE_ENDPOINT = 0.01
"""In each availability zone."""
USD_PER_GB_MONTH_IN_S3 = 0.023
"""S3 Standard, the first 50 TB: what staged weights cost."""
USD_PER_GB_MONTH_IN_ECR = 0.10
"""Container images."""
USD_PER_MINUTE_OF_A_BUILD = 0.005
"""CodeBuild, Linux, general1.small: what staging weights once costs."""


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
