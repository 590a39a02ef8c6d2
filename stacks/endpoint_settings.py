"""What each endpoint can be told: typed, defaulted and checked. Imports nothing of aws-cdk-lib."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import BeforeValidator, Field, StringConstraints, ValidationInfo, field_validator

from stacks.operation_settings import ScalingSettings, UpdateSettings
from stacks.settings_section import OptionalText, SettingsSection, TextList, none_if_empty, split_commas
from voice_constructs.accelerators import accelerator_of
from voice_constructs.errors import UnsupportedCudaError
from voice_constructs.inference_ami import CudaVersion, InferenceAmi
from voice_constructs.instance_pools import (
    DEFAULT_INSTANCE_TYPES,
    DEFAULT_PROVISION_TIMEOUT_SECONDS,
    MAX_PROVISION_TIMEOUT_SECONDS,
    MIN_PROVISION_TIMEOUT_SECONDS,
    pool_problems,
)
from voice_constructs.published_images import (
    BRIDGE_BASE_CUDA_13,
    DEFAULT_OMNI_VERSION,
    OMNI_REPOSITORY,
    cuda_of_image,
    omni_tag,
)

STAGED = "staged"
"""Value of `weights`: brought from the hub to the stage's own bucket when the stack is deployed."""

_COMMIT = re.compile(r"[0-9a-f]{40}")
_S3_PREFIX = re.compile(r"s3://(?P<bucket>[a-z0-9][a-z0-9.-]{1,61}[a-z0-9])/(?P<prefix>[^/].*/)")


HubModelId = Annotated[str, StringConstraints(pattern=r"^[\w.-]+/[\w.-]+$", max_length=200)]
InstanceTypes = Annotated[tuple[str, ...], BeforeValidator(split_commas)]
StartupSeconds = Annotated[int, Field(ge=60, le=3600)]
ProvisionSeconds = Annotated[int, Field(ge=MIN_PROVISION_TIMEOUT_SECONDS, le=MAX_PROVISION_TIMEOUT_SECONDS)]


@dataclass(frozen=True, slots=True)
class S3Location:
    """A prefix of uncompressed weights; `prefix` ends with `/`."""

    bucket: str
    prefix: str


class EndpointSettings(SettingsSection):
    """What both endpoints can be told. Field order matters: later checks look at earlier fields."""

    _default_arguments: ClassVar[Mapping[str, str]] = {}
    _typed_arguments: ClassVar[Mapping[str, str]] = {
        "model": "model",
        "revision": "revision",
        "served_model_name": "model",
        "max_model_len": "max_model_len",
        "stage_init_timeout": "stage_init_timeout_seconds",
    }

    model: HubModelId
    """Hugging Face id, `owner/name`."""
    revision: OptionalText = None
    """Branch, tag or commit on the hub. Default: the main branch."""
    weights: OptionalText = None
    """`staged`: copied from the hub to the stage's bucket by the deployment; needs a commit as `revision`. Or
    `s3://bucket/prefix/` of uncompressed weights. Default: the container downloads them from the hub."""
    weights_files: TextList = ()
    """Of `staged` weights: patterns of the files that the server needs, `*` for any text. Each must match one."""
    min_gpu_memory_gb: int = Field(ge=1)
    """What the model needs on one GPU, nominal GB; no instance type with less is accepted."""
    instance_types: InstanceTypes = DEFAULT_INSTANCE_TYPES
    """One to five, in order of preference. Each needs quota, for SageMaker checks every entry."""
    instance_count: int = Field(default=1, ge=1, le=100)
    """Instances at creation; an update keeps the count the endpoint has then."""
    provision_timeout_seconds: ProvisionSeconds = DEFAULT_PROVISION_TIMEOUT_SECONDS
    """For finding capacity in any of the pools."""
    model_download_timeout_seconds: StartupSeconds = 1800
    """For bringing weights from S3 to the instance, about 9 GB for Voxtral: half of SageMaker's maximum."""
    startup_timeout_seconds: StartupSeconds = 1800
    """From the container's start to its first healthy ping: download from the hub, loading, compiling."""
    half_precision_max_model_len: Annotated[int | None, Field(ge=1024), BeforeValidator(none_if_empty)] = None
    """Longest sequence, in tokens, on GPUs without bfloat16 (T4, 16 GB). Default: as on the others."""
    server_arguments: dict[str, str] = Field(default_factory=dict)
    """Further options of `vllm serve`: `{"gpu_memory_utilization": 0.9}` becomes `--gpu-memory-utilization 0.9`. They
    join the section's defaults; null (on the command line: an empty value) takes a default away."""
    scaling: ScalingSettings = Field(default_factory=ScalingSettings)
    """By streams in progress. Default: off."""
    update: UpdateSettings = Field(default_factory=UpdateSettings)
    """Of a running endpoint."""

    @field_validator("weights")
    @classmethod
    def _check_weights(cls, value: str | None, info: ValidationInfo) -> str | None:
        revision = info.data.get("revision")
        if value == STAGED:
            if revision is None or _COMMIT.fullmatch(revision) is None:
                raise ValueError(
                    f"staged weights need a commit as revision, 40 hexadecimal digits, not {revision or 'none'}: "
                    "what is staged must not move"
                )
            return value
        if value is not None and _S3_PREFIX.fullmatch(value) is None:
            raise ValueError(f"{value!r} is no S3 folder; write s3://bucket/prefix/, ending with /, or {STAGED}")
        if value is not None and revision is not None:
            raise ValueError("weights in S3 have no revision; leave out weights or revision")
        return value

    @field_validator("weights_files")
    @classmethod
    def _check_weights_files(cls, value: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        if not value and info.data.get("weights") == STAGED:
            raise ValueError("staged weights need at least one pattern, such as *.safetensors")
        return value

    @field_validator("instance_types")
    @classmethod
    def _check_instance_types(cls, value: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        if problems := pool_problems(value, min_gpu_memory_gb=info.data.get("min_gpu_memory_gb", 0)):
            raise ValueError("; ".join(problems))
        return value

    @field_validator("server_arguments", mode="before")
    @classmethod
    def _join_arguments(cls, value: object) -> object:
        if not isinstance(value, Mapping):
            return value
        joined = {**cls._default_arguments, **value}
        return {name: _argument(given) for name, given in joined.items() if given is not None and given != ""}

    @field_validator("server_arguments")
    @classmethod
    def _check_arguments(cls, value: dict[str, str]) -> dict[str, str]:
        problems = [
            f"{name!r} is no option name; write it in lower case with underscores"
            for name in value
            if re.fullmatch(r"[a-z][a-z0-9_]*", name) is None
        ]
        problems += [
            f"{name!r} has a setting of its own, {setting}"
            for name, setting in cls._typed_arguments.items()
            if name in value and setting in cls.model_fields
        ]
        problems += [f"{name!r} is fixed by SageMaker" for name in ("host", "port") if name in value]
        problems += [
            f"{name!r} is a secret, and DescribeModel would show it; stage gated weights in S3 instead"
            for name in ("api_key", "hf_token")
            if name in value
        ]
        if problems:
            raise ValueError("; ".join(problems))
        return value

    @field_validator("scaling")
    @classmethod
    def _check_scaling(cls, value: ScalingSettings, info: ValidationInfo) -> ScalingSettings:
        count = info.data.get("instance_count", value.min_instances)
        if value.enabled and not value.min_instances <= count <= value.max_instances:
            raise ValueError(
                f"instance_count ({count}) is not between min_instances ({value.min_instances}) and "
                f"max_instances ({value.max_instances})"
            )
        return value

    @property
    def certain_instance_count(self) -> int:
        """How many instances there are at the least."""
        return self.scaling.min_instances if self.scaling.enabled else self.instance_count

    @property
    def weights_location(self) -> S3Location | None:
        """The bucket and prefix of `weights`; None when the weights come from the hub, or are staged from it."""
        match = _S3_PREFIX.fullmatch(self.weights) if self.weights else None
        return S3Location(match["bucket"], match["prefix"]) if match else None

    @property
    def weights_staged(self) -> bool:
        """Whether the deployment brings the weights to the stage's bucket."""
        return self.weights == STAGED

    @property
    def environment(self) -> dict[str, str]:
        """Container variables of all server options but the model: `SM_VLLM_FOO_BAR=x` is read as `--foo-bar x`."""
        return {f"SM_VLLM_{name.upper()}": value for name, value in sorted(self.server_arguments.items())}

    @property
    def half_precision_environment(self) -> dict[str, str]:
        """What differs on GPUs without bfloat16."""
        environment = {"SM_VLLM_DTYPE": "half"}
        if self.half_precision_max_model_len is not None:
            environment["SM_VLLM_MAX_MODEL_LEN"] = str(self.half_precision_max_model_len)
        return environment


class SttSettings(EndpointSettings):
    """Speech to text: the Voxtral bridge on a vLLM container."""

    _default_arguments: ClassVar[Mapping[str, str]] = {
        "tokenizer_mode": "mistral",
        "config_format": "mistral",
        "load_format": "mistral",
        "compilation_config": '{"cudagraph_mode": "PIECEWISE"}',
    }

    model: HubModelId = "mistralai/Voxtral-Mini-4B-Realtime-2602"
    weights_files: TextList = ("consolidated*.safetensors", "params.json", "tekken.json")
    """What vLLM reads in Mistral's format; the repository holds the weights in a second format as well."""
    min_gpu_memory_gb: int = Field(default=16, ge=1)
    max_model_len: int = Field(default=45_000, ge=1024, le=262_144)
    """Longest session in tokens, at 80 ms of audio each: 45000 is one hour. vLLM fails at the limit, so clients
    read it and begin a new session before it."""
    half_precision_max_model_len: Annotated[int | None, Field(ge=1024), BeforeValidator(none_if_empty)] = 16_384
    """What 16 GB leave room for beside 9 GB of weights: 21.8 minutes of audio."""
    base_image: str = Field(
        default=BRIDGE_BASE_CUDA_13,
        pattern=r"^[\w./-]+(?::\d+)?(?:/[\w.-]+)*:[\w.-]+$",
    )
    """vLLM container with a tag, on which the bridge is built."""
    base_image_cuda: OptionalText = None
    """MAJOR.MINOR; only for a base image whose tag does not tell. The inference AMI follows from it."""

    @field_validator("base_image_cuda")
    @classmethod
    def _check_cuda(cls, value: str | None, info: ValidationInfo) -> str | None:
        if "base_image" in info.data:
            _require_cuda(info.data["base_image"], value)
        return value

    @property
    def environment(self) -> dict[str, str]:
        """See the base class."""
        return {**super().environment, "SM_VLLM_MAX_MODEL_LEN": str(self.max_model_len)}

    @property
    def half_precision_environment(self) -> dict[str, str]:
        """See the base class; never longer than on the other GPUs."""
        return {**super().half_precision_environment, "SM_VLLM_MAX_MODEL_LEN": str(self._half_precision_length)}

    @property
    def shortest_max_model_len(self) -> int:
        """The session length, in tokens, that holds on whichever pool has been provisioned."""
        if all(accelerator_of(name).bfloat16 for name in self.instance_types):
            return self.max_model_len
        return self._half_precision_length

    @property
    def _half_precision_length(self) -> int:
        return min(self.max_model_len, self.half_precision_max_model_len or self.max_model_len)

    @property
    def cuda(self) -> CudaVersion | None:
        """The CUDA version when `base_image_cuda` gives it; None when the tag tells."""
        return CudaVersion.parse(self.base_image_cuda) if self.base_image_cuda else None


class TtsSettings(EndpointSettings):
    """Text to speech: AWS's vLLM-Omni container."""

    model: HubModelId = "Qwen/Qwen3-TTS-12Hz-1.7B-CustomVoice"
    weights_files: TextList = ("*.json", "*.safetensors", "*.txt")
    """Configuration, weights and tokenizer, those of the speech tokenizer's folder too."""
    min_gpu_memory_gb: int = Field(default=14, ge=1)
    stage_init_timeout_seconds: int = Field(default=900, ge=60, le=3600)
    """For loading one stage of the model; the container's own 300 s are too short for a first download."""
    container_version: str = Field(default=DEFAULT_OMNI_VERSION, pattern=r"^v\d+\.\d+(?:[.-][\w.-]+)?$")
    """v1.5 is the first that takes bidirectional streams."""
    container_cuda: OptionalText = None
    """MAJOR.MINOR; only for a container version whose CUDA is not known here."""

    @field_validator("stage_init_timeout_seconds")
    @classmethod
    def _check_stage_timeout(cls, value: int, info: ValidationInfo) -> int:
        startup = info.data.get("startup_timeout_seconds", value)
        if value > startup:
            raise ValueError(
                f"{value} s is more than startup_timeout_seconds ({startup} s), which ends the start first"
            )
        return value

    @field_validator("container_cuda")
    @classmethod
    def _check_cuda(cls, value: str | None, info: ValidationInfo) -> str | None:
        if "container_version" in info.data:
            _require_cuda(f"{OMNI_REPOSITORY}:{omni_tag(info.data['container_version'])}", value)
        return value

    @property
    def environment(self) -> dict[str, str]:
        """See the base class."""
        return {**super().environment, "SM_VLLM_STAGE_INIT_TIMEOUT": str(self.stage_init_timeout_seconds)}

    @property
    def cuda(self) -> CudaVersion | None:
        """The CUDA version when `container_cuda` gives it; None when the container's version tells."""
        return CudaVersion.parse(self.container_cuda) if self.container_cuda else None


def _argument(value: object) -> str:
    """Write one server option as the containers read it: `true` becomes a bare flag, `false` leaves it out."""
    if isinstance(value, str):
        return value
    return json.dumps(value)


def _require_cuda(image: str, given: str | None) -> None:
    try:
        stated = CudaVersion.parse(given) if given else None
        known = cuda_of_image(image)
        if stated and known and stated != known:
            raise ValueError(f"{image} has CUDA {known}, not {stated}; leave the setting out")
        cuda = stated or known
        if cuda is None:
            raise ValueError(f"the tag of {image} does not tell its CUDA version; give it as MAJOR.MINOR")
        InferenceAmi.for_cuda(cuda)
    except UnsupportedCudaError as error:
        raise ValueError(str(error)) from None
