"""The containers that serve speech, each with the facts SageMaker needs to be told about it."""

from abc import ABC, abstractmethod
from pathlib import Path

from aws_cdk import ArnFormat, IgnoreMode, Stack, Token, region_info
from aws_cdk import aws_ecr as ecr
from aws_cdk import aws_ecr_assets as ecr_assets
from aws_cdk import aws_iam as iam
from constructs import Construct

from voice_constructs.errors import InvalidPropertiesError, UnsupportedRegionError
from voice_constructs.inference_ami import CudaVersion, InferenceAmi
from voice_constructs.published_images import (
    BRIDGE_BASE_CUDA_13,
    DEFAULT_OMNI_VERSION,
    OMNI_REPOSITORY,
    cuda_of_image,
    omni_tag,
)

CONTAINER_PORT = 8080
"""The port SageMaker talks to in every container."""

# Left out of the build context: it must not change with what tests and tools leave behind, or every run of
# the tests would make a new image.
_NOT_IN_THE_IMAGE = (
    "**/__pycache__",
    "**/*.py[co]",
    "**/.*_cache",
    "**/*.egg-info",
    "**/.DS_Store",
    "**/.venv",
    "tests",
)

_PULL_ACTIONS = ("ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer")


class ServingImage(ABC):
    """A container image, its CUDA version and the paths at which it takes WebSocket streams.

    Make one with `vllm_omni`, `voxtral_bridge` or `from_ecr`.
    """

    def __init__(self, *, cuda: CudaVersion, invocation_paths: tuple[str, ...], logs_sessions: bool = False) -> None:
        self.cuda = cuda
        self.port = CONTAINER_PORT
        """Where SageMaker reaches the container."""
        self.logs_sessions = logs_sessions
        """Whether it writes the JSON lines of docs/bridge-log.md, which session metrics are made of."""
        self.inference_ami = InferenceAmi.for_cuda(cuda)
        """Follows from the CUDA version; there is no other way to choose it."""
        self.invocation_paths = invocation_paths
        """What a client may give as model invocation path, without the leading slash."""

    @staticmethod
    def vllm_omni(version: str = DEFAULT_OMNI_VERSION, *, cuda: CudaVersion | None = None) -> "ServingImage":
        """Return AWS's vLLM-Omni Deep Learning Container (text to speech).

        Args:
            version: container version, `v1.5` or newer. Default: `v1.5`.
            cuda: needed for a version whose CUDA is not known here.

        Raises:
            InvalidPropertiesError: the CUDA version is neither known nor given, or contradicts what is known.
        """
        tag = omni_tag(version)
        return _DeepLearningContainer(
            repository=OMNI_REPOSITORY,
            tag=tag,
            cuda=_resolve_cuda("ServingImage.vllm_omni", tag, cuda),
            invocation_paths=("v1/audio/speech/stream",),
        )

    @staticmethod
    def voxtral_bridge(
        directory: Path, *, base: str = BRIDGE_BASE_CUDA_13, cuda: CudaVersion | None = None
    ) -> "ServingImage":
        """Return the Voxtral bridge, built for linux/amd64 from its Dockerfile (speech to text).

        SageMaker refuses an image index with attestations; the CDK CLI builds without them.

        Args:
            directory: holds the Dockerfile.
            base: image the bridge is built on, the build argument BASE_IMAGE. Default: vLLM 2.x, CUDA 13.
            cuda: needed for a base whose tag does not tell it.

        Raises:
            InvalidPropertiesError: the CUDA version is neither known nor given, or contradicts what is known.
        """
        return _BridgeImage(directory, base, _resolve_cuda("ServingImage.voxtral_bridge", base, cuda))

    @staticmethod
    def from_ecr(
        repository: ecr.IRepository, tag: str, *, cuda: CudaVersion, invocation_paths: tuple[str, ...]
    ) -> "ServingImage":
        """Return an image of your own; it must carry SageMaker's bidirectional-streaming label.

        Args:
            repository: private ECR repository (SageMaker takes no other).
            tag: image tag.
            cuda: CUDA version inside; the inference AMI follows from it.
            invocation_paths: WebSocket paths it serves, without leading slash.
        """
        return _RepositoryImage(repository, tag, cuda=cuda, invocation_paths=invocation_paths)

    @abstractmethod
    def bind(self, scope: Construct, grantee: iam.IGrantable) -> str:
        """Create what the image needs under `scope`, grant the pull to `grantee` and return the image's URI."""


class _DeepLearningContainer(ServingImage):
    def __init__(self, *, repository: str, tag: str, cuda: CudaVersion, invocation_paths: tuple[str, ...]) -> None:
        super().__init__(cuda=cuda, invocation_paths=invocation_paths)
        self._repository = repository
        self._tag = tag

    def bind(self, scope: Construct, grantee: iam.IGrantable) -> str:
        stack = Stack.of(scope)
        account = _container_account(stack)
        _grant_pull(
            grantee,
            stack.format_arn(
                service="ecr",
                account=account,
                resource="repository",
                resource_name=self._repository,
                arn_format=ArnFormat.SLASH_RESOURCE_NAME,
            ),
        )
        return f"{account}.dkr.ecr.{stack.region}.{stack.url_suffix}/{self._repository}:{self._tag}"


class _BridgeImage(ServingImage):
    def __init__(self, directory: Path, base: str, cuda: CudaVersion) -> None:
        super().__init__(
            cuda=cuda, invocation_paths=("invocations-bidirectional-stream", "v1/realtime"), logs_sessions=True
        )
        self._directory = directory
        self._base = base

    def bind(self, scope: Construct, grantee: iam.IGrantable) -> str:
        asset = ecr_assets.DockerImageAsset(
            scope,
            "Image",
            directory=str(self._directory),
            # An image built on Apple silicon would otherwise be arm64, which no GPU instance here runs.
            platform=ecr_assets.Platform.LINUX_AMD64,
            build_args={"BASE_IMAGE": self._base},
            exclude=list(_NOT_IN_THE_IMAGE),
            ignore_mode=IgnoreMode.DOCKER,
        )
        _grant_pull(grantee, asset.repository.repository_arn)
        return asset.image_uri


class _RepositoryImage(ServingImage):
    def __init__(
        self, repository: ecr.IRepository, tag: str, *, cuda: CudaVersion, invocation_paths: tuple[str, ...]
    ) -> None:
        super().__init__(cuda=cuda, invocation_paths=invocation_paths)
        self._repository = repository
        self._tag = tag

    def bind(self, scope: Construct, grantee: iam.IGrantable) -> str:
        _grant_pull(grantee, self._repository.repository_arn)
        return self._repository.repository_uri_for_tag(self._tag)


def _grant_pull(grantee: iam.IGrantable, repository_arn: str) -> None:
    iam.Grant.add_to_principal(grantee=grantee, actions=list(_PULL_ACTIONS), resource_arns=[repository_arn])
    # ECR's token is for the registry as a whole: the action takes no resource.
    iam.Grant.add_to_principal(grantee=grantee, actions=["ecr:GetAuthorizationToken"], resource_arns=["*"])


def _container_account(stack: Stack) -> str:
    """Return the account that publishes the Deep Learning Containers in the stack's region.

    In a stack without a region, a mapping in the template answers at deploy time.
    """
    if not Token.is_unresolved(stack.region):
        account = region_info.RegionInfo.get(stack.region).dlc_repository_account
        if account is None:
            raise UnsupportedRegionError(
                f"{stack.node.path}: AWS publishes no Deep Learning Container in region {stack.region!r} that "
                "aws-cdk-lib knows of; deploy to another region (setting `region`)"
            )
        return account
    return stack.regional_fact(region_info.FactName.DLC_REPOSITORY_ACCOUNT)


def _resolve_cuda(where: str, image: str, given: CudaVersion | None) -> CudaVersion:
    known = cuda_of_image(image)
    if known is not None and given is not None and known != given:
        raise InvalidPropertiesError(where, [f"{image} has CUDA {known}, but cuda says {given}; leave cuda out"])
    cuda = known or given
    if cuda is None:
        raise InvalidPropertiesError(where, [f"the CUDA version of {image} is not known; give it as cuda"])
    return cuda
