"""Where a serving container finds its weights."""

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sagemaker as sagemaker

from voice_constructs.acknowledgements import Scanner, acknowledge, wildcard_resource
from voice_constructs.errors import InvalidPropertiesError

MODEL_DIRECTORY = "/opt/ml/model"
"""Where SageMaker mounts S3 weights, read-only."""


@dataclass(frozen=True, slots=True)
class BoundWeights:
    """What a model resource needs to know of its weights.

    Attributes:
        environment: variables that tell the vLLM containers what to load.
        model_data_source: the S3 prefix, None when the container downloads the weights itself.
    """

    environment: Mapping[str, str]
    model_data_source: sagemaker.CfnModel.ModelDataSourceProperty | None


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
    def staged(bucket: s3.IBucket, model_id: str, *, revision: str) -> "ModelWeights":
        """Return weights of the hub that were brought to a bucket of your own, where `staged_prefix` says.

        Bringing them there is not this construct's work: an operator's command or a build job does it before the model
        is created.

        Args:
            bucket: in the endpoint's region.
            model_id: `owner/name` on the hub.
            revision: the commit that was staged. A branch moves; what is staged does not.

        Raises:
            InvalidPropertiesError: the id or the revision cannot be part of an S3 key.
        """
        return _S3Weights(bucket, staged_prefix(model_id, revision), model_id)

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
    def bind(self, grantee: iam.IGrantable) -> BoundWeights:
        """Grant the reads that are needed, and no more, and return what the model must be told."""


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
    return f"models/{model_id}/{revision}/"


class _HubWeights(ModelWeights):
    def __init__(self, model_id: str, revision: str | None) -> None:
        super().__init__(model_id, needs_egress=True)
        self._revision = revision

    def bind(self, grantee: iam.IGrantable) -> BoundWeights:
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

    def bind(self, grantee: iam.IGrantable) -> BoundWeights:
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
