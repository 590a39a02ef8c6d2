"""Credentials, region and the CDK's bootstrap: what must be there before anything is asked of the account."""

from typing import Any

from botocore.exceptions import ClientError

from stacks.settings import StageSettings
from voice_ops.doctor.check import Check, failed, passed, warned
from voice_ops.doctor.container_accounts import POOL_REGIONS, container_account
from voice_ops.doctor.subject import Subject
from voice_ops.session import (
    AwsSession,
    CredentialsExpiredError,
    CredentialsUnusableError,
    UnreachableError,
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
    except CredentialsExpiredError as error:
        return failed(
            "credentials",
            f"expired: {error}",
            "log in again: `aws sso login`, or new temporary keys; then run this again",
        )
    except CredentialsUnusableError as error:
        return failed(
            "credentials",
            str(error),
            "set AWS_PROFILE, or run `aws configure` or `aws sso login`; without an account: "
            '`voice local up`, then eval "$(voice local env)"',
        )
    except UnreachableError as error:
        return failed("credentials", str(error), "check the network, HTTPS_PROXY and AWS_ENDPOINT_URL")
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


def region(aws: AwsSession) -> Check:
    """Check that AWS publishes the containers in the region, and that it is one that pools are shown for."""
    account = container_account(aws.region)
    supported = ", ".join(sorted(POOL_REGIONS))
    if account is None:
        near = sorted(name for name in POOL_REGIONS if name.partition("-")[0] == aws.region.partition("-")[0])
        return failed(
            "region",
            f"{aws.region}: AWS publishes no Deep Learning Containers there that are known of",
            f"set AWS_REGION or the setting `region` to a region that has them"
            f"{f', such as {" or ".join(near)}' if near else ''}: {supported}",
        )
    if aws.region not in POOL_REGIONS:
        return warned(
            "region",
            f"{aws.region}: containers from account {account}; not among the regions that AWS lists for instance pools",
            f"a deploy may find no such instances there; listed are {supported}",
        )
    return passed("region", f"{aws.region}, containers from account {account}")


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
