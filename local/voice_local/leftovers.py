"""Lists what exists in the local cloud, to prove that a destroyed deployment leaves nothing.

Every service the stacks use is asked through its own API, so what no stack knows of any more is found too. What
`cdk bootstrap` made stays by design, for the next deployment, and is told apart; what deployments put into its
bucket and its repository is not bootstrap's: `delete_assets` removes it, as AWS never does by itself.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from voice_local.identity import LocalIdentity
from voice_local.isolation import IsolatedClients

BOOTSTRAP_STACK = "CDKToolkit"


@dataclass(frozen=True, slots=True, order=True)
class Resource:
    """One thing that exists."""

    service: str
    """Name of the service in boto3, such as `sagemaker`."""
    kind: str
    name: str
    """What the service calls it; an object or an image has its bucket or repository in front."""
    bootstrap: bool = False
    """Whether `cdk bootstrap` made it."""


class Inventory:
    """What exists in one local cloud."""

    def __init__(self, identity: LocalIdentity, endpoint_url: str) -> None:
        self._client = IsolatedClients(identity, endpoint_url).of

    def resources(self) -> list[Resource]:
        """Return everything, sorted by service, kind and name.

        Raises:
            botocore.exceptions.BotoCoreError: the control plane does not answer.
            botocore.exceptions.ClientError: a service refused to list.
        """
        bootstrap = self._bootstrap_names()
        return sorted(
            Resource(service, kind, name, bootstrap=name in bootstrap)
            for service, kind, listing in _LISTINGS
            for name in listing(self._client(service))
        )

    @staticmethod
    def kinds() -> list[tuple[str, str]]:
        """Return each (service, kind) that is asked for."""
        return [(service, kind) for service, kind, _ in _LISTINGS]

    def left_over(self) -> list[Resource]:
        """Return everything that `cdk bootstrap` did not make; empty after a clean destroy."""
        return [resource for resource in self.resources() if not resource.bootstrap]

    def delete_assets(self) -> list[Resource]:
        """Delete what deployments put into bootstrap's bucket and repository; return what was deleted."""
        bootstrap = self._bootstrap_names()
        deleted = []
        for service, kind, listing in _LISTINGS:
            if kind not in {"object", "image"}:
                continue
            for name in listing(self._client(service)):
                holder, _, rest = name.partition("/") if kind == "object" else name.rpartition(":")
                if holder in bootstrap:
                    self._delete_asset(kind, holder, rest)
                    deleted.append(Resource(service, kind, name))
        return deleted

    def _delete_asset(self, kind: str, holder: str, name: str) -> None:
        if kind == "object":
            s3 = self._client("s3")
            # Every version of it: bootstrap's bucket keeps old ones.
            for page in s3.get_paginator("list_object_versions").paginate(Bucket=holder, Prefix=name):
                for version in (*page.get("Versions", ()), *page.get("DeleteMarkers", ())):
                    if version["Key"] == name:
                        s3.delete_object(Bucket=holder, Key=name, VersionId=version["VersionId"])
        else:
            self._client("ecr").batch_delete_image(repositoryName=holder, imageIds=[{"imageTag": name}])

    def _bootstrap_names(self) -> frozenset[str]:
        """Return the physical ids of the bootstrap stack's resources, and its own name."""
        cloudformation = self._client("cloudformation")
        if BOOTSTRAP_STACK not in set(_stacks(cloudformation)):
            return frozenset()
        pages = cloudformation.get_paginator("list_stack_resources").paginate(StackName=BOOTSTRAP_STACK)
        found = {resource["PhysicalResourceId"] for page in pages for resource in page["StackResourceSummaries"]}
        return frozenset(found | {BOOTSTRAP_STACK})


def _listing(operation: str, items: str, name: str) -> Callable[[Any], Iterable[str]]:
    """Return a listing by one operation of a service's API, over all its pages."""

    def names(client: Any) -> Iterator[str]:
        if client.can_paginate(operation):
            pages = client.get_paginator(operation).paginate()
        else:
            pages = [getattr(client, operation)()]
        for page in pages:
            for item in page.get(items, ()):
                yield item[name]

    return names


def _stacks(client: Any) -> Iterator[str]:
    # describe_stacks lists the living; list_stacks would add the deleted ones.
    return iter(_listing("describe_stacks", "Stacks", "StackName")(client))


def _objects(client: Any) -> Iterator[str]:
    for bucket in _listing("list_buckets", "Buckets", "Name")(client):
        for page in client.get_paginator("list_object_versions").paginate(Bucket=bucket):
            yield from {
                f"{bucket}/{item['Key']}" for item in (*page.get("Versions", ()), *page.get("DeleteMarkers", ()))
            }


def _images(client: Any) -> Iterator[str]:
    for repository in _listing("describe_repositories", "repositories", "repositoryName")(client):
        for page in client.get_paginator("describe_images").paginate(repositoryName=repository):
            for image in page["imageDetails"]:
                yield from (f"{repository}:{tag}" for tag in image.get("imageTags", [image["imageDigest"]]))


def _policies(client: Any) -> Iterator[str]:
    # Scope Local: AWS's own managed policies exist in every account.
    for page in client.get_paginator("list_policies").paginate(Scope="Local"):
        yield from (policy["Arn"] for policy in page["Policies"])


def _scaling(operation: str, items: str, name: str) -> Callable[[Any], Iterable[str]]:
    def names(client: Any) -> Iterator[str]:
        for page in client.get_paginator(operation).paginate(ServiceNamespace="sagemaker"):
            yield from (item[name] for item in page[items])

    return names


def _metric_filters(client: Any) -> Iterator[str]:
    for page in client.get_paginator("describe_metric_filters").paginate():
        yield from (found["filterName"] for found in page["metricFilters"])


_LISTINGS: tuple[tuple[str, str, Callable[[Any], Iterable[str]]], ...] = (
    ("application-autoscaling", "policy", _scaling("describe_scaling_policies", "ScalingPolicies", "PolicyName")),
    ("application-autoscaling", "target", _scaling("describe_scalable_targets", "ScalableTargets", "ResourceId")),
    ("cloudformation", "stack", _stacks),
    ("cloudwatch", "alarm", _listing("describe_alarms", "MetricAlarms", "AlarmName")),
    ("cloudwatch", "dashboard", _listing("list_dashboards", "DashboardEntries", "DashboardName")),
    ("ecr", "image", _images),
    ("ecr", "repository", _listing("describe_repositories", "repositories", "repositoryName")),
    ("iam", "policy", _policies),
    ("iam", "role", _listing("list_roles", "Roles", "RoleName")),
    ("kms", "key", _listing("list_keys", "Keys", "KeyId")),
    ("lambda", "function", _listing("list_functions", "Functions", "FunctionName")),
    ("logs", "log group", _listing("describe_log_groups", "logGroups", "logGroupName")),
    ("logs", "metric filter", _metric_filters),
    ("s3", "bucket", _listing("list_buckets", "Buckets", "Name")),
    ("s3", "object", _objects),
    ("sagemaker", "endpoint", _listing("list_endpoints", "Endpoints", "EndpointName")),
    ("sagemaker", "endpoint config", _listing("list_endpoint_configs", "EndpointConfigs", "EndpointConfigName")),
    ("sagemaker", "model", _listing("list_models", "Models", "ModelName")),
    ("secretsmanager", "secret", _listing("list_secrets", "SecretList", "Name")),
    ("sns", "subscription", _listing("list_subscriptions", "Subscriptions", "SubscriptionArn")),
    ("sns", "topic", _listing("list_topics", "Topics", "TopicArn")),
    ("ssm", "parameter", _listing("describe_parameters", "Parameters", "Name")),
)
"""Service, kind and how to list its names, for every service that the stacks use."""
