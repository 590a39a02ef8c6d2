"""Finds the local clouds that run on this machine, for `voice local env` and `voice local down`.

Each cloud leaves one file, readable by its user alone, while it runs.
"""

import contextlib
import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import psutil
from pydantic import BaseModel

from voice_local.identity import LocalIdentity
from voice_local.isolation import connection_variables, without_ways_elsewhere

_log = logging.getLogger(__name__)


class CloudEndpoints(BaseModel):
    """Names of the deployed endpoints; None until they are deployed."""

    stt: str | None = None
    tts: str | None = None


class CloudDescription(BaseModel):
    """What a program needs to reach a local cloud: the JSON line that `voice local up` prints."""

    control_plane: str
    data_plane: str
    runtime: str
    """HTTP/1.1 endpoint of boto3's `sagemaker-runtime`."""
    faults: str
    """Admin route for faults; it wants `Authorization: Bearer ADMIN_TOKEN`."""
    admin_token: str
    ca_bundle: Path
    region: str
    access_key: str
    secret_key: str
    docker: Path | None = None
    """Executable for `CDK_DOCKER`: records images instead of building them."""
    endpoints: CloudEndpoints = CloudEndpoints()

    @property
    def identity(self) -> LocalIdentity:
        """The cloud's region and key pair."""
        return LocalIdentity(region=self.region, access_key_id=self.access_key, secret_access_key=self.secret_key)

    def variables(self) -> dict[str, str]:
        """Return the variables that make a program talk to this cloud."""
        return connection_variables(
            identity=self.identity,
            control_plane_url=self.control_plane,
            data_plane_url=self.data_plane,
            ca_bundle=self.ca_bundle,
            docker=self.docker,
            runtime_url=self.runtime,
        )

    def environment(self, base: Mapping[str, str]) -> dict[str, str]:
        """Return `base` without whatever could lead elsewhere, and with `variables()`."""
        return without_ways_elsewhere(base) | self.variables()


class RunningCloud(BaseModel):
    """A cloud and the process it lives in."""

    pid: int
    started: float
    """Creation time of the process, so that a reused process id is not taken for the cloud."""
    cloud: CloudDescription
    starter: int | None = None
    """The process that started it for itself and ends it, such as a demo; None when the cloud is the user's own."""

    def process(self) -> psutil.Process | None:
        """Return the cloud's process, None when it has ended."""
        try:
            process = psutil.Process(self.pid)
            same = abs(process.create_time() - self.started) < 1.0 and process.status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return None
        return process if same else None


def registry_dir() -> Path:
    """Return the folder of the running clouds' files (XDG state directory of the user)."""
    state = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(state) / "sagemaker-voice" / "running"


@contextmanager
def registered(cloud: CloudDescription, *, starter: int | None = None) -> Iterator[None]:
    """Make a cloud of this process findable until the block ends; `starter` as in `RunningCloud`.

    Where the user's state folder cannot be written, a warning says so and the cloud runs on: its own line on stdout
    says all the same how to reach it.
    """
    path = registry_dir() / f"{os.getpid()}.json"
    record = RunningCloud(pid=os.getpid(), started=psutil.Process().create_time(), cloud=cloud, starter=starter)
    try:
        _write(path, record.model_dump_json())
    except OSError as error:
        _log.warning(
            "`voice local env`, `status` and `down` will not find this cloud: %s. Set XDG_STATE_HOME to a folder that "
            "can be written.",
            error,
        )
    try:
        yield
    finally:
        _remove(path)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = path.with_suffix(".draft")
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        draft.replace(path)
    except OSError:
        _remove(draft)
        raise


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):  # what cannot be removed is told from a running cloud by its process
        path.unlink()


def running_clouds() -> list[RunningCloud]:
    """Return the clouds that run now, newest first; files of ended ones are removed."""
    found = []
    for path in registry_dir().glob("*.json"):
        try:
            record = RunningCloud.model_validate_json(path.read_text(encoding="utf-8"))
        except (ValueError, OSError):  # half a file, another release's, another user's
            continue
        if record.process() is None:
            _remove(path)
        else:
            found.append(record)
    return sorted(found, key=lambda record: record.started, reverse=True)
