"""Runs CodeBuild's builds as plain processes: what a stack's own jobs need, without Docker.

moto answers that a build has succeeded when it is first asked about, and runs nothing. Here the source is taken out of
S3, and each phase of the buildspec runs in a shell of its own, with the project's and the build's variables and the
local cloud's endpoint; `python3` is this Python, which has boto3. Output goes to CloudWatch Logs line by line. The end
is told as an event of EventBridge.

Not imitated: images and their tools, `runtime-versions`, what a phase exports to the next one, artifacts, caches.
"""

import io
import logging
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
import zipfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped, unused-ignore]
from botocore.exceptions import BotoCoreError, ClientError
from moto.logs.models import logs_backends

from voice_local.control_plane.endpoint_logs import put_lines
from voice_local.control_plane.service_clients import ServiceClients, reason_of
from voice_local.identity import LocalIdentity
from voice_local.isolation import isolated_environment

_log = logging.getLogger(__name__)

PHASES = ("install", "pre_build", "build", "post_build")

_KEPT_VARIABLES = ("PATH", "LANG", "LC_ALL", "TMPDIR")

_DEFAULT_TIMEOUT_MINUTES = 60
"""CodeBuild's own."""


class BuildError(Exception):
    """A build cannot go on; the message is the phase's."""


@dataclass(slots=True)
class Build:
    """One build.

    Attributes:
        record: as the API describes it; changed under the state's lock.
        project: as the API describes it.
        variables: of the project, and of the request to start the build.
        log_group: where its output goes.
        log_stream: where in it.
    """

    record: dict[str, Any]
    project: Mapping[str, Any]
    variables: list[dict[str, str]]
    log_group: str
    log_stream: str
    stopped: threading.Event = field(default_factory=threading.Event)

    @property
    def build_id(self) -> str:
        """`project:uuid`."""
        return str(self.record["id"])


class BuildRuntime:
    """Runs the builds of one local cloud, a thread each."""

    def __init__(
        self,
        identity: LocalIdentity,
        state_lock: threading.RLock,
        clients: ServiceClients,
        url: str,
        on_end: Callable[[Build], None],
    ) -> None:
        """`url` is the control plane's, which builds talk to; `on_end` is told of each build that has ended."""
        self._identity = identity
        self._state_lock = state_lock
        self._clients = clients
        self._url = url
        self._on_end = on_end
        self._lock = threading.Lock()
        self._running: dict[str, tuple[Build, subprocess.Popen[str] | None]] = {}
        self._closed = False

    def start(self, build: Build) -> None:
        """Run a build; returns at once. Called with the state locked."""
        self._logs().ensure_log_group(build.log_group)
        with self._lock:
            if self._closed:
                return
            self._running[build.build_id] = (build, None)
        threading.Thread(target=self._run, args=(build,), name=f"build-{build.build_id}", daemon=True).start()

    def stop(self, build_id: str) -> None:
        """End a build; one that has ended is no error."""
        with self._lock:
            build, process = self._running.get(build_id, (None, None))
        if build is not None:
            build.stopped.set()
        if process is not None:
            _kill_group(process)

    def is_busy(self) -> bool:
        """Return whether a build runs, or its end is still being told."""
        with self._lock:
            return bool(self._running)

    def close(self) -> None:
        """End every build."""
        with self._lock:
            self._closed = True
            running = list(self._running)
        for build_id in running:
            self.stop(build_id)

    def _run(self, build: Build) -> None:
        began = time.monotonic()
        try:
            status = self._phases(build)
        except Exception:  # noqa: BLE001 (the end of a thread)
            _log.exception("Build %s ended unexpectedly", build.build_id)
            status = "FAULT"
        if self._closed:
            return
        with self._state_lock:
            build.record |= {
                "buildStatus": status,
                "buildComplete": True,
                "currentPhase": "COMPLETED",
                "endTime": _now(),
            }
            build.record["phases"].append({"phaseType": "COMPLETED", "startTime": _now()})
        _log.info("Build %s: %s after %.1f s", build.build_id, status, time.monotonic() - began)
        try:
            self._on_end(build)
        finally:
            with self._lock:
                self._running.pop(build.build_id, None)

    def _phases(self, build: Build) -> str:
        minutes = int(build.project.get("timeoutInMinutes") or _DEFAULT_TIMEOUT_MINUTES)
        deadline = time.monotonic() + 60 * minutes
        status = "SUCCEEDED"
        with tempfile.TemporaryDirectory(prefix="voice-local-build-") as folder:
            work = Path(folder)
            source = work / "src"
            with _Phase(self, build, "DOWNLOAD_SOURCE") as phase:
                phase.check(partial(self._download, build, source))
            if phase.failed:
                return phase.status
            spec = yaml.safe_load(build.project["source"]["buildspec"])
            environment = self._environment(build, work)
            for name in PHASES:
                commands = (spec.get("phases", {}).get(name) or {}).get("commands", [])
                # As CodeBuild: after a failed build, only what comes after it runs.
                if status != "SUCCEEDED" and (name != "post_build" or build.stopped.is_set()):
                    continue
                script = "\n".join(["set -e", *map(str, commands)])
                with _Phase(self, build, name.upper()) as phase:
                    phase.check(partial(self._shell, build, script, source, environment, deadline))
                if phase.failed:
                    status = phase.status
        return status

    def _download(self, build: Build, target: Path) -> None:
        target.mkdir()
        source = build.project["source"]
        if source["type"] == "NO_SOURCE":
            return
        if source["type"] != "S3":
            raise BuildError(f"CLIENT_ERROR: source type {source['type']} cannot be had here; S3 can")
        bucket, _, key = source["location"].partition("/")
        try:
            content = self._clients.call("s3", "GetObject", {"Bucket": bucket, "Key": key})["Body"].read()
            zipfile.ZipFile(io.BytesIO(content)).extractall(target)
        except (ClientError, BotoCoreError) as error:
            raise BuildError(f"CLIENT_ERROR: {reason_of(error)} for primary source") from error
        except zipfile.BadZipFile as error:
            raise BuildError(f"CLIENT_ERROR: {source['location']} is no zip file: {error}") from error

    def _environment(self, build: Build, work: Path) -> dict[str, str]:
        tools = work / "bin"
        tools.mkdir()
        for name in ("python3", "python"):
            wrapper = tools / name
            wrapper.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n', encoding="utf-8")
            wrapper.chmod(0o700)
        kept = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
        isolated = isolated_environment(
            # A build's own variables cannot lead it elsewhere either.
            {**kept, "HOME": str(work), **{item["name"]: item["value"] for item in build.variables}},
            identity=self._identity,
            control_plane_url=self._url,
        )
        return isolated | {
            "PATH": f"{tools}{os.pathsep}{kept.get('PATH', os.defpath)}",
            "CODEBUILD_BUILD_ID": build.build_id,
            "CODEBUILD_BUILD_ARN": str(build.record["arn"]),
            "CODEBUILD_SRC_DIR": str(work / "src"),
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    def _shell(self, build: Build, script: str, source: Path, environment: dict[str, str], deadline: float) -> None:
        with self._lock:
            if self._closed or build.stopped.is_set():
                raise BuildError("STOPPED: the build was stopped")
            process = subprocess.Popen(
                [shutil.which("bash") or "sh", "-c", script],
                cwd=source,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                start_new_session=True,
            )
            self._running[build.build_id] = (build, process)
        overdue = threading.Event()

        def expire() -> None:
            overdue.set()
            _kill_group(process)

        timer = threading.Timer(max(0.0, deadline - time.monotonic()), expire)
        timer.daemon = True
        timer.start()
        try:
            for line in process.stdout or ():
                self._say(build, line.rstrip("\n"))
            exit_code = process.wait()
        finally:
            timer.cancel()
            _kill_group(process)  # what it left running ends with it
        if build.stopped.is_set():
            raise BuildError("STOPPED: the build was stopped")
        if overdue.is_set():
            raise BuildError("TIMED_OUT: the build took longer than its project allows")
        if exit_code != 0:
            raise BuildError(f"COMMAND_EXECUTION_ERROR: Error while executing command. Reason: exit status {exit_code}")

    def _say(self, build: Build, line: str) -> None:
        put_lines(self._logs(), self._state_lock, build.log_group, build.log_stream, [line or " "])

    def _logs(self) -> Any:
        return logs_backends[self._identity.account_id][self._identity.region]

    def begin(self, build: Build, phase: str) -> dict[str, Any]:
        """Note that a phase begins; return its record."""
        record: dict[str, Any] = {"phaseType": phase, "startTime": _now()}
        with self._state_lock:
            build.record["currentPhase"] = phase
            build.record["phases"].append(record)
        return record

    def end(self, record: dict[str, Any], status: str, seconds: float, message: str) -> None:
        """Note how a phase ended."""
        with self._state_lock:
            record |= {"phaseStatus": status, "endTime": _now(), "durationInSeconds": round(seconds)}
            if message:
                code, _, text = message.partition(": ")
                record["contexts"] = [{"statusCode": code, "message": text}]


class _Phase:
    """One phase, noted in the build's record."""

    def __init__(self, runtime: BuildRuntime, build: Build, name: str) -> None:
        self._runtime = runtime
        self._build = build
        self._name = name
        self._message = ""
        self.status = "SUCCEEDED"

    @property
    def failed(self) -> bool:
        """Whether it did not succeed."""
        return self.status != "SUCCEEDED"

    def check(self, work: Callable[[], None]) -> None:
        """Do the phase's work."""
        try:
            work()
        except BuildError as error:
            self._message = str(error)
            code = self._message.partition(":")[0]
            self.status = code if code in {"STOPPED", "TIMED_OUT"} else "FAILED"

    def __enter__(self) -> "_Phase":
        self._began = time.monotonic()
        self._record = self._runtime.begin(self._build, self._name)
        return self

    def __exit__(self, *_: object) -> None:
        self._runtime.end(self._record, self.status, time.monotonic() - self._began, self._message)


def new_build(
    identity: LocalIdentity, project: Mapping[str, Any], number: int, overrides: list[dict[str, str]]
) -> Build:
    """Return a build of a project that has not begun.

    Args:
        identity: whose account it is in.
        project: as the API describes it.
        number: of the project's builds so far, this one counted.
        overrides: variables of the request; each takes the place of the project's of that name.
    """
    name, stream = str(project["name"]), str(uuid.uuid4())
    build_id = f"{name}:{stream}"
    given = {item["name"]: item for item in (*project["environment"].get("environmentVariables", ()), *overrides)}
    variables = [
        {"name": item["name"], "value": str(item["value"]), "type": item.get("type", "PLAINTEXT")}
        for item in given.values()
    ]
    logged = (project.get("logsConfig") or {}).get("cloudWatchLogs") or {}
    group = str(logged.get("groupName") or f"/aws/codebuild/{name}")
    arn = f"arn:aws:codebuild:{identity.region}:{identity.account_id}:build/{build_id}"
    record = {
        "id": build_id,
        "arn": arn,
        "buildNumber": number,
        "startTime": _now(),
        "currentPhase": "SUBMITTED",
        "buildStatus": "IN_PROGRESS",
        "projectName": name,
        "phases": [],
        "source": dict(project["source"]),
        "artifacts": {},
        "environment": {**project["environment"], "environmentVariables": variables},
        "serviceRole": project["serviceRole"],
        "logs": {"groupName": group, "streamName": stream, "cloudWatchLogs": {"status": "ENABLED", "groupName": group}},
        "timeoutInMinutes": int(project.get("timeoutInMinutes") or _DEFAULT_TIMEOUT_MINUTES),
        "buildComplete": False,
        "initiator": "local",
    }
    return Build(record, project, variables, group, stream)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _kill_group(process: subprocess.Popen[str]) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
