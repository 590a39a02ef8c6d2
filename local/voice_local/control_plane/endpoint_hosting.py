"""Endpoints that run containers: Creating until `/ping` answers 200, Failed with the reason when it does not.

SageMaker decides the state of an endpoint by `GET /ping` of each variant's container:
https://docs.aws.amazon.com/sagemaker/latest/dg/your-algorithms-inference-code.html#your-algorithms-inference-algo-ping-requests
An update starts the new containers beside the old ones and moves over only when they answer (blue/green).
"""

import itertools
import logging
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Protocol

from voice_local.control_plane.settings import ControlPlaneSettings
from voice_local.control_plane.variant_container import OutputSink, StartError, VariantContainer, VariantPlan
from voice_local.interfaces import ContainerHost, EndpointStatus, EndpointView

_log = logging.getLogger(__name__)

StatusListener = Callable[[str, EndpointStatus, str | None], None]
"""Told the endpoint's name, its new state and the failure reason; called from the hosting's threads."""


class EndpointOutput(OutputSink, Protocol):
    """Takes what endpoints' containers write."""

    def open(self, endpoint: str) -> None:
        """Get ready for an endpoint's output."""
        ...


@dataclass(frozen=True, slots=True)
class Rollout:
    """How an update goes over to new containers: SageMaker's `DeploymentConfig`, as far as it is imitated."""

    baking_seconds: float = 0.0
    """How long alarms are watched after the new containers serve; `WaitIntervalInSeconds`."""
    termination_wait_seconds: float = 0.0
    """How long the old containers stay for the streams they have; `TerminationWaitInSeconds`."""
    tripped: Callable[[], list[str]] = list
    """Returns the names of the roll-back alarms that are in ALARM now."""


@dataclass(slots=True)
class _Endpoint:
    name: str
    status: EndpointStatus
    running: tuple[VariantContainer, ...] = ()
    numbers: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1))
    cancelled: threading.Event = field(default_factory=threading.Event)
    operation: threading.Lock = field(default_factory=threading.Lock)
    """Held by the one operation at work on it, so that a deletion ends after a start it cut short."""


class EndpointHosting:
    """Runs the containers of all endpoints of one local cloud."""

    def __init__(
        self, host: ContainerHost, settings: ControlPlaneSettings, output: EndpointOutput, on_status: StatusListener
    ) -> None:
        self._host = host
        self._settings = settings
        self._output = output
        self._on_status = on_status
        self._lock = threading.Lock()
        self._endpoints: dict[str, _Endpoint] = {}
        self._threads: set[threading.Thread] = set()
        self._closed = False

    def view(self, name: str) -> EndpointView | None:
        """Return the endpoint as it is now; never waits for a container."""
        with self._lock:
            endpoint = self._endpoints.get(name)
            if endpoint is None:
                return None
            status, running = endpoint.status, endpoint.running
        serving = (container.serving() for container in running)
        return EndpointView(name=name, status=status, containers=tuple(one for one in serving if one is not None))

    def create(self, name: str, plans: Iterable[VariantPlan]) -> None:
        """Start the containers of a new endpoint; returns at once."""
        endpoint = _Endpoint(name, EndpointStatus.CREATING)
        with self._lock:
            self._endpoints[name] = endpoint
        self._run("create", endpoint, lambda: self._create(endpoint, tuple(plans)))

    def know_failed(self, name: str) -> None:
        """Take over an endpoint that failed before this process started, so that it can be deleted."""
        with self._lock:
            self._endpoints[name] = _Endpoint(name, EndpointStatus.FAILED)

    def update(
        self, name: str, plans: Iterable[VariantPlan], on_moved: Callable[[], None], rollout: Rollout | None = None
    ) -> None:
        """Move an endpoint to new containers; returns at once. `on_moved` is called only when they serve for good."""
        with self._lock:
            endpoint = self._endpoints[name]
            endpoint.status = EndpointStatus.UPDATING
        self._run("update", endpoint, lambda: self._update(endpoint, tuple(plans), on_moved, rollout or Rollout()))

    def delete(self, name: str, on_gone: Callable[[], None]) -> None:
        """Stop an endpoint's containers; returns at once. `on_gone` is called when every process of it is gone."""
        with self._lock:
            endpoint = self._endpoints[name]
            endpoint.status = EndpointStatus.DELETING
            endpoint.cancelled.set()
        self._run("delete", endpoint, lambda: self._delete(endpoint, on_gone))

    def close(self) -> None:
        """Stop every container and wait for the threads, at most `stop_seconds` for all of them."""
        with self._lock:
            self._closed = True
            endpoints = list(self._endpoints.values())
            threads = list(self._threads)
        for endpoint in endpoints:
            endpoint.cancelled.set()
        deadline = time.monotonic() + self._settings.stop_seconds
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        if endpoints:
            # Side by side: each may use its whole grace period.
            with ThreadPoolExecutor(len(endpoints), thread_name_prefix="stop-endpoint") as pool:
                list(pool.map(self._stop_containers, endpoints))

    def _run(self, verb: str, endpoint: _Endpoint, work: Callable[[], None]) -> None:
        def body() -> None:
            try:
                with endpoint.operation:
                    work()
            except Exception as error:  # noqa: BLE001 (the end of a thread)
                # The endpoint's state is the only place left to report to.
                _log.exception("The %s of endpoint %s ended unexpectedly", verb, endpoint.name)
                self._set(endpoint, EndpointStatus.FAILED, f"Internal error of the local cloud: {error!r}")
            finally:
                with self._lock:
                    self._threads.discard(threading.current_thread())

        thread = threading.Thread(target=body, name=f"{verb}-endpoint-{endpoint.name}", daemon=True)
        with self._lock:
            if self._closed:
                return
            self._threads.add(thread)
        thread.start()

    def _create(self, endpoint: _Endpoint, plans: tuple[VariantPlan, ...]) -> None:
        try:
            started = self._start_all(endpoint, plans)
        except StartError as error:
            self._set(endpoint, EndpointStatus.FAILED, str(error))
            return
        self._adopt(endpoint, started)
        self._set(endpoint, EndpointStatus.IN_SERVICE, None)

    def _update(
        self, endpoint: _Endpoint, plans: tuple[VariantPlan, ...], on_moved: Callable[[], None], rollout: Rollout
    ) -> None:
        try:
            started = self._start_all(endpoint, plans)
        except StartError as error:
            # As after a blue/green roll-back: the old containers serve on, and the reason is kept.
            self._set(endpoint, EndpointStatus.IN_SERVICE, str(error))
            return
        with self._lock:
            previous = endpoint.running
        self._adopt(endpoint, started)
        if alarms := self._bake(endpoint, rollout):
            with self._lock:
                endpoint.running = () if endpoint.cancelled.is_set() else previous
            self._set(
                endpoint,
                EndpointStatus.IN_SERVICE,
                f"Rolled back to the previous configuration: {', '.join(alarms)} in ALARM during the update.",
            )
            for container in started:
                container.stop()
            return
        on_moved()
        self._set(endpoint, EndpointStatus.IN_SERVICE, None)
        # Streams that are open stay with their container until they end, at most this long.
        endpoint.cancelled.wait(rollout.termination_wait_seconds)
        for container in previous:
            container.stop()

    def _bake(self, endpoint: _Endpoint, rollout: Rollout) -> list[str]:
        """Watch the roll-back alarms for the baking time; return those that went off."""
        deadline = time.monotonic() + rollout.baking_seconds
        while not (alarms := rollout.tripped()) and time.monotonic() < deadline:
            if endpoint.cancelled.wait(self._settings.stabilization_poll_seconds):
                break
        return alarms

    def _delete(self, endpoint: _Endpoint, on_gone: Callable[[], None]) -> None:
        self._stop_containers(endpoint)
        with self._lock:
            if self._endpoints.get(endpoint.name) is endpoint:
                del self._endpoints[endpoint.name]
        on_gone()

    def _adopt(self, endpoint: _Endpoint, started: tuple[VariantContainer, ...]) -> None:
        """Let containers serve, unless the endpoint was deleted while they started."""
        with self._lock:
            unwanted = endpoint.cancelled.is_set()
            if not unwanted:
                endpoint.running = started
        for container in started:
            if unwanted:
                container.stop()
            else:
                container.watch()

    def _stop_containers(self, endpoint: _Endpoint) -> None:
        with self._lock:
            containers, endpoint.running = endpoint.running, ()
        for container in containers:
            container.stop()

    def _set(self, endpoint: _Endpoint, status: EndpointStatus, reason: str | None) -> None:
        with self._lock:
            if endpoint.cancelled.is_set():
                return
            endpoint.status = status
        self._on_status(endpoint.name, status, reason)

    def _start_all(self, endpoint: _Endpoint, plans: tuple[VariantPlan, ...]) -> tuple[VariantContainer, ...]:
        """Start one container a variant and wait until all are healthy; stop them all when one is not."""
        self._refuse_impossible(endpoint, plans)
        self._output.open(endpoint.name)
        containers = tuple(
            VariantContainer(
                self._host,
                endpoint=endpoint.name,
                plan=plan,
                settings=self._settings,
                sink=self._output,
                number=lambda: next(endpoint.numbers),
            )
            for plan in plans
        )
        try:
            for container in containers:
                container.start()
            for container in containers:
                container.wait_healthy(endpoint.cancelled)
        except BaseException:
            for container in containers:
                container.stop()
            raise
        return containers

    def _refuse_impossible(self, endpoint: _Endpoint, plans: tuple[VariantPlan, ...]) -> None:
        """Let time pass as SageMaker does, then fail, when a container cannot start on its instances."""
        for plan in plans:
            if plan.impossible is None:
                continue
            if endpoint.cancelled.wait(self._settings.mismatch_seconds):
                raise StartError(f"Endpoint {endpoint.name} was deleted while it started.")
            raise StartError(
                f"The primary container for production variant {plan.variant} did not pass the ping health check. "
                f"{plan.impossible}"
            )
