"""What builds the bridge's image: Docker or another tool (CDK_DOCKER), its platform, and room for tens of gigabytes."""

import json
import platform
import shutil
import socket
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from voice_ops.doctor.check import Check, failed, passed, skipped, warned
from voice_ops.doctor.subject import Limits, Places

REAL_BUILD_GB = 60.0
STAND_IN_GB = 1.0
GB = 1e9

OTHERS = ("podman", "finch", "buildah", "nerdctl")
"""Builders that take Docker's command line, named in the advice when one of them is installed."""

WANTED_ARCHITECTURES = ("amd64", "x86_64")
"""SageMaker's GPU instances; images are built for linux/amd64."""

STAND_IN = "stand-in"
"""What the local cloud's stand-in for Docker names itself: it records a build instead of carrying it out."""


@dataclass(frozen=True, slots=True)
class Builder:
    """A builder that answers.

    Attributes:
        command: as the CDK CLI calls it.
        name: product and version.
        architecture: of the machine that builds: `amd64`, `arm64`; empty when it does not say.
        storage: folder of its images; None when it is not on this machine or not told.
        emulates: whether it is known to run other architectures too (Docker Desktop does).
        stand_in: whether it builds nothing.
    """

    command: str
    name: str
    architecture: str
    storage: Path | None
    emulates: bool
    stand_in: bool


class _NoAnswerError(Exception):
    pass


def builder_checks(places: Places, limits: Limits) -> Iterator[Check]:
    """Yield the lines `builder`, `platform` and `disk`."""
    command = places.environment.get("CDK_DOCKER") or "docker"
    try:
        builder = _ask(command, places.environment, limits)
    except _NoAnswerError as error:
        yield failed("builder", str(error), _advice(command, places.environment))
        yield skipped("platform", "no builder to ask")
        yield skipped("disk", "no builder to ask where it keeps images")
        return
    yield passed("builder", f"{builder.name} ({builder.command})")
    yield _platform(builder)
    yield _disk(builder, limits)


def _ask(command: str, environment: Mapping[str, str], limits: Limits) -> Builder:
    executable = shutil.which(command, path=environment.get("PATH"))
    if executable is None:
        raise _NoAnswerError(f"no `{command}` on the PATH")
    kind = Path(executable).name
    # buildah knows no format, podman another one, and everything else is Docker or takes its place.
    arguments = {"buildah": ["info"], "podman": ["info", "--format", "json"]}
    given = arguments.get(kind, ["info", "--format", "{{json .}}"])
    try:
        done = subprocess.run(
            [executable, *given],
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=limits.command_seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise _NoAnswerError(f"`{command} info` did not answer within {limits.command_seconds:g} s") from None
    except OSError as error:
        raise _NoAnswerError(f"`{command}` cannot be started: {error}") from None
    try:
        told = json.loads(done.stdout)
    except ValueError:
        told = None
    answer: dict[str, Any] = told if isinstance(told, dict) else {}
    problem = "; ".join(map(str, answer.get("ServerErrors") or [])) or done.stderr.strip()[-300:]
    if done.returncode != 0 or not answer or answer.get("ServerErrors"):
        raise _NoAnswerError(f"`{command} info` ended with {done.returncode}: {problem or 'no answer'}")
    return _of_libpod(kind, command, answer) if "store" in answer else _of_docker(command, answer, environment)


def _of_docker(command: str, answer: Mapping[str, Any], environment: Mapping[str, str]) -> Builder:
    system = str(answer.get("OperatingSystem", ""))
    desktop = "Desktop" in system
    root = answer.get("DockerRootDir")
    version = str(answer.get("ServerVersion", ""))
    elsewhere = version != STAND_IN and _is_elsewhere(answer, environment)
    return Builder(
        command=command,
        name=" ".join(part for part in (system, version) if part and part != STAND_IN) or command,
        architecture=str(answer.get("Architecture", "")),
        storage=Path(root) if root and not elsewhere and not desktop else None,
        emulates=desktop,
        stand_in=version == STAND_IN,
    )


def _is_elsewhere(answer: Mapping[str, Any], environment: Mapping[str, str]) -> bool:
    """Return whether Docker's folders are not here: a context or a virtual machine shows by its name alone."""
    if environment.get("DOCKER_HOST", "").startswith(("tcp:", "ssh:", "http")) or platform.system() != "Linux":
        return True
    here = socket.gethostname()
    return str(answer.get("Name") or here) != here


def _of_libpod(kind: str, command: str, answer: Mapping[str, Any]) -> Builder:
    store, host = answer["store"], answer.get("host", {})
    root = store.get("GraphRoot") or store.get("graphRoot")
    version = answer.get("version", {}).get("Version", "")
    return Builder(
        command=command,
        name=f"{kind} {version}".strip(),
        architecture=str(host.get("arch", "")),
        # A podman machine keeps its images in a virtual disk, on what is no Linux.
        storage=Path(root) if root and platform.system() == "Linux" else None,
        emulates=False,
        stand_in=False,
    )


def _advice(command: str, environment: Mapping[str, str]) -> str:
    installed = [
        name for name in OTHERS if name != Path(command).name and shutil.which(name, path=environment.get("PATH"))
    ]
    if installed:
        return f"start it, or use what is installed: export CDK_DOCKER={installed[0]}"
    if environment.get("CDK_DOCKER"):
        return f"CDK_DOCKER={command} must name a builder that runs; unset it to use docker"
    return "install and start Docker, or another builder (podman, finch) and export CDK_DOCKER=its-name"


def _platform(builder: Builder) -> Check:
    if builder.stand_in:
        return passed("platform", "a stand-in: it records the build for linux/amd64 and builds nothing")
    architecture = builder.architecture
    if architecture in WANTED_ARCHITECTURES:
        return passed("platform", "linux/amd64")
    if not architecture:
        return warned(
            "platform", "the builder does not say for which platform it builds", "the image must be for linux/amd64"
        )
    if builder.emulates or _emulation():
        return passed("platform", f"linux/amd64 on {architecture}, emulated: the build takes longer")
    return failed(
        "platform",
        f"the builder is {architecture} and nothing here runs linux/amd64, which the image must be for",
        "install emulation (qemu-user-static, or binfmt for amd64), or deploy from an amd64 machine",
    )


def _emulation() -> bool:
    registered = Path("/proc/sys/fs/binfmt_misc")
    return any((registered / name).exists() for name in ("qemu-x86_64", "rosetta"))


def _disk(builder: Builder, limits: Limits) -> Check:
    needed = limits.disk_gb if limits.disk_gb is not None else (STAND_IN_GB if builder.stand_in else REAL_BUILD_GB)
    if builder.storage is None:
        return warned(
            "disk",
            f"{builder.name} keeps its images where free space cannot be seen from here",
            f"make sure that it has {needed:g} GB (Docker Desktop: Settings, Resources)",
        )
    folder = builder.storage
    try:
        # What was never built in is not there yet, and will be on the disk of the folder above.
        while not folder.exists() and folder != folder.parent:
            folder = folder.parent
        free = shutil.disk_usage(folder).free / GB
    except OSError as error:
        return warned("disk", f"{folder} cannot be looked at: {error}", f"make sure that it has {needed:g} GB free")
    found = f"{free:,.0f} GB free, {needed:,.0f} needed, in {builder.storage}"
    if free < needed:
        prune = "" if builder.stand_in else f" (`{builder.command} system prune -a` removes unused images)"
        return failed("disk", found, f"free {needed - free:,.0f} GB there{prune}, or move the builder's storage")
    return passed("disk", found)
