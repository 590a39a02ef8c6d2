"""What stays on purpose when a stage is destroyed: where it is, what it costs, and the command that removes it."""

from collections.abc import Iterator
from dataclasses import dataclass

from stacks.names import weights_stack_name
from voice_constructs.model_weights_job.weights_staging.copier import readable
from voice_ops.prices import money
from voice_ops.session import AwsSession, translated
from voice_ops.weights.staged import NoStoreError, monthly_cost, staging_place


@dataclass(frozen=True, slots=True)
class Kept:
    """One thing that stays.

    Attributes:
        what: it is.
        why: it stays.
        usd_per_month: what it costs, an estimate.
        remove: the command.
    """

    what: str
    why: str
    usd_per_month: float
    remove: str

    def __str__(self) -> str:
        return f"{self.what}: {self.why}; about {money(self.usd_per_month)} $ a month. To remove it: {self.remove}"


def kept_weights(stage: str, aws: AwsSession) -> tuple[Kept, ...]:
    """Return the buckets with a stage's staged weights.

    Raises:
        AwsError: AWS could not be asked.
    """
    return tuple(_weights(stage, aws))


def _weights(stage: str, aws: AwsSession) -> Iterator[Kept]:
    try:
        of_stack: str | None = staging_place(stage, aws).bucket
    except NoStoreError:
        of_stack = None
    if of_stack is not None:
        yield _bucket(
            of_stack,
            "the next deployment copies nothing",
            f"aws cloudformation delete-stack --stack-name {weights_stack_name(stage)}, then aws s3 rb s3://{of_stack} "
            "--force (docs/weights.md)",
            aws,
        )
    for name in _tagged(stage, aws):
        if name != of_stack:
            yield _bucket(name, "its stack is gone, and nothing deletes weights", f"aws s3 rb s3://{name} --force", aws)


def _bucket(name: str, why: str, remove: str, aws: AwsSession) -> Kept:
    with translated(f"looking into bucket {name}"):
        pages = aws.client("s3").get_paginator("list_object_versions").paginate(Bucket=name)
        size = sum(version["Size"] for page in pages for version in page.get("Versions", ()))
    return Kept(f"bucket {name} with {readable(size)} of weights", why, monthly_cost(size), remove)


def _tagged(stage: str, aws: AwsSession) -> list[str]:
    filters = [{"Key": "project", "Values": ["sagemaker-voice"]}, {"Key": "stage", "Values": [stage]}]
    with translated(f"looking for buckets of stage {stage}"):
        pages = (
            aws.client("resourcegroupstaggingapi")
            .get_paginator("get_resources")
            .paginate(ResourceTypeFilters=["s3"], TagFilters=filters)
        )
        return [found["ResourceARN"].rpartition(":")[2] for page in pages for found in page["ResourceTagMappingList"]]
