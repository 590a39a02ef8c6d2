"""Starts a container for each variant: the real entrypoint of a pushed image, or the stand-in for one of AWS's."""

import os
import re
import shlex
import socket
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from voice_local.containers.known_images import BIDIRECTIONAL_LABEL, known_image, vllm_release_of
from voice_local.containers.process_container import ProcessContainer
from voice_local.containers.recorded_build import RecordedBuildError, read_recorded_build
from voice_local.containers.serving import LOOPBACK
from voice_local.containers.settings import ContainerHostSettings
from voice_local.image_store import ImageStore, StoredImage
from voice_local.interfaces import ContainerSpec, ImageNotFoundError

_KEPT_VARIABLES = ("HOME", "LANG", "LC_ALL", "TMPDIR", "XDG_CACHE_HOME")
"""What a process needs of the user's environment to run at all; credentials and settings stay outside."""

_ENGINE_PREFIX = "VOICE_LOCAL_"
"""Choices of engines and weights, which the stand-ins read."""

_MODEL_DIRECTORY = "/opt/ml/model"
"""Where SageMaker mounts weights from S3; the stand-ins take the path for a name."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True, slots=True)
class _Start:
    """What to run for a container."""

    command: tuple[str, ...]
    environment: Mapping[str, str]
    working_directory: Path
    bidirectional: bool


class ProcessContainerHost:
    """Implements `voice_local.interfaces.ContainerHost` with plain processes on 127.0.0.1."""

    def __init__(
        self,
        store: ImageStore,
        run_dir: Path,
        *,
        environment: Mapping[str, str] | None = None,
        settings: ContainerHostSettings | None = None,
    ) -> None:
        """Prepare `run_dir`, made when missing: the containers' logs, and the commands an image has on its PATH.

        Args:
            store: the images that were pushed to this local cloud.
            run_dir: holds `{container name}.log` and `bin/`.
            environment: the user's, of which little is handed on; None for that of this process.
            settings: time-outs.
        """
        self._store = store
        self._run_dir = run_dir.resolve()
        self._user_environment = os.environ if environment is None else environment
        self._settings = settings or ContainerHostSettings()
        self._ports = _FreePorts()
        self._bin = self._run_dir / "bin"
        self._bin.mkdir(parents=True, exist_ok=True)
        python = shlex.quote(sys.executable)
        self._write_command("vllm", f"{python} -m voice_local.containers.stand_in_vllm")
        self._write_command("python", python)
        self._write_command("python3", python)

    def start(self, spec: ContainerSpec, *, port: int | None = None) -> ProcessContainer:
        """Start a container and return at once, before it is ready.

        Args:
            spec: what SageMaker would be told.
            port: where it is to listen on 127.0.0.1; None takes a free port.

        Raises:
            ImageNotFoundError: the image was not pushed here and is none that is known, or cannot be run.
            ValueError: the name cannot name a log file.
            OSError: the machine refuses a process or a file.
        """
        if not _NAME.fullmatch(spec.name):
            raise ValueError(f"A container's name is letters, digits, '.', '_' and '-', not {spec.name!r}")
        start = self._find(spec.image)
        port, engine_port = port or self._ports.take(), self._ports.take()
        model = {}
        if spec.model_data and not spec.environment.get("SM_VLLM_MODEL"):
            # On AWS the weights would lie there, and the containers would find them.
            model["SM_VLLM_MODEL"] = _MODEL_DIRECTORY
        environment = {
            **self._base_environment(),
            **start.environment,
            **spec.environment,
            **model,
            "PATH": os.pathsep.join([str(self._bin), *_folders_of_path(start.environment), self._user_path()]),
            "SAGEMAKER_BIND_TO_PORT": str(port),
            "BRIDGE_PORT": str(port),
            "BRIDGE_HOST": LOOPBACK,
            "VLLM_PORT": str(engine_port),
        }
        return ProcessContainer(
            start.command,
            name=spec.name,
            port=port,
            bidirectional=start.bidirectional,
            environment=environment,
            working_directory=start.working_directory,
            log_file=self._run_dir / f"{spec.name}.log",
            settings=self._settings,
        )

    def _find(self, image: str) -> _Start:
        stored = self._store.find(image)
        if stored is not None:
            return _start_of(stored)
        known = known_image(image)
        if known is None:
            raise ImageNotFoundError(
                f"The image {image} was not pushed to this local cloud and is none it has a stand-in for "
                "(vllm:omni-sagemaker-cuda-v*); deploy the stack that builds it, or correct the URI"
            )
        return _Start(
            command=(sys.executable, "-m", known.module, "serve"),
            environment={},
            working_directory=self._run_dir,
            bidirectional=known.bidirectional,
        )

    def _user_path(self) -> str:
        return self._user_environment.get("PATH", os.defpath)

    def _base_environment(self) -> dict[str, str]:
        kept = {
            name: value
            for name, value in self._user_environment.items()
            if name in _KEPT_VARIABLES or name.startswith(_ENGINE_PREFIX)
        }
        return {**kept, "PYTHONUNBUFFERED": "1", "HF_HUB_OFFLINE": "1", "AWS_EC2_METADATA_DISABLED": "true"}

    def _write_command(self, name: str, command: str) -> None:
        path = self._bin / name
        unfinished = self._bin / f".{name}-{os.getpid()}"
        unfinished.write_text(f'#!/bin/sh\nexec {command} "$@"\n', encoding="utf-8")
        unfinished.chmod(0o755)
        unfinished.replace(path)


def _start_of(stored: StoredImage) -> _Start:
    try:
        build = read_recorded_build(stored.context, stored.dockerfile, stored.build_args)
    except (RecordedBuildError, OSError, ValueError) as problem:
        raise ImageNotFoundError(f"The image {stored.uri} cannot be run: {problem}") from problem
    release = vllm_release_of(build.base_image)
    return _Start(
        command=build.serve_command,
        environment={**build.environment, **({"VOICE_LOCAL_VLLM_RELEASE": release} if release else {})},
        working_directory=build.working_directory,
        bidirectional=stored.labels.get(BIDIRECTIONAL_LABEL) == "true",
    )


def _folders_of_path(environment: Mapping[str, str]) -> list[str]:
    """Return the folders of an image's PATH that exist here: those that were copied into it."""
    return [folder for folder in environment.get("PATH", "").split(os.pathsep) if folder and Path(folder).is_dir()]


class _FreePorts:
    """TCP ports that nobody listens on, none handed out twice."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._taken: set[int] = set()

    def take(self) -> int:
        """Return a port that was free a moment ago; another program could still be faster."""
        with self._lock:
            while True:
                with socket.socket() as probe:
                    probe.bind((LOOPBACK, 0))
                    port: int = probe.getsockname()[1]
                if port not in self._taken:
                    self._taken.add(port)
                    return port
