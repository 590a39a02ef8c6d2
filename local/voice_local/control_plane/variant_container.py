"""The container of one production variant: started, found healthy, watched, started again when it dies, stopped.

SageMaker asks `GET /ping` of a container for as long as it serves and replaces one that is unhealthy; the endpoint
stays InService meanwhile, and requests fail until the new container answers:
https://docs.aws.amazon.com/sagemaker/latest/dg/your-algorithms-inference-code.html#your-algorithms-inference-algo-ping-requests
"""

import logging
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from voice_local.control_plane.settings import ControlPlaneSettings
from voice_local.interfaces import (
    Container,
    ContainerHost,
    ContainerSpec,
    ImageNotFoundError,
    ServingContainer,
)

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class VariantPlan:
    """What to run for one production variant."""

    variant: str
    image: str
    environment: Mapping[str, str]
    model_data: str | None
    startup_seconds: float | None
    """The variant's `ContainerStartupHealthCheckTimeoutInSeconds`; None when it sets none."""
    impossible: str | None = None
    """Why the container can never start on the instances asked for; None when it can."""
    sidecar: bool = True
    """Whether the variant names an inference AMI, without which no stream reaches the container."""


class OutputSink(Protocol):
    """Takes what containers write; called from the variants' threads."""

    def write(self, endpoint: str, stream: str, lines: list[str]) -> None:
        """Keep whole lines, oldest first."""
        ...


class StartError(Exception):
    """A container did not become healthy; the message is the endpoint's FailureReason."""


@dataclass(slots=True)
class _Tail:
    """A container's output file, read as far as its last whole line."""

    path: Path
    offset: int = 0

    def lines(self, *, to_the_end: bool = False) -> list[str]:
        """Return the lines written since the last call; `to_the_end` takes a last one without line feed too."""
        try:
            with self.path.open("rb") as file:
                file.seek(self.offset)
                text = file.read()
        except FileNotFoundError:
            return []
        whole = text if to_the_end else text[: text.rfind(b"\n") + 1]
        self.offset += len(whole)
        return [line for line in whole.decode("utf-8", errors="replace").splitlines() if line.strip()]


class VariantContainer:
    """One plan's container, under the same name to the outside for as long as the variant serves."""

    def __init__(
        self,
        host: ContainerHost,
        *,
        endpoint: str,
        plan: VariantPlan,
        settings: ControlPlaneSettings,
        sink: OutputSink,
        number: Callable[[], int],
    ) -> None:
        """Start nothing yet; `number` gives each container of the endpoint a number of its own."""
        self.plan = plan
        self._host = host
        self._endpoint = endpoint
        self._settings = settings
        self._sink = sink
        self._number = number
        # As SageMaker names it: the variant and the instance.
        self._stream = f"{plan.variant}/i-{secrets.token_hex(8)}"
        self._lock = threading.Lock()
        self._container: Container | None = None
        self._tail: _Tail | None = None
        self._stopped = threading.Event()
        self._watcher: threading.Thread | None = None

    def serving(self) -> ServingContainer | None:
        """Return how to reach the container; None before it was started."""
        with self._lock:
            container = self._container
        if container is None:
            return None
        return ServingContainer(
            variant=self.plan.variant,
            port=container.port,
            bidirectional=container.bidirectional,
            sidecar=self.plan.sidecar,
        )

    def start(self) -> None:
        """Start the container; returns before it is healthy.

        Raises:
            StartError: the image is unknown or the machine refuses a process.
        """
        number = self._number()
        spec = ContainerSpec(
            name=f"{self._endpoint}-{self.plan.variant}-{number}",
            image=self.plan.image,
            environment=self.plan.environment,
            model_data=self.plan.model_data,
        )
        try:
            container = self._host.start(spec)
        except (ImageNotFoundError, OSError) as error:
            raise StartError(
                f"The container of production variant {self.plan.variant} cannot start: {error}"
            ) from error
        with self._lock:
            self._container, self._tail = container, _Tail(container.log_file)

    def wait_healthy(self, cancelled: threading.Event) -> None:
        """Wait until the container answers `/ping`.

        Raises:
            StartError: it ended, it did not answer in time, or the endpoint was deleted.
        """
        plan, settings = self.plan, self._settings
        limit = min(plan.startup_seconds or settings.container_startup_seconds, settings.container_startup_seconds)
        deadline = time.monotonic() + limit
        # The first sentence is SageMaker's own.
        failed = f"The primary container for production variant {plan.variant} did not pass the ping health check."
        with self._lock:
            container = self._container
        if container is None:
            raise StartError(f"{failed} It was stopped while it started.")
        while not container.ping():
            self._ship()
            if (code := container.exit_code()) is not None:
                raise StartError(f"{failed} It ended with exit code {code}. {_last_line(container)}".rstrip())
            if time.monotonic() >= deadline:
                raise StartError(f"{failed} It did not answer within {limit:g} s. {_last_line(container)}".rstrip())
            if cancelled.wait(settings.ping_interval_seconds):
                raise StartError(f"Endpoint {self._endpoint} was deleted while it started.")

    def watch(self) -> None:
        """From now on carry the container's output away and start it again when it dies; returns at once."""
        self._watcher = threading.Thread(
            target=self._watch, name=f"watch-{self._endpoint}-{self.plan.variant}", daemon=True
        )
        self._watcher.start()

    def stop(self) -> None:
        """Stop the container and what watches it; returns when every process of it is gone. Idempotent."""
        self._stopped.set()
        with self._lock:
            container, self._container = self._container, None
        if container is not None:
            container.stop()
        if self._watcher is not None:
            self._watcher.join(self._settings.stop_seconds)
        self._ship(to_the_end=True)

    def _watch(self) -> None:
        settings = self._settings
        delay = settings.restart_delay_seconds
        last_ping = healthy = time.monotonic()
        while not self._stopped.wait(settings.watch_interval_seconds):
            self._ship()
            with self._lock:
                container = self._container
            if container is None:
                return
            now = time.monotonic()
            if container.exit_code() is None:
                if now - last_ping < settings.watch_ping_seconds:
                    continue
                last_ping = now
                if container.ping():
                    healthy, delay = time.monotonic(), settings.restart_delay_seconds
                if time.monotonic() - healthy < settings.unhealthy_seconds:
                    continue
            if self._stopped.wait(delay):
                return
            delay = min(2 * delay, settings.longest_restart_delay_seconds)
            self._restart(container)
            last_ping = healthy = time.monotonic()

    def _restart(self, dead: Container) -> None:
        code = dead.exit_code()
        how = "does not answer /ping" if code is None else f"ended with exit code {code}"
        _log.warning(
            "The container of variant %s of endpoint %s %s: starting another", self.plan.variant, self._endpoint, how
        )
        dead.stop()
        self._ship(to_the_end=True)
        try:
            self.start()
            self.wait_healthy(self._stopped)
        except StartError as error:
            _log.warning("Endpoint %s: %s", self._endpoint, error)
        # A stop that came while the new one started has not seen it.
        if self._stopped.is_set():
            with self._lock:
                late, self._container = self._container, None
            if late is not None:
                late.stop()

    def _ship(self, *, to_the_end: bool = False) -> None:
        with self._lock:
            lines = self._tail.lines(to_the_end=to_the_end) if self._tail is not None else []
        if lines:
            self._sink.write(self._endpoint, self._stream, lines)


def _last_line(container: Container) -> str:
    lines = [line.strip() for line in container.output_tail().splitlines() if line.strip()]
    return f"Last line of its output: {lines[-1]}" if lines else "It wrote no output."
