"""Credentials, region and the CDK's bootstrap: what must be there before anything is asked of the account."""

import os
from typing import Any

from botocore.exceptions import ClientError

from stacks.settings import StageSettings
from voice_ops.doctor.check import Check, failed, passed, warned
from voice_ops.doctor.container_accounts import POOL_REGIONS, container_account
from voice_ops.doctor.subject import Subject
from voice_ops.session import (
    AwsError,
    AwsSession,
    ClockWrongError,
    CredentialsExpiredError,
    CredentialsUnusableError,
    UnreachableError,
    UnreadableAnswerError,
    error_code,
    translated,
)

OLDEST_BOOTSTRAP = 6
"""Version of the bootstrap stack that stacks of this CDK ask for (`requiresBootstrapStackVersion`)."""

DEFAULT_QUALIFIER = "hnb659fds"
"""The CDK's own; the context key `@aws-cdk/core:bootstrapQualifier` sets another."""

_BROKEN = ("ROLLBACK_COMPLETE", "ROLLBACK_FAILED", "DELETE_FAILED", "DELETE_COMPLETE", "UPDATE_ROLLBACK_FAILED")


def credentials(aws: AwsSession, settings: StageSettings | None) -> Check:
    """Check whose credentials are in use, and that the stage may be deployed to that account."""
    try:
        identity = aws.identity
    except (CredentialsUnusableError, UnreachableError, UnreadableAnswerError) as error:
        expired = "expired: " if isinstance(error, CredentialsExpiredError) else ""
        return failed("credentials", f"{expired}{error}", _cure(error))
    where = f"{identity.arn}, account {identity.account}{' (local cloud)' if aws.is_local else ''}"
    if settings is not None and settings.account not in {None, identity.account}:
        return failed(
            "credentials",
            f"{where}; the stage's setting `account` says {settings.account}",
            f"use credentials of account {settings.account}, or correct the setting",
        )
    if identity.arn.endswith(":root"):
        return warned("credentials", where, "this is the root user: use a role with fewer rights")
    return passed("credentials", where)


def _cure(error: AwsError) -> str:
    """Return what to do when AWS does not say who the caller is."""
    if isinstance(error, ClockWrongError):
        return "set the clock (`sudo timedatectl set-ntp true`), then run this again"
    if isinstance(error, CredentialsExpiredError):
        profile = os.environ.get("AWS_PROFILE")
        log_in = f"aws sso login{f' --profile {profile}' if profile else ''}"
        return f"log in again: `{log_in}`, or new temporary keys; then run this again"
    if isinstance(error, CredentialsUnusableError):
        return (
            "set AWS_PROFILE, or run `aws configure` or `aws sso login`; without an account: "
            '`voice local up`, then eval "$(voice local env)"'
        )
    return "check the network, HTTPS_PROXY and AWS_ENDPOINT_URL"


def region(name: str) -> Check:
    """Check that AWS publishes the containers in the region, and that it is one that pools are shown for."""
    account = container_account(name)
    supported = ", ".join(sorted(POOL_REGIONS))
    if account is None:
        near = sorted(other for other in POOL_REGIONS if other.partition("-")[0] == name.partition("-")[0])
        return failed(
            "region",
            f"{name}: AWS publishes no Deep Learning Containers there that are known of",
            f"set AWS_REGION or the setting `region` to a region that has them"
            f"{f', such as {" or ".join(near)}' if near else ''}: {supported}",
        )
    if name not in POOL_REGIONS:
        return warned(
            "region",
            f"{name}: containers from account {account}; not among the regions that AWS lists for instance pools",
            f"a deploy may find no such instances there; listed are {supported}",
        )
    return passed("region", f"{name}, containers from account {account}")


def bootstrap(subject: Subject, qualifier: str = DEFAULT_QUALIFIER) -> Check:
    """Check that `cdk bootstrap` was run for this account and region, lately enough."""
    aws = subject.aws
    name = f"/cdk-bootstrap/{qualifier}/version"
    command = f"npx cdk bootstrap aws://{aws.identity.account}/{aws.region}"
    try:
        with translated(f"reading {name}"):
            found = str(aws.client("ssm").get_parameter(Name=name)["Parameter"]["Value"])
    except ClientError as error:
        if error_code(error) != "ParameterNotFound":
            raise
        return failed("bootstrap", f"missing in {aws.region}: there is no parameter {name}", f"run `{command}`")
    if not found.isdecimal() or int(found) < OLDEST_BOOTSTRAP:
        return failed("bootstrap", f"version {found}; {OLDEST_BOOTSTRAP} or newer is needed", f"run `{command}` again")
    state = _stack_status(aws.client("cloudformation"), "CDKToolkit")
    if state in _BROKEN:
        return failed(
            "bootstrap",
            f"version {found}, but its stack CDKToolkit is {state}",
            f"delete that stack, then run `{command}`",
        )
    # Another name is no fault: --toolkit-stack-name.
    return passed("bootstrap", f"version {found}{'' if state is None else f', CDKToolkit {state}'}")


def _stack_status(cloudformation: Any, name: str) -> str | None:
    """Return a stack's status, None when there is no such stack."""
    try:
        with translated(f"describing stack {name}"):
            return str(cloudformation.describe_stacks(StackName=name)["Stacks"][0]["StackStatus"])
    except ClientError as error:
        if error_code(error) != "ValidationError":
            raise
        return None
