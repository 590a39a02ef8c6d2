"""What a stage's endpoints are doing: state, config, the instance type that was really found, age, cost, sessions."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from botocore.exceptions import ClientError

from stacks.names import Service, endpoint_name
from voice_ops.live_config import SERVICES, LiveConfig, StageNotDeployedError, live_config
from voice_ops.prices import cost_of, price_per_hour
from voice_ops.session import AwsSession, NotPermittedError, translated
from voice_ops.sessions_now import sessions_now

NOT_DEPLOYED = "NotDeployed"
PAUSED = "Paused"


@dataclass(frozen=True, slots=True)
class InstanceCount:
    """How many instances of one type an endpoint has now."""

    instance_type: str
    count: int


@dataclass(frozen=True, slots=True)
class EndpointStatus:
    """One endpoint as it is now.

    Attributes:
        service: `stt` or `tts`.
        endpoint: its name.
        state: SageMaker's `EndpointStatus`, else `Paused` or `NotDeployed`.
        config: name of the configuration that it serves from; None without an endpoint.
        instances: what was really provisioned, by type; empty while nothing is.
        age_seconds: since the endpoint was created; None without one.
        usd_per_hour: what its instances cost now, an estimate; None when a price is not known or nothing runs.
        usd_so_far: since it was created, as if it always had had the instances it has; an estimate, None as above.
        sessions: open now; None when nothing tells.
        problems: what is wrong, each with what to do.
    """

    service: Service
    endpoint: str
    state: str
    config: str | None
    instances: tuple[InstanceCount, ...]
    age_seconds: float | None
    usd_per_hour: float | None
    usd_so_far: float | None
    sessions: int | None
    problems: tuple[str, ...]


def stage_status(stage: str, aws: AwsSession) -> tuple[EndpointStatus, ...]:
    """Ask about both endpoints of a stage.

    Raises:
        OpsError: AWS could not be asked.
    """
    return tuple(_endpoint(stage, service, aws) for service in SERVICES)


def _endpoint(stage: str, service: Service, aws: AwsSession) -> EndpointStatus:
    name = endpoint_name(stage, service)
    try:
        config = live_config(stage, service, aws.client)
    except StageNotDeployedError:
        config = None
    described = _described(name, aws)
    if described is None:
        state = NOT_DEPLOYED if config is None else PAUSED if config.paused else "Missing"
        return EndpointStatus(service, name, state, None, (), None, None, None, None, _problems(config))
    age = max(0.0, (datetime.now(UTC) - described["CreationTime"]).total_seconds())
    instances = _instances(described, aws)
    rates = [price_per_hour(one.instance_type, one.count) for one in instances]
    costs = [cost_of(one.instance_type, age, one.count) for one in instances]
    return EndpointStatus(
        service=service,
        endpoint=name,
        state=str(described["EndpointStatus"]),
        config=str(described["EndpointConfigName"]),
        instances=instances,
        age_seconds=age,
        usd_per_hour=_sum(rates),
        usd_so_far=_sum(costs),
        sessions=_sessions(stage, service, aws) if described["EndpointStatus"] == "InService" else None,
        problems=_problems(config),
    )


def _sessions(stage: str, service: Service, aws: AwsSession) -> int | None:
    try:
        return sessions_now(stage, service, aws)
    except NotPermittedError:
        # Who may not read logs or metrics is still told the rest.
        return None


def _problems(config: LiveConfig | None) -> tuple[str, ...]:
    if config is None:
        return ()
    # While CloudFormation works, nothing is wrong yet.
    return () if config.stack_status.endswith("_IN_PROGRESS") else config.problems


def _described(name: str, aws: AwsSession) -> Mapping[str, Any] | None:
    try:
        with translated(f"looking at endpoint {name}"):
            described: Mapping[str, Any] = aws.client("sagemaker").describe_endpoint(EndpointName=name)
    except ClientError as error:
        if error.response["Error"]["Code"] == "ValidationException":
            return None
        raise
    return described


def _instances(described: Mapping[str, Any], aws: AwsSession) -> tuple[InstanceCount, ...]:
    """Return what runs: of pools, SageMaker says how many each gave; else the config names the one type."""
    found = []
    plain: dict[str, str] | None = None
    for variant in described.get("ProductionVariants", ()):
        if pools := variant.get("InstancePools"):
            found += [
                InstanceCount(pool["InstanceType"], pool["CurrentInstanceCount"])
                for pool in pools
                if pool.get("CurrentInstanceCount")
            ]
        elif count := variant.get("CurrentInstanceCount"):
            plain = plain if plain is not None else _types(str(described["EndpointConfigName"]), aws)
            found.append(InstanceCount(plain.get(variant["VariantName"], "unknown"), count))
    return tuple(found)


def _types(config: str, aws: AwsSession) -> dict[str, str]:
    with translated(f"looking at endpoint config {config}"):
        variants = aws.client("sagemaker").describe_endpoint_config(EndpointConfigName=config)["ProductionVariants"]
    return {variant["VariantName"]: variant.get("InstanceType", "unknown") for variant in variants}


def _sum(amounts: list[float | None]) -> float | None:
    known = [amount for amount in amounts if amount is not None]
    return sum(known) if known and len(known) == len(amounts) else None


def age(seconds: float | None) -> str:
    """Write an age as people say it: `45 s`, `12 min`, `3 h 20 min`, `2 d 5 h`."""
    if seconds is None:
        return ""
    minutes = int(seconds // 60)
    if minutes < 1:
        return f"{seconds:.0f} s"
    if minutes < 60:
        return f"{minutes} min"
    if minutes < 24 * 60:
        return f"{minutes // 60} h {minutes % 60} min"
    return f"{minutes // 1440} d {minutes % 1440 // 60} h"
