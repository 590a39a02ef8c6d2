"""Quota for every instance type of every pool: SageMaker checks each entry when it creates an endpoint.

An update starts the new instances beside the old ones, so it needs twice as many. Instances of other endpoints in the
account and region count against the same quota.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from stacks.settings import StageSettings
from voice_ops.doctor.check import Check, failed, passed, skipped, warned
from voice_ops.doctor.subject import Subject
from voice_ops.session import (
    AwsSession,
    NotPermittedError,
    UnreachableError,
    UnreadableAnswerError,
    error_code,
    translated,
)

QUOTA_NAME = "{instance_type} for endpoint usage"
"""How Service Quotas names it; the codes differ from type to type and follow no rule."""

_SERVICE = "sagemaker"


@dataclass(frozen=True, slots=True)
class Demand:
    """What a stage asks of one instance type.

    Attributes:
        instance_type: such as `ml.g6.xlarge`.
        endpoints: names of the stage's endpoints that may run on it.
        instances: the most that run at once, all of them on this type.
    """

    instance_type: str
    endpoints: tuple[str, ...]
    instances: int


@dataclass(frozen=True, slots=True)
class Quota:
    """One quota of the account in the region."""

    code: str
    value: float


def demands(settings: StageSettings) -> tuple[Demand, ...]:
    """Return what a stage asks of each instance type in its pools; nothing while it is paused."""
    if settings.paused:
        return ()
    counts: Counter[str] = Counter()
    users: dict[str, list[str]] = {}
    for name, endpoint in (
        (settings.endpoint_name("stt"), settings.stt),
        (settings.endpoint_name("tts"), settings.tts),
    ):
        most = endpoint.scaling.max_instances if endpoint.scaling.enabled else endpoint.instance_count
        for instance_type in endpoint.instance_types:
            counts[instance_type] += most
            users.setdefault(instance_type, []).append(name)
    return tuple(Demand(name, tuple(users[name]), count) for name, count in counts.items())


def quota_checks(subject: Subject) -> Iterator[Check]:
    """Yield one line an instance type, `quota.ml.g6.xlarge`."""
    asked = demands(subject.settings)
    if not asked:
        yield skipped("quota", "the stage is paused: it has no endpoints")
        return
    quotas = read_quotas(subject.aws, {demand.instance_type for demand in asked})
    in_use = _in_use(subject)
    for demand in asked:
        yield _judge(demand, quotas.get(demand.instance_type), in_use, subject)


@dataclass(frozen=True, slots=True)
class InUse:
    """Instances that run or start now.

    Attributes:
        counts: instance type to endpoint to number of instances.
        gap: what was not counted, and why; empty when all was.
    """

    counts: Mapping[str, Mapping[str, int]]
    gap: str = ""


def _in_use(subject: Subject) -> InUse:
    """Count, as far as the caller may: a quota that is too small without any other instance is known all the same."""
    try:
        return instances_in_use(subject)
    except (NotPermittedError, UnreachableError, UnreadableAnswerError) as error:
        return InUse({}, f"instances of other endpoints were not counted: {error}")
    except ClientError as error:
        return InUse({}, f"instances of other endpoints were not counted: {error_code(error)}")


def read_quotas(aws: AwsSession, instance_types: set[str]) -> dict[str, Quota]:
    """Return the quotas of these types, found by name; a type that Service Quotas does not know is missing.

    Raises:
        AwsError: Service Quotas cannot be asked.
    """
    names = {QUOTA_NAME.format(instance_type=name): name for name in instance_types}
    found: dict[str, Quota] = {}
    client = aws.client("service-quotas")
    # A quota that nobody has ever changed may be listed among the defaults alone.
    for operation in ("list_service_quotas", "list_aws_default_service_quotas"):
        if len(found) == len(names):
            break
        with translated("listing SageMaker's quotas"):
            for page in client.get_paginator(operation).paginate(ServiceCode=_SERVICE):
                for quota in page["Quotas"]:
                    instance_type = names.get(quota["QuotaName"])
                    if instance_type is not None and instance_type not in found:
                        found[instance_type] = Quota(quota["QuotaCode"], float(quota["Value"]))
    return found


def instances_in_use(subject: Subject) -> InUse:
    """Count the instances of all endpoints in account and region.

    Raises:
        AwsError: AWS cannot be asked.
    """
    sagemaker = subject.aws.client("sagemaker")
    used: dict[str, dict[str, int]] = {}
    with translated("counting the instances of the account's endpoints"):
        names = [
            endpoint["EndpointName"]
            for page in sagemaker.get_paginator("list_endpoints").paginate()
            for endpoint in page["Endpoints"]
            if endpoint["EndpointStatus"] not in {"Failed", "Deleting"}
        ]
        for name in names[: subject.limits.endpoints]:
            for instance_type, count in _instances_of(sagemaker, name):
                of_type = used.setdefault(instance_type, {})
                of_type[name] = of_type.get(name, 0) + count
    most = subject.limits.endpoints
    return InUse(used, f"only the first {most} endpoints were counted" if len(names) > most else "")


def _instances_of(sagemaker: Any, endpoint: str) -> Iterator[tuple[str, int]]:
    try:
        described = sagemaker.describe_endpoint(EndpointName=endpoint)
        configured = sagemaker.describe_endpoint_config(EndpointConfigName=described["EndpointConfigName"])
    except ClientError as error:
        if error_code(error) != "ValidationException":
            raise
        return  # deleted since it was listed
    variants = {variant["VariantName"]: variant for variant in configured["ProductionVariants"]}
    for variant in described.get("ProductionVariants", []):
        pools = [pool for pool in variant.get("InstancePools", []) if "CurrentInstanceCount" in pool]
        for pool in pools:
            yield pool["InstanceType"], pool["CurrentInstanceCount"]
        instance_type = _first_type(variants.get(variant["VariantName"], {}))
        if not pools and instance_type is not None:
            yield instance_type, variant.get("CurrentInstanceCount", 0)
    if not described.get("ProductionVariants"):
        # Being created: SageMaker has claimed the instances, and tells of them when they run.
        for variant in variants.values():
            if (instance_type := _first_type(variant)) is not None:
                yield instance_type, variant.get("InitialInstanceCount", 0)


def _first_type(variant: Mapping[str, Any]) -> str | None:
    pools = sorted(variant.get("InstancePools", []), key=lambda pool: pool["Priority"])
    return str(pools[0]["InstanceType"]) if pools else variant.get("InstanceType")


def _judge(demand: Demand, quota: Quota | None, in_use: InUse, subject: Subject) -> Check:
    check = f"quota.{demand.instance_type}"
    name = QUOTA_NAME.format(instance_type=demand.instance_type)
    if quota is None:
        return failed(
            check,
            f"Service Quotas of {subject.aws.region} knows no {name!r}: the type may not be offered there",
            f"take {demand.instance_type} out of the pools ({_setting(demand)}), or choose another region",
        )
    # The stage's own instances are part of its demand, whether they run already or not.
    running = in_use.counts.get(demand.instance_type, {})
    others = sum(count for endpoint, count in running.items() if endpoint not in demand.endpoints)
    deploy, update = others + demand.instances, others + 2 * demand.instances
    found = f"{quota.value:g} allowed; {deploy} needed, {update} while an update runs"
    if others:
        found += f", {others} of them by other endpoints"
    if in_use.gap:
        found += f"; {in_use.gap}"
    if quota.value < deploy:
        return failed(
            check, found, f"{_request(quota, update, subject.aws.region)}, or leave the type out: {_setting(demand)}"
        )
    if quota.value < update:
        return warned(check, found, f"an update will fail: {_request(quota, update, subject.aws.region)}")
    if in_use.gap:
        return warned(check, found, "see that other endpoints leave enough: aws sagemaker list-endpoints")
    return passed(check, found)


def _request(quota: Quota, value: int, region: str) -> str:
    return (
        "ask for more: aws service-quotas request-service-quota-increase --service-code sagemaker "
        f"--quota-code {quota.code} --desired-value {value} --region {region}"
    )


def _setting(demand: Demand) -> str:
    keys = [f"{endpoint.rpartition('-')[2]}.instance_types" for endpoint in demand.endpoints]
    return " and ".join(keys)
