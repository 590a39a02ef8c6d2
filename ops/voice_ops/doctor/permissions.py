"""Whether the caller may deploy and stream, asked of IAM's own simulator: nothing is tried out.

A deploy of a bootstrapped account needs little of the caller: reading the bootstrap's version and taking its roles,
which have the rest.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from voice_ops.doctor.account import DEFAULT_QUALIFIER
from voice_ops.doctor.check import Check, failed, passed, skipped
from voice_ops.doctor.subject import Subject
from voice_ops.session import NotPermittedError, error_code, translated

_ROLES = ("deploy", "file-publishing", "image-publishing", "lookup")
_ASSUMED_ROLE = re.compile(r"arn:(?P<partition>[\w-]+):sts::(?P<account>\d+):assumed-role/(?P<role>[^/]+)/.+")


@dataclass(frozen=True, slots=True)
class _Need:
    action: str
    resources: tuple[str, ...]


def permission_checks(subject: Subject, qualifier: str = DEFAULT_QUALIFIER) -> Iterator[Check]:
    """Yield the lines `permissions.deploy` and `permissions.stream`."""
    arn = subject.aws.identity.arn
    needs = {"permissions.deploy": _deploy(subject, qualifier), "permissions.stream": _stream(subject)}
    if arn.endswith(":root"):
        yield from (passed(check, "the root user may do everything") for check in needs)
        return
    try:
        source = _policy_source(subject, arn)
        denied = {check: list(_denied(subject.aws.client("iam"), source, asked)) for check, asked in needs.items()}
    except NotPermittedError as error:
        for check in needs:
            yield skipped(
                check,
                f"the caller may not simulate its own policies: {error}",
                "allow iam:SimulatePrincipalPolicy and iam:GetRole to have this looked at",
            )
        return
    except ClientError as error:
        if error_code(error) not in {"NoSuchEntity", "InvalidInput"}:
            raise
        yield from (skipped(check, f"IAM cannot simulate {arn}: {error}") for check in needs)
        return
    for check, missing in denied.items():
        yield _line(check, missing, source)


def _line(check: str, missing: Sequence[_Need], source: str) -> Check:
    what = {
        "permissions.deploy": "may read the bootstrap's version and take its roles",
        "permissions.stream": "may find and stream to both endpoints",
    }[check]
    if not missing:
        return passed(check, what)
    listed = "; ".join(f"{need.action} on {', '.join(need.resources)}" for need in missing)
    return failed(check, f"{source} may not {listed}", f"allow it in a policy of {source.rpartition('/')[2]}: {listed}")


def _partition(subject: Subject) -> str:
    return subject.aws.identity.arn.split(":")[1]


def _deploy(subject: Subject, qualifier: str) -> tuple[_Need, ...]:
    account, region, partition = subject.aws.identity.account, subject.aws.region, _partition(subject)
    roles = tuple(
        f"arn:{partition}:iam::{account}:role/cdk-{qualifier}-{kind}-role-{account}-{region}" for kind in _ROLES
    )
    return (
        _Need("sts:AssumeRole", roles),
        _Need(
            "ssm:GetParameter", (f"arn:{partition}:ssm:{region}:{account}:parameter/cdk-bootstrap/{qualifier}/version",)
        ),
    )


def _stream(subject: Subject) -> tuple[_Need, ...]:
    account, region, partition = subject.aws.identity.account, subject.aws.region, _partition(subject)
    stage = subject.settings
    endpoints = tuple(
        f"arn:{partition}:sagemaker:{region}:{account}:endpoint/{stage.endpoint_name(service)}"
        for service in ("stt", "tts")
    )
    parameters = tuple(
        f"arn:{partition}:ssm:{region}:{account}:parameter/sagemaker-voice/{stage.stage}/{service}"
        for service in ("stt", "tts")
    )
    return (
        _Need("sagemaker:InvokeEndpointWithBidirectionalStream", endpoints),
        _Need("ssm:GetParametersByPath", parameters),
    )


def _denied(iam: Any, source: str, needs: Sequence[_Need]) -> Iterator[_Need]:
    for need in needs:
        with translated(f"simulating {need.action}"):
            pages = iam.get_paginator("simulate_principal_policy").paginate(
                PolicySourceArn=source, ActionNames=[need.action], ResourceArns=list(need.resources)
            )
            results = [result for page in pages for result in page["EvaluationResults"]]
        missing = tuple(resource for result in results for resource in _refused(result))
        if missing:
            yield _Need(need.action, missing)


def _refused(result: Mapping[str, Any]) -> Iterator[str]:
    """Yield the resources that a result refuses; one result may stand for several resources, and lists them then."""
    if each := result.get("ResourceSpecificResults"):
        yield from (one["EvalResourceName"] for one in each if one["EvalResourceDecision"] != "allowed")
    elif result["EvalDecision"] != "allowed":
        yield str(result.get("EvalResourceName", "*"))


def _policy_source(subject: Subject, arn: str) -> str:
    """Return the user or role whose policies decide: of an assumed role, the role with its path."""
    found = _ASSUMED_ROLE.fullmatch(arn)
    if found is None:
        return arn
    with translated(f"looking role {found['role']} up"):
        return str(subject.aws.client("iam").get_role(RoleName=found["role"])["Role"]["Arn"])
