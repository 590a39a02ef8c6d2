"""What the parts of the local cloud know of each other.

The control plane holds endpoints and asks the container host to run what an endpoint's model names; the data
plane looks endpoints up and bridges a client's stream to the container's port. None of the three imports another.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Protocol


class EndpointStatus(StrEnum):
    """SageMaker's own names for the states of an endpoint."""

    CREATING = "Creating"
    IN_SERVICE = "InService"
    UPDATING = "Updating"
    FAILED = "Failed"
    DELETING = "Deleting"


@dataclass(frozen=True, slots=True)
class ServingContainer:
    """The container that serves one production variant, reached on 127.0.0.1."""

    variant: str
    port: int
    """HTTP and WebSocket port of the container (8080 inside a real one)."""
    bidirectional: bool
    """Whether the image carries the label without which SageMaker never opens a socket to it."""
    sidecar: bool = True
    """Whether the variant names an inference AMI: the one it gets otherwise lacks the sidecar that opens the socket."""


@dataclass(frozen=True, slots=True)
class EndpointView:
    """One endpoint as the data plane sees it at this moment."""

    name: str
    status: EndpointStatus
    containers: tuple[ServingContainer, ...]
    """One entry a variant; empty until the first container has started."""


class EndpointDirectory(Protocol):
    """Looks endpoints up; called from any thread, never blocks."""

    def find(self, endpoint_name: str) -> EndpointView | None:
        """Return the endpoint of that name, or None when there is none."""
        ...


@dataclass(frozen=True, slots=True)
class ContainerSpec:
    """What SageMaker hands to `docker run IMAGE serve`."""

    name: str
    """Names the log file and the processes: `{endpoint}-{variant}-{number}`."""
    image: str
    """Full image URI, as in the Model resource."""
    environment: Mapping[str, str]
    model_data: str | None = None
    """S3 prefix of uncompressed weights, when the model has one."""


class Container(Protocol):
    """A started container. Methods are called from any thread."""

    @property
    def port(self) -> int: ...

    @property
    def bidirectional(self) -> bool: ...

    @property
    def log_file(self) -> Path:
        """The file that the container's stdout and stderr are appended to."""
        ...

    def ping(self) -> bool:
        """Ask `GET /ping`; True only for a 200 within 2 s, SageMaker's own limit."""
        ...

    def exit_code(self) -> int | None:
        """Return the exit code of the container's main process, None while it runs."""
        ...

    def output_tail(self, lines: int = 20) -> str:
        """Return the last lines the container wrote to stdout and stderr."""
        ...

    def stop(self) -> None:
        """Send SIGTERM, SIGKILL after a grace period; returns when every process of it is gone. Idempotent."""
        ...


class ImageNotFoundError(Exception):
    """No image of that URI was pushed here, and it is none of the known serving images."""


class ContainerHost(Protocol):
    """Runs containers as plain processes."""

    def start(self, spec: ContainerSpec) -> Container:
        """Start a container and return at once, before it is ready.

        Raises:
            ImageNotFoundError: the image is unknown here.
        """
        ...
