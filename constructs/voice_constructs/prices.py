"""What AWS charges for what the stacks hold: the one dated table of estimates. AWS's pricing page has the last word.

Read by reviews (`voice_ops.review`), by `voice doctor` and by `voice status`. To renew it: look every figure up on
AWS's pricing pages, change the figures and the lines that say when and where, here and nowhere else.
"""

from collections.abc import Sequence
from dataclasses import dataclass

PRICES_AS_OF = "September 2026"
"""The newest of the readings below."""
PRICES_SOURCE = "AWS's list prices in us-east-1, at second hand"
PRICES_REGION = "us-east-1"
"""Other regions cost other amounts, most of them more."""

HOURS_PER_MONTH = 730
"""The average month of AWS's own calculators."""

# Three public tables that say they were read from AWS's Price List API (service AmazonSageMaker): us-east-1 on
# 17 August 2026 (g5.xlarge, g6e.xlarge), us-west-2, whose list prices are the same, in 2026 (g5, g6, g6e) and for
# September 2026 (g4dn.xlarge, g6). They are of training, transform and Studio; hosting is listed at the same amounts.
# A check: an xlarge is EC2's price times 1.4, what is larger times 1.25. The one figure found that differs is a
# blog's 1.21 for ml.g5.xlarge, which is EC2's g5.2xlarge.
# Only types somebody looked up; a missing type is told as missing, never guessed.
USD_PER_HOUR: dict[str, float] = {
    "ml.g6.xlarge": 1.127,
    "ml.g6.2xlarge": 1.222,
    "ml.g6.4xlarge": 1.654,
    "ml.g6.8xlarge": 2.518,
    "ml.g6e.xlarge": 2.605,
    "ml.g6e.2xlarge": 2.803,
    "ml.g6e.4xlarge": 3.755,
    "ml.g5.xlarge": 1.408,
    "ml.g5.2xlarge": 1.515,
    "ml.g5.4xlarge": 2.030,
    "ml.g4dn.xlarge": 0.736,
}
"""On-demand price of one instance, US dollars an hour, in us-east-1."""

# List prices in us-east-1, each beyond the free tier, as guides that name AWS's pricing pages as their source had them.
USD_PER_MONTH: dict[str, float] = {
    "AWS::CloudWatch::Alarm": 0.10,  # CloudBurn, February 2026
    "AWS::CloudWatch::Dashboard": 3.00,  # FactualMinds, June 2026
    "AWS::KMS::Key": 1.00,  # CloudBurn, March 2026
    "AWS::SecretsManager::Secret": 0.40,  # Hivebook, 2026
}
"""What one resource costs, US dollars a month, by its CloudFormation type."""
USD_PER_MONTH_OF_A_METRIC = 0.30
"""One custom metric of the first 10,000 (SigNoz, February 2026)."""
USD_PER_HOUR_OF_AN_INTERFACE_ENDPOINT = 0.01
"""In each availability zone (CloudCostKit, January 2026)."""
USD_PER_GB_MONTH_IN_S3 = 0.023
"""S3 Standard, the first 50 TB: what staged weights cost (CloudBurn, March 2026)."""
USD_PER_GB_MONTH_IN_ECR = 0.10
"""Container images, as they are compressed (CloudBurn, March 2026)."""
USD_PER_MINUTE_OF_A_BUILD = 0.01
"""CodeBuild, Linux, general1.medium, which stages weights; general1.small costs half (C3X, KindaTechnical, 2026)."""
USD_PER_GB_OF_A_LOG = 0.50
"""CloudWatch Logs, taken in; keeping it costs 0.03 a month (FactualMinds, June 2026)."""
BYTES_PER_BILLED_GB = 2**30
"""AWS bills storage by the binary gigabyte (its S3 FAQ counts so)."""


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
