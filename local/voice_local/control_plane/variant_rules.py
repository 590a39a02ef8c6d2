"""What SageMaker accepts as a production variant, as far as moto does not know it.

moto 5.2 demands InstanceType or ServerlessConfig, knows no instance type newer than g4dn and takes any pool. The
rules here are the service's: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ProductionVariant.html
"""

import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import botocore.session

MAX_POOLS = 5
POOL_PRIORITIES = range(1, 6)


@functools.cache
def known_values(shape: str, member: str) -> frozenset[str]:
    """Return the values that botocore's model of SageMaker lists for an enumerated member of a shape."""
    model = botocore.session.Session().get_service_model("sagemaker")
    return frozenset(model.shape_for(shape).members[member].enum)


@functools.cache
def _limits() -> dict[str, tuple[float, float]]:
    """Return least and greatest value of each number in a variant; SDKs check the least, the service both."""
    model = botocore.session.Session().get_service_model("sagemaker")
    members = model.shape_for("ProductionVariant").members
    return {
        name: (shape.metadata.get("min", -math.inf), shape.metadata.get("max", math.inf))
        for name, shape in members.items()
        if shape.type_name in {"integer", "long", "float", "double"}
    }


class VariantRules:
    """Checks production variants; the known instance types and AMIs are botocore's own lists."""

    def __init__(self) -> None:
        self._instance_types = known_values("ProductionVariant", "InstanceType")
        self._amis = known_values("ProductionVariant", "InferenceAmiVersion")

    def problems(self, variants: Sequence[Mapping[str, Any]]) -> list[str]:
        """Return everything that is wrong with the variants of one endpoint configuration, empty when nothing is."""
        names = [variant.get("VariantName", "?") for variant in variants]
        twice = sorted({name for name in names if names.count(name) > 1})
        problems = [f"Variant {name}: two variants have this name." for name in twice]
        return problems + [problem for variant in variants for problem in self._problems_of(variant)]

    def _problems_of(self, variant: Mapping[str, Any]) -> list[str]:
        name = variant.get("VariantName", "?")
        ways = [key for key in ("InstanceType", "InstancePools", "ServerlessConfig") if key in variant]
        problems = []
        if len(ways) != 1:
            found = " and ".join(ways) or "none of them"
            problems.append(
                f"Variant {name}: specify exactly one of InstanceType, InstancePools, ServerlessConfig; found {found}."
            )
        pools = variant.get("InstancePools")
        if pools is not None:
            problems += self._problems_of_pools(name, pools)
        types = [variant.get("InstanceType"), *(pool.get("InstanceType") for pool in pools or ())]
        problems += [
            f"Variant {name}: unknown instance type {t}." for t in types if t and t not in self._instance_types
        ]
        ami = variant.get("InferenceAmiVersion")
        if ami is not None and ami not in self._amis:
            problems.append(
                f"Variant {name}: unknown InferenceAmiVersion {ami}; known are {', '.join(sorted(self._amis))}."
            )
        for member, (least, greatest) in _limits().items():
            if member in variant and not least <= variant[member] <= greatest:
                problems.append(f"Variant {name}: {member} is {least:g} to {greatest:g}, found {variant[member]:g}.")
        return problems

    def _problems_of_pools(self, name: str, pools: Sequence[Mapping[str, Any]]) -> list[str]:
        problems = []
        if not 1 <= len(pools) <= MAX_POOLS:
            problems.append(f"Variant {name}: InstancePools takes 1 to {MAX_POOLS} entries, found {len(pools)}.")
        priorities = [pool.get("Priority") for pool in pools]
        problems += [
            f"Variant {name}: the priority of an instance pool is 1 to 5, found {p}."
            for p in priorities
            if p not in POOL_PRIORITIES
        ]
        if len(set(priorities)) != len(priorities):
            problems.append(f"Variant {name}: two instance pools have the same priority.")
        types = [pool.get("InstanceType") for pool in pools]
        if len(set(types)) != len(types):
            problems.append(f"Variant {name}: two instance pools have the same instance type.")
        return problems
