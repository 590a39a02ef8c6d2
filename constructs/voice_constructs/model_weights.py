"""Where a serving container finds its weights."""

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from aws_cdk import CustomResource, Duration
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct, IDependable

from voice_constructs.acknowledgements import Scanner, acknowledge, wildcard_resource
from voice_constructs.errors import InvalidPropertiesError
from voice_constructs.model_weights_job.weights_staging.manifest import prefix_of
from voice_constructs.model_weights_store import StagesWeights

MODEL_DIRECTORY = "/opt/ml/model"
"""Where SageMaker mounts S3 weights, read-only."""


@dataclass(frozen=True, slots=True)
class BoundWeights:
    """What a model resource needs to know of its weights.

    Attributes:
        environment: variables that tell the vLLM containers what to load.
        model_data_source: the S3 prefix, None when the container downloads the weights itself.
        ready: what must have been created before the model, None when nothing must.
    """

    environment: Mapping[str, str]
    model_data_source: sagemaker.CfnModel.ModelDataSourceProperty | None
    ready: IDependable | None = None


class ModelWeights(ABC):
    """The weights of one model: `hub`, `s3` or `staged`."""

    def __init__(self, model_id: str, *, needs_egress: bool) -> None:
        self.needs_egress = needs_egress
        """Whether the container must reach the Hugging Face hub."""
        self.model_id = model_id
        """Hugging Face id by which clients name the model, for example `mistralai/Voxtral-Mini-4B-Realtime-2602`."""

    @staticmethod
    def hub(model_id: str, *, revision: str | None = None) -> "ModelWeights":
        """Return weights that the container downloads from the Hugging Face hub when it starts.

        Args:
            model_id: `owner/name`. Gated models do not work this way: their token would stand in the container's
                environment, readable through DescribeModel. Stage them in S3.
            revision: branch, tag or commit. Default: the repository's main branch.
        """
        return _HubWeights(model_id, revision)

    @staticmethod
    def staged(store: StagesWeights, model_id: str, *, revision: str, files: Sequence[str]) -> "ModelWeights":
        """Return weights that are copied from the hub to a bucket of your own before the model is created.

        A custom resource asks the store for them: it starts a build unless the revision is there and complete, and the
        deployment fails, naming the file, when it cannot be made complete. Deleting the stack leaves them.

        Args:
            store: a `WeightsStore`, in the endpoint's region.
            model_id: `owner/name` on the hub.
            revision: the commit, 40 hexadecimal digits. A branch moves; what is staged does not.
            files: patterns of the files that the server needs, `*` for any text; each must match at least one.

        Raises:
            InvalidPropertiesError: the id or the revision cannot be part of an S3 key, or no files are asked for.
        """
        return _StagedWeights(store, model_id, revision, files)

    @staticmethod
    def s3(bucket: s3.IBucket, prefix: str, *, model_id: str) -> "ModelWeights":
        """Return weights that SageMaker mounts from an S3 prefix of uncompressed files.

        Args:
            bucket: in the endpoint's region.
            prefix: ends with `/`, as SageMaker demands of an uncompressed prefix; not empty.
            model_id: the name clients use; the server is told to answer to it.

        Raises:
            InvalidPropertiesError: the prefix is empty or does not end with `/`.
        """
        return _S3Weights(bucket, prefix, model_id)

    @abstractmethod
    def bind(self, scope: Construct, grantee: iam.IGrantable) -> BoundWeights:
        """Grant the reads that are needed, and no more, and return what the model must be told.

        Args:
            scope: what belongs to the weights is created in here.
            grantee: reads them.
        """


def staged_prefix(model_id: str, revision: str) -> str:
    """Return where a revision of a model is staged in a bucket: `models/owner/name/revision/`.

    Raises:
        InvalidPropertiesError: the id is not `owner/name`, or the revision is empty or holds a slash.
    """
    problems = []
    if re.fullmatch(r"[\w.-]+/[\w.-]+", model_id) is None:
        problems.append(f"model_id is {model_id!r}; write it as owner/name")
    if re.fullmatch(r"[\w.-]+", revision) is None:
        problems.append(f"revision is {revision!r}; give the commit")
    if problems:
        raise InvalidPropertiesError("ModelWeights.staged", problems)
    return prefix_of(model_id, revision)


class _HubWeights(ModelWeights):
    def __init__(self, model_id: str, revision: str | None) -> None:
        super().__init__(model_id, needs_egress=True)
        self._revision = revision

    def bind(self, scope: Construct, grantee: iam.IGrantable) -> BoundWeights:
        del scope, grantee
        environment = {"SM_VLLM_MODEL": self.model_id, "HF_HUB_DISABLE_TELEMETRY": "1"}
        if self._revision is not None:
            environment["SM_VLLM_REVISION"] = self._revision
        return BoundWeights(environment, model_data_source=None)


class _S3Weights(ModelWeights):
    def __init__(self, bucket: s3.IBucket, prefix: str, model_id: str) -> None:
        super().__init__(model_id, needs_egress=False)
        if prefix in {"", "/"} or not prefix.endswith("/") or prefix.startswith("/"):
            raise InvalidPropertiesError(
                "ModelWeights.s3", [f"prefix is {prefix!r}; give a folder such as models/voxtral/, ending with /"]
            )
        self._bucket = bucket
        self._prefix = prefix

    def bind(self, scope: Construct, grantee: iam.IGrantable) -> BoundWeights:
        del scope
        # Not bucket.grant_read(): it grants s3:GetObject*, GetBucket* and List*, of which two actions are needed.
        objects = self._bucket.arn_for_objects(f"{self._prefix}*")
        iam.Grant.add_to_principal(grantee=grantee, actions=["s3:GetObject"], resource_arns=[objects])
        if isinstance(grantee, iam.Role):
            acknowledge(
                grantee.node.find_child("DefaultPolicy"),
                Scanner.CDK_NAG,
                wildcard_resource(grantee, objects),
                reason="The objects of one model's prefix, to be read only.",
            )
        iam.Grant.add_to_principal(
            grantee=grantee,
            actions=["s3:ListBucket"],
            resource_arns=[self._bucket.bucket_arn],
            conditions={"StringLike": {"s3:prefix": f"{self._prefix}*"}},
        )
        if self._bucket.encryption_key is not None:
            self._bucket.encryption_key.grant_decrypt(grantee)
        source = sagemaker.CfnModel.ModelDataSourceProperty(
            s3_data_source=sagemaker.CfnModel.S3DataSourceProperty(
                s3_uri=self._bucket.s3_url_for_object(self._prefix),
                s3_data_type="S3Prefix",
                compression_type="None",
            )
        )
        environment = {"SM_VLLM_MODEL": MODEL_DIRECTORY, "SM_VLLM_SERVED_MODEL_NAME": self.model_id}
        return BoundWeights(environment, source)


class _StagedWeights(_S3Weights):
    def __init__(self, store: StagesWeights, model_id: str, revision: str, files: Sequence[str]) -> None:
        prefix = staged_prefix(model_id, revision)
        if not files:
            raise InvalidPropertiesError("ModelWeights.staged", ["files is empty; say which files the server needs"])
        super().__init__(store.bucket, prefix, model_id)
        self._store = store
        self._revision = revision
        self._files = list(files)

    def bind(self, scope: Construct, grantee: iam.IGrantable) -> BoundWeights:
        staging = CustomResource(
            scope,
            "StagedWeights",
            resource_type="Custom::StagedWeights",
            service_token=self._store.service_token,
            service_timeout=Duration.hours(1),
            properties={"Model": self.model_id, "Revision": self._revision, "Files": self._files},
        )
        return replace(super().bind(scope, grantee), ready=staging)
