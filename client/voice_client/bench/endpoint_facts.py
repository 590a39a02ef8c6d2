"""What stands behind an endpoint: how many instances of which type, and what they cost an hour.

Neither is needed to measure: whoever may stream to an endpoint may lack the right to describe it. What could not be
found out is said in the report.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Any

from voice_client.blocking import call_blocking
from voice_client.errors import VoiceError

LOOK_UP_SECONDS = 15.0
"""For both questions to SageMaker; each is answered in well under a second."""
REQUEST_SECONDS = 5.0

PRICES_GROUP = "voice.prices"
"""Entry-point group of packages that know prices: a module with `price_per_hour(instance_type, instances)` in US
dollars (None: not known), `region_note(region)` (what is to be said of a region's prices, or nothing) and `ESTIMATE`, a
sentence on where the figures are from."""


@dataclass(frozen=True, slots=True)
class Instances:
    """The instances behind an endpoint."""

    types: tuple[str, ...] = ()
    """Those that run; with `running` None, those that may."""
    running: int | None = None
    unknown_because: str | None = None

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {"types": list(self.types), "running": self.running, "unknown_because": self.unknown_because}


@dataclass(frozen=True, slots=True)
class HourlyPrice:
    """What an endpoint costs an hour in US dollars, and who says so."""

    usd: float | None
    source: str

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {"usd": self.usd, "source": self.source}


async def find_instances(endpoint_name: str, region: str) -> Instances:
    """Ask SageMaker what runs behind an endpoint (`sagemaker:DescribeEndpoint`, `...:DescribeEndpointConfig`)."""
    try:
        return await call_blocking(
            lambda: _describe(endpoint_name, region),
            deadline_seconds=LOOK_UP_SECONDS,
            doing="describing the endpoint",
            advice="Measuring needs no answer",
        )
    except VoiceError as error:
        return Instances(unknown_because=error.message)


def instances_of(variants: Sequence[Mapping[str, Any]], configured: Sequence[Mapping[str, Any]]) -> Instances:
    """Return the instances from what DescribeEndpoint and DescribeEndpointConfig say of the variants.

    A pool says how many of each type run; without pools, the type stands in the configuration.
    """
    running: dict[str, int] = {}
    possible: list[str] = []
    by_name = {variant.get("VariantName"): variant for variant in configured}
    for variant in variants:
        pools = variant.get("InstancePools") or ()
        if not pools:
            of_config = by_name.get(variant.get("VariantName"), {})
            pools = [
                {
                    "InstanceType": of_config.get("InstanceType"),
                    "CurrentInstanceCount": variant.get("CurrentInstanceCount"),
                }
            ]
        for pool in pools:
            if (kind := pool.get("InstanceType")) is None:
                continue
            possible.append(kind)
            if count := pool.get("CurrentInstanceCount"):
                running[kind] = running.get(kind, 0) + count
    if running:
        return Instances(tuple(sorted(running)), sum(running.values()))
    return Instances(tuple(dict.fromkeys(possible)), None, "the endpoint does not say which of its instance types runs")


def hourly_price(instances: Instances, given: float | None, *, region: str | None, local: bool) -> HourlyPrice:
    """Return what the instances cost an hour.

    Args:
        instances: what runs.
        given: a price for all of them that the user gave; it is taken as it is.
        region: where they run.
        local: whether the endpoint is of the local cloud, whose speed says nothing about a GPU's.
    """
    if given is not None:
        return HourlyPrice(given, "given with --price-per-hour")
    if local:
        return HourlyPrice(None, "stand-ins on this machine: what a GPU costs says nothing about them")
    if len(instances.types) != 1 or instances.running is None:
        return HourlyPrice(None, f"{instances.unknown_because or 'instances of several types'}; give --price-per-hour")
    kind = instances.types[0]
    for entry in entry_points(group=PRICES_GROUP):
        try:
            prices = entry.load()
            price = prices.price_per_hour(kind, instances.running)
        except ImportError as error:
            return HourlyPrice(None, f"the price table needs {error.name}; give --price-per-hour")
        if price is not None:
            return HourlyPrice(float(price), "; ".join(filter(None, (prices.ESTIMATE, prices.region_note(region)))))
    return HourlyPrice(None, f"no price of {kind} is known here; give --price-per-hour")


def _describe(endpoint_name: str, region: str) -> Instances:
    import botocore.session  # noqa: PLC0415 - slow to import
    from botocore.config import Config  # noqa: PLC0415
    from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415

    config = Config(connect_timeout=REQUEST_SECONDS, read_timeout=REQUEST_SECONDS, retries={"total_max_attempts": 1})
    try:
        client = botocore.session.Session().create_client("sagemaker", region_name=region, config=config)
        endpoint = client.describe_endpoint(EndpointName=endpoint_name)
        described = client.describe_endpoint_config(EndpointConfigName=endpoint["EndpointConfigName"])
    except ClientError as error:
        code = error.response.get("Error", {}).get("Code", "")
        return Instances(unknown_because=f"SageMaker does not describe the endpoint ({code})")
    except (BotoCoreError, ValueError) as error:
        return Instances(unknown_because=f"SageMaker could not be asked ({type(error).__name__})")
    return instances_of(endpoint.get("ProductionVariants", ()), described.get("ProductionVariants", ()))
