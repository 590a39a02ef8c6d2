"""One container of a build context in the foreground: what `voice local run-container` does.

The context is recorded and started as a deployed stage would start it, and judged by SageMaker's container contract:
`serve` as argument, `GET /ping`, and, for images with the label, a WebSocket that is accepted within 250 ms.
https://docs.aws.amazon.com/sagemaker/latest/dg/your-algorithms-inference-code.html
"""

import asyncio
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import psutil
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus, WebSocketException

from voice_local.containers.host import ProcessContainerHost
from voice_local.containers.known_images import BIDIRECTIONAL_LABEL
from voice_local.containers.process_container import ContainerStopError, ProcessContainer
from voice_local.containers.serving import LOOPBACK
from voice_local.dockerfile import DockerfileError, labels_of
from voice_local.image_store import ImageStore, ImageStoreError, StoredImage
from voice_local.interfaces import ContainerSpec, ImageNotFoundError

CONTAINER_PORT = 8080
"""Where a container listens that does not read SAGEMAKER_BIND_TO_PORT."""

DEFAULT_PATH = "invocations-bidirectional-stream"
"""The path SageMaker streams to when a client names none."""

ACCEPT_SECONDS = 0.25
"""SageMaker's own limit for accepting a WebSocket."""

SOCKET_SECONDS = 5.0
"""How long the answer to the WebSocket is waited for, so that a late one can be told from none."""

LOOK_SECONDS = 0.2
"""Time between two looks at a container's health, log and process."""

type EventKind = Literal["started", "log", "ping", "stream", "ended", "stopped"]


class RunContainerError(Exception):
    """The container cannot be run, or did not become healthy; the message says what to do."""


@dataclass(frozen=True, slots=True)
class ContainerEvent:
    """Something that happened to the container; `fields` are those of the JSON line `--json` prints."""

    kind: EventKind
    text: str
    """For people; a line of the container's output for `log`."""
    fields: Mapping[str, Any]


type Report = Callable[[ContainerEvent], None]


@dataclass(frozen=True, slots=True)
class ContainerRun:
    """What to run, and for how long."""

    context: Path
    """The folder that `docker build` would be given."""
    dockerfile: Path | None = None
    """None: `Dockerfile` in the context."""
    build_args: Mapping[str, str] | None = None
    environment: Mapping[str, str] | None = None
    """The variables of the SageMaker model."""
    port: int | None = None
    """On 127.0.0.1; None takes 8080 when it is free, else a free one; 0 takes a free one."""
    healthy_within: float = 60.0
    """Seconds until `/ping` must answer 200: SageMaker's own shortest start-up limit (60 to 3600)."""
    until_healthy: bool = False
    """Stop, successfully, as soon as the container is healthy and its stream was tried."""


async def run_container(run: ContainerRun, work_dir: Path, ended: asyncio.Event, report: Report) -> None:
    """Run a container until `ended` is set, telling what happens to it.

    Args:
        run: what to run.
        work_dir: for the recorded context and the log.
        ended: set by the caller, on Ctrl-C for one.
        report: called with each event, in order.

    Raises:
        RunContainerError: the context cannot be run, the container ended by itself, or it was not healthy in time.
    """
    image = await asyncio.to_thread(_recorded, run, work_dir)
    host = ProcessContainerHost(ImageStore(work_dir / "images"), work_dir / "containers")
    container = _start(host, image, run)
    log = _Log(container.log_file)
    try:
        report(_started(container))
        await _watch(container, log, run, ended, report)
    finally:
        try:
            await asyncio.to_thread(container.stop)
        except ContainerStopError as problem:
            raise RunContainerError(str(problem)) from problem
        finally:
            log.report(report, to_the_end=True)
    code = container.exit_code()
    report(ContainerEvent("stopped", f"stopped with exit code {code}; no process is left", {"exit_code": code}))


def _recorded(run: ContainerRun, work_dir: Path) -> StoredImage:
    context = run.context.resolve()
    dockerfile = (run.dockerfile or context / "Dockerfile").resolve()
    if not context.is_dir():
        raise RunContainerError(f"There is no folder {run.context}: name the one that holds the Dockerfile")
    if work_dir.resolve().is_relative_to(context):
        # Its copy would hold itself.
        raise RunContainerError(f"{work_dir}, where the copy goes, is inside {context}: set TMPDIR to a folder outside")
    try:
        labels = labels_of(dockerfile.read_text(encoding="utf-8"), run.build_args or {})
        image = StoredImage("run-container:latest", context, dockerfile, run.build_args or {}, None, labels)
        return ImageStore(work_dir / "images").save(image)
    except FileNotFoundError as problem:
        raise RunContainerError(f"There is no {problem.filename}: --file names a Dockerfile elsewhere") from problem
    except (DockerfileError, ImageStoreError, OSError) as problem:
        raise RunContainerError(f"{dockerfile}: {problem}") from problem


def _wanted_port(port: int | None) -> int | None:
    if port is None:
        return CONTAINER_PORT if _is_free(CONTAINER_PORT) else None
    if port and not _is_free(port):
        raise RunContainerError(f"Port {port} of 127.0.0.1 is taken: choose another, or 0 for any free one")
    return port or None


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def _start(host: ProcessContainerHost, image: StoredImage, run: ContainerRun) -> ProcessContainer:
    spec = ContainerSpec("container", image.uri, run.environment or {})
    try:
        return host.start(spec, port=_wanted_port(run.port))
    except ImageNotFoundError as problem:
        # The cause speaks of the Dockerfile, the error itself of an image's URI that nobody has given here.
        raise RunContainerError(str(problem.__cause__ or problem)) from problem
    except OSError as problem:
        raise RunContainerError(f"The container cannot be started: {problem}") from problem


def _started(container: ProcessContainer) -> ContainerEvent:
    label = f"label {BIDIRECTIONAL_LABEL}=true"
    return ContainerEvent(
        "started",
        f"started on 127.0.0.1:{container.port} (SAGEMAKER_BIND_TO_PORT)"
        + (f", {label}" if container.bidirectional else f"; no {label}: SageMaker would never open a stream to it"),
        {"port": container.port, "bidirectional": container.bidirectional, "log_file": str(container.log_file)},
    )


class _Log:
    """A container's output, shown line by line."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._offset = 0

    def report(self, report: Report, *, to_the_end: bool = False) -> None:
        """Report the whole lines written since the last time; `to_the_end` takes a last one without line feed too."""
        with self._file.open("rb") as log:
            log.seek(self._offset)
            text = log.read()
        if not to_the_end:
            text = text[: text.rfind(b"\n") + 1]
        self._offset += len(text)
        for line in text.decode(errors="replace").splitlines():
            report(ContainerEvent("log", line, {"line": line}))


async def _watch(
    container: ProcessContainer, log: _Log, run: ContainerRun, ended: asyncio.Event, report: Report
) -> None:
    """Show the log and every change of `/ping` until the run is over."""
    began = time.monotonic()
    was_healthy, now_healthy = False, False
    while not ended.is_set() and not (now_healthy and run.until_healthy):
        answers, code = await asyncio.to_thread(container.ping), container.exit_code()
        log.report(report)
        if code is not None:
            report(ContainerEvent("ended", f"ended by itself with exit code {code}", {"exit_code": code}))
            raise RunContainerError(f"The container ended by itself with exit code {code}; its output says why")
        seconds = time.monotonic() - began
        if answers is not now_healthy:
            text = f"answers 200 after {seconds:.1f} s" if answers else "does not answer 200 any more"
            report(ContainerEvent("ping", f"GET /ping {text}", {"healthy": answers, "seconds": round(seconds, 3)}))
        if answers and not was_healthy and container.bidirectional:
            report(await _try_stream(container.port))
        was_healthy, now_healthy = was_healthy or answers, answers
        if not was_healthy and seconds > run.healthy_within:
            raise RunContainerError(_never_healthy(container, run.healthy_within))
        with suppress(TimeoutError):
            async with asyncio.timeout(LOOK_SECONDS):
                await ended.wait()


async def _try_stream(port: int) -> ContainerEvent:
    """Open a WebSocket as SageMaker does for a client that names no path, and close it."""
    url = f"ws://{LOOPBACK}:{port}/{DEFAULT_PATH}"
    began = time.monotonic()
    try:
        async with asyncio.timeout(SOCKET_SECONDS), connect(url, open_timeout=None, proxy=None, close_timeout=1):
            seconds = time.monotonic() - began
    except InvalidStatus as refused:
        status = refused.response.status_code
        return ContainerEvent(
            "stream",
            f"{DEFAULT_PATH} is refused with HTTP {status}: clients must name another path",
            {"accepted": False, "status": status},
        )
    except (WebSocketException, OSError, TimeoutError) as problem:
        what = f"no answer in {SOCKET_SECONDS:.0f} s" if isinstance(problem, TimeoutError) else type(problem).__name__
        return ContainerEvent(
            "stream", f"{DEFAULT_PATH} takes no WebSocket ({what})", {"accepted": False, "status": None}
        )
    late = f"; SageMaker gives {ACCEPT_SECONDS * 1000:.0f} ms" if seconds > ACCEPT_SECONDS else ""
    return ContainerEvent(
        "stream",
        f"{DEFAULT_PATH} accepts a WebSocket after {seconds * 1000:.0f} ms{late}",
        {"accepted": True, "seconds": round(seconds, 3), "in_time": not late},
    )


def _never_healthy(container: ProcessContainer, seconds: float) -> str:
    said = f"GET /ping did not answer 200 within {seconds:g} s (--healthy-within)"
    others = sorted(_ports_of(container) - {container.port})
    if others:
        return (
            f"{said}: the container listens on {', '.join(map(str, others))}, not on the port that "
            f"SAGEMAKER_BIND_TO_PORT names ({container.port})"
        )
    if container.port not in _ports_of(container):
        return f"{said}: nothing in the container listens on port {container.port} (SAGEMAKER_BIND_TO_PORT)"
    return said


def _ports_of(container: ProcessContainer) -> set[int]:
    ports: set[int] = set()
    with suppress(psutil.NoSuchProcess):
        for process in psutil.Process(container.pid).children(recursive=True):
            with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                ports |= {
                    connection.laddr.port
                    for connection in process.net_connections(kind="tcp")
                    if connection.status == psutil.CONN_LISTEN
                }
    return ports
