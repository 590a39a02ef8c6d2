"""Finds the local clouds that run on this machine, for `voice local env` and `voice local down`.

Each cloud leaves one file, readable by its user alone, while it runs.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import psutil
from pydantic import BaseModel, ValidationError

from voice_local.identity import LocalIdentity
from voice_local.isolation import connection_variables, without_ways_elsewhere


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
def registered(cloud: CloudDescription) -> Iterator[None]:
    """Make a cloud of this process findable until the block ends."""
    folder = registry_dir()
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    path = folder / f"{os.getpid()}.json"
    record = RunningCloud(pid=os.getpid(), started=psutil.Process().create_time(), cloud=cloud)
    draft = path.with_suffix(".draft")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(record.model_dump_json())
    draft.replace(path)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def running_clouds() -> list[RunningCloud]:
    """Return the clouds that run now, newest first; files of ended ones are removed."""
    found = []
    for path in registry_dir().glob("*.json"):
        try:
            record = RunningCloud.model_validate_json(path.read_text(encoding="utf-8"))
        except (ValidationError, FileNotFoundError):
            continue
        if record.process() is None:
            path.unlink(missing_ok=True)
        else:
            found.append(record)
    return sorted(found, key=lambda record: record.started, reverse=True)
