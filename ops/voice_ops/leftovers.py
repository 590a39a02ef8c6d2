"""What is left of a stage: proof after `cdk destroy` that nothing of it goes on existing, and costing.

CloudFormation forgets a stack it has deleted, so this asks each service itself: by the literal names that the stacks
give, by the tags `project` and `stage` where a name is CloudFormation's own, and for container images by what the
stage's models named before they went.

    images = stage_images("dev", client)       # before
    ...                                        # cdk destroy
    delete_images(images, client)              # CDK leaves images in its repository for ever
    left = await_nothing_left("dev", client, images=images)

    python -m voice_ops.leftovers --stage dev

Exit code 0: nothing is left (but for what the stage's settings keep); 1: something is, with the command that removes
it; 2: that could not be found out.

Needs only rights to list: `cloudformation:DescribeStacks`, `sagemaker:List*` of endpoints, configs, models and tags,
`logs:DescribeLogGroups`, `ssm:DescribeParameters`, `cloudwatch:DescribeAlarms` and `ListDashboards`, `iam:ListRoles`,
`sns:ListTopics`, `application-autoscaling:DescribeScalableTargets`, `ec2:DescribeSecurityGroups` and
`DescribeVpcEndpoints`, `tag:GetResources`, `kms:DescribeKey`, `ecr:DescribeImages`; `stage_images` and `delete_images`
also `sagemaker:DescribeModel` and `ecr:BatchDeleteImage`.
"""

import argparse
import json
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from botocore.exceptions import ClientError

from stacks.names import endpoint_name, foundation_stack_name
from voice_ops.errors import OpsError
from voice_ops.live_config import SERVICES, ClientOf, asking

PROJECT = "sagemaker-voice"
"""Value of the tag `project` of everything that the stacks hold."""

SETTLE_SECONDS = 60.0
"""How long a listing may still show what was deleted: services are consistent only after a while, IAM and the tagging
API after tens of seconds."""

POLL_SECONDS = 3.0
"""Between two looks; a look is about fifteen requests."""

_ECR_URI = re.compile(
    r"(?P<account>\d{12})\.dkr\.ecr\.(?P<region>[a-z0-9-]+)\.amazonaws\.com(?:\.cn)?/"
    r"(?P<repository>[a-z0-9._/-]+)(?::(?P<tag>[\w.-]+)|@(?P<digest>sha256:[0-9a-f]{64}))"
)


@dataclass(frozen=True, slots=True, order=True)
class StageResource:
    """One thing of a stage that exists."""

    service: str
    """Name of the service in boto3, such as `sagemaker`."""
    kind: str
    """What it is, such as `endpoint config`."""
    name: str
    """What the service calls it."""
    remove: str
    """The command that removes it."""
    kept: bool = False
    """Whether the stage's settings keep it on purpose (`retain_logs`)."""


@dataclass(frozen=True, slots=True)
class StageImage:
    """A container image in the account's own registry, made by a deployment of the stage."""

    uri: str
    repository: str
    identifier: tuple[str, str]
    """`("imageTag", tag)` or `("imageDigest", digest)`, as ECR's API wants it."""

    @property
    def name(self) -> str:
        """Repository and tag or digest, as ECR's console shows it."""
        return f"{self.repository}{'@' if self.identifier[0] == 'imageDigest' else ':'}{self.identifier[1]}"


def stage_images(stage: str, client: ClientOf) -> tuple[StageImage, ...]:
    """Return the images that the stage's models run and that lie in the account's own registry.

    To be asked before a stage is destroyed: without its models nothing says which images were its own.

    Raises:
        AwsCallError: no credentials, no permission, no network.
    """
    sagemaker = client("sagemaker")
    with asking("SageMaker", f"the models of stage {stage}"):
        return _images(sagemaker, (model for model, tags in _tagged_models(sagemaker) if tags.get("stage") == stage))


def delete_images(images: Sequence[StageImage], client: ClientOf) -> tuple[StageImage, ...]:
    """Delete images that no model of this project runs any more, of whichever stage; return those that were deleted.

    One image can serve several stages: CDK names an image by its content. One that is gone already is no error.

    Raises:
        AwsCallError: no credentials, no permission, no network, or ECR refused to delete one.
    """
    sagemaker, ecr = client("sagemaker"), client("ecr")
    deleted = []
    with asking("SageMaker", "the models of this project"):
        in_use = {image.uri for image in _images(sagemaker, (model for model, _ in _tagged_models(sagemaker)))}
    for image in images:
        if image.uri in in_use or not _exists(image, ecr):
            continue
        key, value = image.identifier
        with asking("ECR", f"image {image.name}"):
            answer = ecr.batch_delete_image(repositoryName=image.repository, imageIds=[{key: value}])
        if failures := answer.get("failures"):
            raise OpsError(f"ECR did not delete {image.name}: {failures[0].get('failureReason', failures[0])}")
        deleted.append(image)
    return tuple(deleted)


def left_over(
    stage: str, client: ClientOf, *, images: Sequence[StageImage] = (), retains_logs: bool = False
) -> tuple[StageResource, ...]:
    """Return everything of a stage that exists now, sorted; empty after a clean destroy.

    Args:
        stage: the stage, deployed or not.
        client: clients of the account and region that the stage is or was in.
        images: from `stage_images`, before the destroy.
        retains_logs: the stage's setting `retain_logs`: its log groups and their keys are then marked as `kept`.

    Raises:
        AwsCallError: a service could not be asked; nothing is concluded from half an answer.
    """
    found: list[StageResource] = []
    for service, kind, listing, removal in _LISTINGS:
        with asking(service, f"each {kind} of stage {stage}"):
            names = list(listing(stage, client(service)))
        kept = retains_logs and kind == "log group"
        found += [StageResource(service, kind, name, removal.format(name=name), kept) for name in names]
    found += [
        StageResource("kms", "key", arn, f"aws kms schedule-key-deletion --key-id {arn}", kept=retains_logs)
        for arn in _keys(stage, client)
    ]
    ecr = client("ecr") if images else None
    for image in images:
        if _exists(image, ecr):
            key, value = image.identifier
            remove = f"aws ecr batch-delete-image --repository-name {image.repository} --image-ids {key}={value}"
            found.append(StageResource("ecr", "image", image.name, remove=remove))
    return tuple(sorted(found))


def await_nothing_left(
    stage: str,
    client: ClientOf,
    *,
    images: Sequence[StageImage] = (),
    retains_logs: bool = False,
    seconds: float = SETTLE_SECONDS,
) -> tuple[StageResource, ...]:
    """Look until nothing is left but what the settings keep, at most `seconds`; return what was found last.

    Arguments and errors: `left_over`.
    """
    deadline = time.monotonic() + seconds
    while True:
        found = left_over(stage, client, images=images, retains_logs=retains_logs)
        if all(resource.kept for resource in found) or time.monotonic() >= deadline:
            return found
        time.sleep(POLL_SECONDS)


def _exists(image: StageImage, ecr: Any) -> bool:
    key, value = image.identifier
    with asking("ECR", f"image {image.name}"):
        try:
            ecr.describe_images(repositoryName=image.repository, imageIds=[{key: value}])
        except ClientError as error:
            if error.response["Error"]["Code"] in {"ImageNotFoundException", "RepositoryNotFoundException"}:
                return False
            raise
    return True


def _tagged_models(sagemaker: Any) -> Iterator[tuple[dict[str, str], dict[str, str]]]:
    """Yield each model of this project, of any stage, with its tags."""
    for model in _pages(sagemaker, "list_models", "Models"):
        tags = _tags_of(sagemaker, model["ModelArn"])
        if tags.get("project") == PROJECT:
            yield model, tags


def _images(sagemaker: Any, models: Iterable[dict[str, str]]) -> tuple[StageImage, ...]:
    images = set()
    for model in models:
        account = model["ModelArn"].split(":")[4]
        described = sagemaker.describe_model(ModelName=model["ModelName"])
        for container in [described.get("PrimaryContainer", {}), *described.get("Containers", ())]:
            uri = container.get("Image", "")
            parts = _ECR_URI.fullmatch(uri)
            if parts is not None and parts["account"] == account:
                identifier = ("imageTag", parts["tag"]) if parts["tag"] else ("imageDigest", parts["digest"])
                images.add(StageImage(uri, parts["repository"], identifier))
    return tuple(sorted(images, key=lambda image: image.uri))


def _pages(client: Any, operation: str, items: str, **arguments: Any) -> Iterator[Any]:
    if not client.can_paginate(operation):
        yield from getattr(client, operation)(**arguments).get(items, ())
        return
    for page in client.get_paginator(operation).paginate(**arguments):
        yield from page.get(items, ())


def _tags_of(sagemaker: Any, arn: str) -> dict[str, str]:
    return {tag["Key"]: tag["Value"] for tag in _pages(sagemaker, "list_tags", "Tags", ResourceArn=arn)}


def _stack_names(stage: str) -> list[str]:
    return [*(endpoint_name(stage, service) for service in SERVICES), foundation_stack_name(stage)]


def _of_its_stacks(stage: str, name: str) -> bool:
    """Whether CloudFormation made this name for a resource of one of the stage's stacks."""
    return name.startswith(tuple(f"{stack}-" for stack in _stack_names(stage)))


def _stacks(stage: str, cloudformation: Any) -> Iterator[str]:
    for name in _stack_names(stage):
        try:
            cloudformation.describe_stacks(StackName=name)
        except ClientError as error:
            if error.response["Error"]["Code"] != "ValidationError":  # its word for "there is none"
                raise
        else:
            yield name


def _endpoints(stage: str, sagemaker: Any) -> Iterator[str]:
    names = {endpoint_name(stage, service) for service in SERVICES}
    for endpoint in _pages(sagemaker, "list_endpoints", "Endpoints"):
        if endpoint["EndpointName"] in names:
            yield endpoint["EndpointName"]


def _tagged(operation: str, items: str, item: str) -> Callable[[str, Any], Iterator[str]]:
    """Return a listing of what SageMaker holds with the stage's tags: CloudFormation's names do not tell the stage."""

    def listing(stage: str, sagemaker: Any) -> Iterator[str]:
        for found in _pages(sagemaker, operation, items):
            tags = _tags_of(sagemaker, found[f"{item}Arn"])
            if tags.get("project") == PROJECT and tags.get("stage") == stage:
                yield found[f"{item}Name"]

    return listing


def _scalable_targets(stage: str, scaling: Any) -> Iterator[str]:
    beginnings = tuple(f"endpoint/{endpoint_name(stage, service)}/" for service in SERVICES)
    for target in _pages(scaling, "describe_scalable_targets", "ScalableTargets", ServiceNamespace="sagemaker"):
        if target["ResourceId"].startswith(beginnings):
            yield target["ResourceId"]


def _log_groups(stage: str, logs: Any) -> Iterator[str]:
    for service in SERVICES:
        wanted = f"/aws/sagemaker/Endpoints/{endpoint_name(stage, service)}"
        for group in _pages(logs, "describe_log_groups", "logGroups", logGroupNamePrefix=wanted):
            if group["logGroupName"] == wanted:
                yield wanted


def _parameters(stage: str, ssm: Any) -> Iterator[str]:
    below = {"Key": "Path", "Option": "Recursive", "Values": [f"/{PROJECT}/{stage}"]}
    for parameter in _pages(ssm, "describe_parameters", "Parameters", ParameterFilters=[below]):
        yield parameter["Name"]


def _named(operation: str, items: str, name: str, **arguments: Any) -> Callable[[str, Any], Iterator[str]]:
    def listing(stage: str, client: Any) -> Iterator[str]:
        for found in _pages(client, operation, items, **arguments):
            if _of_its_stacks(stage, found[name].rpartition(":")[2]):
                yield found[name]

    return listing


def _dashboards(stage: str, cloudwatch: Any) -> Iterator[str]:
    for dashboard in _pages(cloudwatch, "list_dashboards", "DashboardEntries"):
        # Its generated name is of the logical id and the stack in some releases, of the stack alone in others.
        if any(stack in dashboard["DashboardName"] for stack in _stack_names(stage)):
            yield dashboard["DashboardName"]


def _in_vpc(operation: str, items: str, identifier: str) -> Callable[[str, Any], Iterator[str]]:
    def listing(stage: str, ec2: Any) -> Iterator[str]:
        filters = [{"Name": "tag:project", "Values": [PROJECT]}, {"Name": "tag:stage", "Values": [stage]}]
        for found in _pages(ec2, operation, items, Filters=filters):
            if found.get("State") != "deleted":
                yield found[identifier]

    return listing


def _keys(stage: str, client: ClientOf) -> list[str]:
    """Return the stage's keys that live; found by their tags, so that no key is asked about whose policy forbids it."""
    filters = [{"Key": "project", "Values": [PROJECT]}, {"Key": "stage", "Values": [stage]}]
    with asking("KMS", f"the keys of stage {stage}"):
        tagged = _pages(
            client("resourcegroupstaggingapi"),
            "get_resources",
            "ResourceTagMappingList",
            ResourceTypeFilters=["kms:key"],
            TagFilters=filters,
        )
        states = {
            arn: client("kms").describe_key(KeyId=arn)["KeyMetadata"]["KeyState"]
            for arn in [found["ResourceARN"] for found in tagged]
        }
    # A deleted key waits for weeks, unusable and free of charge; CloudFormation counts it as gone.
    return [arn for arn, state in states.items() if state != "PendingDeletion"]


_LISTINGS: tuple[tuple[str, str, Callable[[str, Any], Iterable[str]], str], ...] = (
    ("cloudformation", "stack", _stacks, "aws cloudformation delete-stack --stack-name {name}"),
    ("sagemaker", "endpoint", _endpoints, "aws sagemaker delete-endpoint --endpoint-name {name}"),
    (
        "sagemaker",
        "endpoint config",
        _tagged("list_endpoint_configs", "EndpointConfigs", "EndpointConfig"),
        "aws sagemaker delete-endpoint-config --endpoint-config-name {name}",
    ),
    (
        "sagemaker",
        "model",
        _tagged("list_models", "Models", "Model"),
        "aws sagemaker delete-model --model-name {name}",
    ),
    (
        "application-autoscaling",
        "scalable target",
        _scalable_targets,
        "aws application-autoscaling deregister-scalable-target --service-namespace sagemaker --scalable-dimension "
        "sagemaker:variant:DesiredInstanceCount --resource-id {name}",
    ),
    ("logs", "log group", _log_groups, "aws logs delete-log-group --log-group-name {name}"),
    ("ssm", "parameter", _parameters, "aws ssm delete-parameter --name {name}"),
    (
        "cloudwatch",
        "alarm",
        _named("describe_alarms", "MetricAlarms", "AlarmName"),
        "aws cloudwatch delete-alarms --alarm-names {name}",
    ),
    ("cloudwatch", "dashboard", _dashboards, "aws cloudwatch delete-dashboards --dashboard-names {name}"),
    ("iam", "role", _named("list_roles", "Roles", "RoleName"), "aws iam delete-role --role-name {name}"),
    ("sns", "topic", _named("list_topics", "Topics", "TopicArn"), "aws sns delete-topic --topic-arn {name}"),
    (
        "ec2",
        "security group",
        _in_vpc("describe_security_groups", "SecurityGroups", "GroupId"),
        "aws ec2 delete-security-group --group-id {name}",
    ),
    (
        "ec2",
        "VPC endpoint",
        _in_vpc("describe_vpc_endpoints", "VpcEndpoints", "VpcEndpointId"),
        "aws ec2 delete-vpc-endpoints --vpc-endpoint-ids {name}",
    ),
)
"""Service, kind, how to list the stage's, and the command that removes one."""

KINDS = len(_LISTINGS) + 2
"""How many kinds of thing are looked for: those, keys and images."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what is left of a stage; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m voice_ops.leftovers",
        description="What exists of a stage: nothing, after a clean destroy.",
        epilog="example: python -m voice_ops.leftovers --stage prod --retains-logs --json",
    )
    parser.add_argument("--stage", default="dev", help="the stage to look for (default: dev)")
    parser.add_argument("--retains-logs", action="store_true", help="its settings keep the logs: they are no leftover")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    given = parser.parse_args(arguments)
    import boto3  # noqa: PLC0415 (slow to import; --help does without)

    try:
        with asking("AWS", f"stage {given.stage}"):
            found = left_over(given.stage, boto3.Session().client, retains_logs=given.retains_logs)
    except OpsError as error:
        sys.stderr.write(f"leftovers: {error}\n")
        return 2
    if given.json:
        sys.stdout.write(json.dumps({"stage": given.stage, "left": [asdict(one) for one in found]}) + "\n")
    else:
        for resource in found:
            end = "kept by the stage's settings; to remove it: " if resource.kept else "to remove it: "
            sys.stdout.write(f"{resource.service} {resource.kind} {resource.name}\n    {end}{resource.remove}\n")
        if not found:
            sys.stdout.write(f"nothing is left of stage {given.stage}\n")
    return 1 if any(not resource.kept for resource in found) else 0


if __name__ == "__main__":
    raise SystemExit(main())
