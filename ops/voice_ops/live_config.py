"""Which endpoint configuration serves, and whether it is the one that the stack made last.

An update that SageMaker rolls back can end as a success of CloudFormation: the endpoint is InService, on the old
configuration. So after a deploy what the endpoint serves from is compared with what its stack holds.

    python -m voice_ops.live_config --stage dev

Exit code 0: both endpoints are in service on the newest configuration; 1: one is not, and why; 2: that could not be
found out. Needs `cloudformation:DescribeStacks`, `DescribeStackResources`, `DescribeStackEvents` and
`sagemaker:DescribeEndpoint`.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any, get_args

from botocore.exceptions import BotoCoreError, ClientError, EndpointConnectionError

from stacks.names import Service, endpoint_name
from voice_ops.errors import OpsError
from voice_ops.session import local_endpoint, unreachable_advice

type ClientOf = Callable[[str], Any]
"""Returns the boto3 client of a service, such as `boto3.Session().client`."""

SERVICES: tuple[Service, ...] = get_args(Service)


class AwsCallError(OpsError):
    """AWS could not be asked, or refused to answer."""


class StageNotDeployedError(OpsError):
    """The stage has no such stack in this account and region."""


@dataclass(frozen=True, slots=True)
class LiveConfig:
    """What one endpoint serves from, and what it should."""

    endpoint: str
    """Its name, which is its stack's name too."""
    stack_status: str
    """CloudFormation's, such as `UPDATE_COMPLETE`."""
    stack_reason: str | None
    """The first failure of the stack's last operation, None when nothing failed."""
    wanted: str | None
    """Name of the endpoint configuration that the stack holds; None when it holds none."""
    paused: bool
    """Whether the stack has no endpoint, as a paused stage has none."""
    status: str | None
    """SageMaker's `EndpointStatus`; None when there is no endpoint."""
    serving: str | None
    """Name of the configuration the endpoint serves from."""
    failure_reason: str | None
    """SageMaker's own words about what failed last."""

    @property
    def problems(self) -> tuple[str, ...]:
        """Everything that keeps the newest configuration from serving, each a sentence; empty when it serves."""
        return tuple(self._problems())

    def _problems(self) -> Iterator[str]:
        because = f": {self.failure_reason}" if self.failure_reason else ""
        if "ROLLBACK" in self.stack_status or self.stack_status.endswith("_FAILED"):
            yield (
                f"stack {self.endpoint} is {self.stack_status}, so its last change is not live"
                f"{f': {self.stack_reason}' if self.stack_reason else ''}; correct it and deploy again"
            )
        if self.paused:
            return
        if self.status is None:
            yield f"stack {self.endpoint} holds an endpoint that does not exist; deploy again, or destroy the stage"
        elif self.status != "InService":
            unhealthy = " and its container has not answered GET /ping yet" if self.status == "Creating" else ""
            yield (
                f"endpoint {self.endpoint} is {self.status}{unhealthy}{because}; the container's own words are in the "
                f"log group /aws/sagemaker/Endpoints/{self.endpoint}"
            )
        elif self.serving != self.wanted:
            yield (
                f"endpoint {self.endpoint} serves from the config {self.serving}, but its stack holds {self.wanted}: "
                f"an update was rolled back, or somebody moved the endpoint by hand{because}; deploy again"
            )
        elif self.failure_reason:
            yield f"endpoint {self.endpoint} serves, but its last update failed{because}"


def live_config(stage: str, service: Service, client: ClientOf) -> LiveConfig:
    """Ask CloudFormation and SageMaker about one endpoint of a stage.

    Args:
        stage: a deployed stage.
        service: which of its endpoints.
        client: clients of the account and region that the stage is in.

    Raises:
        StageNotDeployedError: there is no such stack.
        AwsCallError: no credentials, no permission, no network.
    """
    name = endpoint_name(stage, service)
    cloudformation = client("cloudformation")
    with asking("CloudFormation", f"stack {name}"):
        try:
            stack = cloudformation.describe_stacks(StackName=name)["Stacks"][0]
        except ClientError as error:
            if error.response["Error"]["Code"] == "ValidationError":
                raise StageNotDeployedError(
                    f"there is no stack {name}: deploy the stage (make deploy STAGE={stage}), or check stage, account "
                    "and region"
                ) from error
            raise
        resources = cloudformation.describe_stack_resources(StackName=name)["StackResources"]
        failed = "ROLLBACK" in stack["StackStatus"] or stack["StackStatus"].endswith("_FAILED")
        reason = _first_failure(cloudformation, name) if failed else None
    there = [
        resource for resource in resources if resource["ResourceStatus"] != "DELETE_COMPLETE" and _physical(resource)
    ]
    described = _describe(client("sagemaker"), name)
    return LiveConfig(
        endpoint=name,
        stack_status=stack["StackStatus"],
        stack_reason=reason,
        wanted=next(map(_physical, _of_type(there, "AWS::SageMaker::EndpointConfig")), None),
        paused=not _of_type(there, "AWS::SageMaker::Endpoint"),
        status=described.get("EndpointStatus"),
        serving=described.get("EndpointConfigName"),
        failure_reason=described.get("FailureReason"),
    )


@contextmanager
def asking(service: str, about: str) -> Iterator[None]:
    """Turn what boto3 raises into an `AwsCallError` that says what was asked."""
    try:
        yield
    except ClientError as error:
        said = error.response["Error"]
        advice = "allow it in the caller's policy" if "Denied" in said["Code"] else "check credentials and region"
        raise AwsCallError(
            f"{service} refused {error.operation_name} for {about} ({said['Code']}): {said.get('Message', '')}; "
            f"{advice}"
        ) from error
    except BotoCoreError as error:
        away = isinstance(error, EndpointConnectionError) and local_endpoint() is not None
        advice = unreachable_advice() if away else "check credentials, region and network"
        raise AwsCallError(f"{service} could not be asked about {about}: {error}; {advice}") from error


def _of_type(resources: Sequence[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [resource for resource in resources if resource["ResourceType"] == kind]


def _physical(resource: dict[str, Any]) -> str:
    # CloudFormation's id of a SageMaker resource is its ARN in some releases of its handlers, its name in others.
    return str(resource.get("PhysicalResourceId", "")).rpartition("/")[2]


def _describe(sagemaker: Any, name: str) -> dict[str, Any]:
    with asking("SageMaker", f"endpoint {name}"):
        try:
            described: dict[str, Any] = sagemaker.describe_endpoint(EndpointName=name)
        except ClientError as error:
            if error.response["Error"]["Code"] == "ValidationException":
                return {}
            raise
    return described


def _first_failure(cloudformation: Any, name: str) -> str | None:
    """Return why the stack's last operation failed: of its failures, the one that came first."""
    reason = None
    for page in cloudformation.get_paginator("describe_stack_events").paginate(StackName=name):
        for event in page["StackEvents"]:  # the newest first
            status = event["ResourceStatus"]
            said = event.get("ResourceStatusReason")
            if status.endswith("_FAILED") and said and "cancelled" not in said:
                reason = f"{event['LogicalResourceId']}: {said}"
            if event["LogicalResourceId"] == name and status in {"CREATE_IN_PROGRESS", "UPDATE_IN_PROGRESS"}:
                return reason
    return reason


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what each endpoint of a stage serves from; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m voice_ops.live_config",
        description=(__doc__ or "").partition("\n")[0],
        epilog="example: python -m voice_ops.live_config --stage prod --json",
    )
    parser.add_argument("--stage", default="dev", help="the stage to look at (default: dev)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    given = parser.parse_args(arguments)
    import boto3  # noqa: PLC0415 (slow to import; --help does without)

    try:
        # One session, made here, so that a profile that does not exist is told as what it is.
        with asking("AWS", f"stage {given.stage}"):
            client = boto3.Session().client
            found = [live_config(given.stage, service, client) for service in SERVICES]
    except OpsError as error:
        sys.stderr.write(f"live_config: {error}\n")
        return 2
    if given.json:
        rows = [{**asdict(config), "problems": config.problems} for config in found]
        sys.stdout.write(json.dumps({"stage": given.stage, "endpoints": rows}) + "\n")
    else:
        for config in found:
            _print(config)
    return 1 if any(config.problems for config in found) else 0


def _print(config: LiveConfig) -> None:
    for problem in config.problems:
        sys.stdout.write(f"{problem}\n")
    if config.paused:
        sys.stdout.write(f"{config.endpoint}: paused, no endpoint\n")
    elif not config.problems:
        sys.stdout.write(f"{config.endpoint}: InService on {config.serving}, the newest config\n")


if __name__ == "__main__":
    raise SystemExit(main())
