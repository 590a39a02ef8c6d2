"""Fills moto's gaps in CodeBuild: a build really runs, with the variables it is started with, and ends when it ends."""

from collections.abc import Callable
from typing import Any

from moto.codebuild.exceptions import ResourceNotFoundException
from moto.codebuild.models import CodeBuildBackend, codebuild_backends
from moto.codebuild.responses import CodeBuildResponse
from moto.core.responses import ActionResult

from voice_local.control_plane.build_runtime import Build, BuildRuntime, new_build
from voice_local.control_plane.event_delivery import EventDelivery
from voice_local.control_plane.patches import Patches
from voice_local.identity import LocalIdentity


class BuildApi:
    """StartBuild, BatchGetBuilds and StopBuild."""

    def __init__(self, identity: LocalIdentity, runtime: BuildRuntime) -> None:
        self._identity = identity
        self._runtime = runtime

    def install(self, patches: Patches) -> None:
        """Put the gap's filling into moto; `patches` takes it out again."""
        patches.method(CodeBuildResponse, "start_build", self._start)
        patches.method(CodeBuildResponse, "stop_build", self._stop)
        patches.method(CodeBuildBackend, "batch_get_builds", _builds)

    def resume(self) -> None:
        """End the builds of a saved state that were running when it was saved: their processes are gone."""
        backend = codebuild_backends[self._identity.account_id][self._identity.region]
        for record in _records(backend):
            if record["buildStatus"] == "IN_PROGRESS":
                record |= {"buildStatus": "FAULT", "buildComplete": True, "currentPhase": "COMPLETED"}

    def _start(self, response: Any) -> ActionResult:
        backend = response.codebuild_backend
        name, token = response._get_param("projectName"), response._get_param("idempotencyToken")
        project = backend.codebuild_projects.get(name)
        if project is None:
            raise ResourceNotFoundException(f"Project cannot be found: {name}")
        for record in backend.build_metadata_history[name]:
            if token and record.get("initiator") == f"token/{token}":
                return ActionResult({"build": record})
        history = backend.build_history[name]
        overrides = response._get_param("environmentVariablesOverride") or []
        build = new_build(self._identity, project.project_metadata, len(history) + 1, overrides)
        if token:
            build.record["initiator"] = f"token/{token}"
        history.append(build.build_id)
        backend.build_metadata_history[name].append(build.record)
        self._runtime.start(build)
        return ActionResult({"build": build.record})

    def _stop(self, response: Any) -> ActionResult:
        wanted = response._get_param("id")
        for record in _records(response.codebuild_backend):
            if record["id"] == wanted:
                self._runtime.stop(wanted)
                return ActionResult({"build": record})
        raise ResourceNotFoundException(f"Build {wanted} does not exist")


def build_ended(delivery: EventDelivery) -> Callable[[Build], None]:
    """Return what tells EventBridge of a build that has ended."""

    def tell(build: Build) -> None:
        delivery.deliver(
            source="aws.codebuild",
            detail_type="CodeBuild Build State Change",
            resources=[str(build.record["arn"])],
            detail={
                "build-status": build.record["buildStatus"],
                "project-name": build.record["projectName"],
                "build-id": build.record["arn"],
                "current-phase": "COMPLETED",
                "version": "1",
                "additional-information": {
                    "build-complete": True,
                    "environment": {"environment-variables": build.variables},
                    "logs": {"group-name": build.log_group, "stream-name": build.log_stream},
                },
            },
        )

    return tell


def _builds(backend: Any, ids: list[str]) -> list[dict[str, Any]]:
    return [record for record in _records(backend) if record["id"] in ids]


def _records(backend: Any) -> list[dict[str, Any]]:
    return [record for records in backend.build_metadata_history.values() for record in records]
