"""Python, Node, the CDK CLI and the packages: what `make setup` makes, and whether it is what was locked."""

import json
import re
import subprocess
import sys
import sysconfig
import tomllib
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

from voice_ops.doctor.check import Check, failed, passed, skipped, warned
from voice_ops.doctor.subject import Limits, Places

OLDEST_PYTHON, NEWEST_PYTHON = (3, 12), (3, 14)
OLDEST_NODE = 20
OLDEST_SUPPORTED_NODE = 22
"""Node 20 works; its makers ended its support in April 2026, and the CDK's warn of it since."""

WATCHED_PACKAGES = ("aws-cdk-lib", "constructs", "boto3", "pydantic", "aws-sdk-sagemaker-runtime-http2", "h2")
"""Compared with the lock: those whose version decides what can be deployed or streamed."""

_SET_UP = "run `make setup`"


def python() -> Check:
    """Check the interpreter this runs on."""
    version = sys.version.split()[0]
    at = f"{version}, {sys.executable}"
    wanted = f"Python {OLDEST_PYTHON[0]}.{OLDEST_PYTHON[1]} to {NEWEST_PYTHON[0]}.{NEWEST_PYTHON[1]} is needed"
    if not OLDEST_PYTHON <= sys.version_info[:2] <= NEWEST_PYTHON:
        return failed("python", at, f"{wanted}: `scripts/setup --which-python` says which one set-up would take")
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        return failed("python", f"{at}, free-threaded", "the SDK has no build for it: take a usual build of Python")
    return passed("python", at)


def node(places: Places, limits: Limits) -> Check:
    """Check the Node.js on the PATH, which runs the CDK CLI."""
    advice = f"install Node.js {OLDEST_SUPPORTED_NODE} or newer (your system's packages, or nodejs.org)"
    try:
        done = subprocess.run(
            ["node", "--version"],
            env=dict(places.environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=limits.command_seconds,
            check=False,
        )
    except FileNotFoundError:
        return failed("node", "no `node` on the PATH", advice)
    except (OSError, subprocess.TimeoutExpired) as error:
        hangs = isinstance(error, subprocess.TimeoutExpired)
        why = f"did not answer within {limits.command_seconds:g} s" if hangs else f"cannot be started: {error}"
        return failed("node", f"`node --version` {why}", advice)
    found = re.match(r"v(\d+)\.\S+", done.stdout.strip())
    if done.returncode != 0 or found is None:
        said = (done.stdout + done.stderr).strip()[-200:]
        return failed("node", f"`node --version` ended with {done.returncode}: {said}", advice)
    version, major = found[0], int(found[1])
    if major < OLDEST_NODE:
        return failed("node", f"{version}; {OLDEST_NODE} or newer is needed", advice)
    if major < OLDEST_SUPPORTED_NODE:
        return passed("node", f"{version}; past its end of life, {OLDEST_SUPPORTED_NODE} is the next with support")
    return passed("node", version)


def cdk_cli(places: Places) -> Check:
    """Check that the project's own CDK CLI is there, in the version that package.json pins."""
    try:
        wanted = json.loads((places.project / "package.json").read_text("utf-8"))["devDependencies"]["aws-cdk"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        return failed("cdk-cli", f"package.json cannot be read: {error!r}", "run from a checkout of the project")
    package = places.project / "node_modules" / "aws-cdk" / "package.json"
    if not package.is_file() or not (places.project / "node_modules" / ".bin" / "cdk").exists():
        return failed("cdk-cli", f"not installed; {wanted} is pinned", _SET_UP)
    try:
        found = str(json.loads(package.read_text("utf-8"))["version"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        return failed("cdk-cli", f"{package} cannot be read: {error!r}; {wanted} is pinned", _SET_UP)
    if found != wanted:
        return failed("cdk-cli", f"{found}; package.json pins {wanted}", _SET_UP)
    return passed("cdk-cli", found)


def packages(places: Places) -> Check:
    """Check the installed Python packages against the exact pins and the lock."""
    try:
        project = tomllib.loads((places.project / "pyproject.toml").read_text("utf-8"))["project"]
        locked = dict(_locked(places.project / "requirements" / "dev.txt"))
    except (OSError, ValueError, KeyError) as error:
        return skipped("packages", f"pyproject.toml or the lock cannot be read: {error!r}")
    pinned = dict(_pinned(project))
    missing: list[str] = []
    wrong: list[str] = []
    other: list[str] = []
    for name in sorted({*pinned, *WATCHED_PACKAGES} & {*pinned, *locked}):
        wanted = pinned.get(name) or locked[name]
        try:
            found = metadata.version(name)
        except metadata.PackageNotFoundError:
            missing.append(name)
            continue
        if found != wanted:
            (wrong if name in pinned else other).append(f"{name} {found} instead of {wanted}")
    if missing or wrong:
        what = [*(f"{name} is not installed" for name in missing), *wrong, *other]
        return failed("packages", "; ".join(what), _SET_UP)
    if other:
        return warned("packages", f"not as locked: {'; '.join(other)}", _SET_UP)
    shown = [name for name in ("aws-cdk-lib", "boto3", "aws-sdk-sagemaker-runtime-http2") if name in locked]
    return passed("packages", f"as locked: {', '.join(f'{name} {locked[name]}' for name in shown)}")


def _pinned(project: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield what a deploy and a client need, as far as it is pinned to one version."""
    wanted = [*project["dependencies"], *project["optional-dependencies"]["cdk"]]
    for requirement in wanted:
        if found := re.fullmatch(r"([\w.-]+)(?:\[[\w,-]+\])?==([\w.]+)", requirement):
            yield found[1], found[2]


def _locked(lock: Path) -> Iterator[tuple[str, str]]:
    for line in lock.read_text("utf-8").splitlines():
        if found := re.match(r"([a-z0-9._-]+)(?:\[[a-z,-]+\])?==([^\s;\\]+)", line):
            yield found[1], found[2]
