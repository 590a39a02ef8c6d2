"""What is examined, and within which limits."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from stacks.settings import StageSettings
from voice_ops.assembly import Assembly
from voice_ops.session import AwsSession, local_endpoint

DEFAULT_HUB = "https://huggingface.co"
DEFAULT_PUBLIC_REGISTRY = "https://public.ecr.aws"


@dataclass(frozen=True, slots=True)
class Limits:
    """How long is waited and how much is looked at, each with its reason."""

    command_seconds: float = 20.0
    """For a tool such as `docker info` to answer: a busy Docker Desktop takes some seconds."""
    request_seconds: float = 10.0
    """For one answer of the model hub or the public registry, connecting included."""
    step_seconds: float = 90.0
    """For all that is looked at side by side to end: one call to AWS that nobody answers takes up to 80 s, and what
    hangs for ever (a credential_process, a name server) is given up."""
    disk_gb: float | None = None
    """Free space that building the bridge's image needs, in GB (10^9 bytes). Default: 60 for a real builder (the base
    image is about 10 GB to download and 30 unpacked, and is kept beside what is built on it), 1 for a stand-in."""
    endpoints: int = 200
    """Endpoints of the account that are looked at for instances in use; each takes two calls."""
    threads: int = 8
    """Checks that wait for answers at the same time."""


@dataclass(frozen=True, slots=True)
class Places:
    """Where things are; an environment's variables say so for hub and registry.

    Attributes:
        project: holds package.json, pyproject.toml and node_modules.
        hub: base URL of the Hugging Face hub (variable HF_ENDPOINT, as its own tools read it); None: not to be asked.
        public_registry: base URL of Amazon's public registry (VOICE_PUBLIC_REGISTRY_URL); None: not to be asked.
        environment: PATH and CDK_DOCKER, for the tools.
        local_cloud: whether AWS is one on this machine; then nothing beyond this machine is asked.
    """

    project: Path
    hub: str | None
    public_registry: str | None
    environment: Mapping[str, str] = field(repr=False)
    local_cloud: bool

    @classmethod
    def of(cls, project: Path, environment: Mapping[str, str]) -> "Places":
        """Read the variables. With a local cloud, nothing beyond this machine is asked unless a variable names it."""
        local_cloud = local_endpoint(environment) is not None
        return cls(
            project=project,
            hub=environment.get("HF_ENDPOINT") or (None if local_cloud else DEFAULT_HUB),
            public_registry=environment.get("VOICE_PUBLIC_REGISTRY_URL")
            or (None if local_cloud else DEFAULT_PUBLIC_REGISTRY),
            environment=environment,
            local_cloud=local_cloud,
        )


@dataclass(frozen=True, slots=True)
class Subject:
    """A stage that could be deployed with these credentials; what the checks of account and stage look at."""

    settings: StageSettings
    aws: AwsSession
    places: Places
    limits: Limits
    assembly: Assembly | None = None
    """The templates that are about to be deployed, when somebody has synthesized them."""
