"""Stands in for the `docker` command where the CDK CLI builds and pushes image assets: records instead of building.

A laptop without Docker cannot build the bridge's image, and the local cloud needs no layers: its containers run the
build context's own code as plain processes. So `build` keeps a copy of the context and what the Dockerfile says,
and `push` puts it into the image store. `CDK_DOCKER` names the executable that `write_wrapper` makes.

The CDK CLI calls `login`, `inspect`, `images`, `build`, `tag` and `push`, and reads nothing but exit codes
and the output of `images`. `info` is for who asks before a deploy what would build the images.

SageMaker refuses an image index with provenance attestations, which Docker's builder adds unless it is told not to.
So a build here fails where a real one would make an image that cannot be deployed.
"""

import argparse
import json
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from voice_local.dockerfile import DockerfileError, labels_of
from voice_local.image_store import ImageStore, ImageStoreError, StoredImage

NO_ATTESTATIONS = "BUILDX_NO_DEFAULT_ATTESTATIONS"
"""Variable by which Docker's builder is told to add no attestations; the CDK CLI sets it to 1 for its builds."""

ABSENT = 1
"""Exit code of `docker inspect` for an image that is not there; the CDK CLI then builds it."""


def write_wrapper(directory: Path, images_dir: Path) -> Path:
    """Write the executable for `CDK_DOCKER` into a directory and return its path.

    Args:
        directory: holds the executable, and the images that were built but not pushed.
        images_dir: the image store that `push` writes into.
    """
    directory.mkdir(parents=True, exist_ok=True)
    command = [
        sys.executable,
        "-m",
        "voice_local.docker_shim",
        "--built",
        str((directory / "built-images").resolve()),
        "--pushed",
        str(images_dir.resolve()),
    ]
    wrapper = directory / "docker"
    # PYTHONPATH: in a source tree this package need not be installed.
    source_root = shlex.quote(str(Path(__file__).resolve().parent.parent))
    lines = [
        "#!/bin/sh",
        f"PYTHONPATH={source_root}${{PYTHONPATH:+:$PYTHONPATH}}",
        "export PYTHONPATH",
        f'exec {shlex.join(command)} "$@"',
    ]
    wrapper.write_text("\n".join(lines) + "\n", encoding="utf-8")
    wrapper.chmod(0o755)
    return wrapper


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one Docker command; returns its exit code."""
    parser = argparse.ArgumentParser(prog="docker (stand-in)", allow_abbrev=False)
    parser.add_argument("--built", type=Path, required=True)
    parser.add_argument("--pushed", type=Path, required=True)
    parser.add_argument("--config", help="Docker's client configuration; there is nothing to configure")
    parser.add_argument("command", choices=["login", "inspect", "images", "build", "tag", "push", "info"])
    given, rest = parser.parse_known_args(arguments)
    if given.command == "info":
        return _inform(given.built)
    built, pushed = ImageStore(given.built), ImageStore(given.pushed)
    try:
        return _run(given.command, rest, built, pushed)
    except (ImageStoreError, DockerfileError, OSError) as error:
        return _fail(str(error))


def _run(command: str, rest: Sequence[str], built: ImageStore, pushed: ImageStore) -> int:
    match command, list(rest):
        case (("login" | "images"), _):
            if command == "login":
                sys.stdin.read()  # the password; its writer must not find the pipe closed
            return 0  # and no image is offered for reuse
        case "inspect", [tag]:
            return 0 if built.find(tag) is not None else ABSENT
        case "tag", [source, target]:
            return _copy(source, built, target, built)
        case "push", [tag]:
            return _copy(tag, built, tag, pushed)
        case "build", options:
            return _build(options, built)
    return _fail(f"{command} {shlex.join(rest)}: not understood by the stand-in for Docker")


def _copy(source: str, store: ImageStore, target: str, into: ImageStore) -> int:
    image = store.find(source)
    if image is None:
        return _fail(f"No such image: {source}")
    into.save(replace(image, uri=target))
    return 0


def _build(options: Sequence[str], built: ImageStore) -> int:
    if os.environ.get(NO_ATTESTATIONS) != "1":
        return _fail(
            "build: Docker would attach provenance attestations, and SageMaker refuses such an image; "
            f"set {NO_ATTESTATIONS}=1 in the environment of the build"
        )
    parser = argparse.ArgumentParser(prog="docker build (stand-in)", allow_abbrev=False)
    parser.add_argument("--build-arg", action="append", default=[])
    parser.add_argument("--tag", action="append", required=True)
    parser.add_argument("--file", type=Path)
    parser.add_argument("--platform")
    parser.add_argument("--target")
    # Taken and without meaning where nothing is built. Build contexts and secrets would have one: not taken.
    for name in ("--network", "--output", "--cache-from", "--cache-to", "--provenance"):
        parser.add_argument(name, action="append")
    parser.add_argument("--no-cache", action="store_true")
    parser.add_argument("context", type=Path)
    given = parser.parse_args(options)
    context = given.context.resolve()
    dockerfile = (given.file or context / "Dockerfile").resolve()
    build_args = _pairs(given.build_arg)
    labels = labels_of(dockerfile.read_text(encoding="utf-8"), build_args, given.target)
    for tag in given.tag:
        built.save(StoredImage(tag, context, dockerfile, build_args, given.platform, labels))
    return 0


def _inform(built_dir: Path) -> int:
    """Write what `docker info --format '{{json .}}'` does, as far as it means something where nothing is built."""
    described = {
        "OperatingSystem": "Docker, stand-in of the local cloud",
        "ServerVersion": "stand-in",
        "OSType": "linux",
        "Architecture": "x86_64",
        "DockerRootDir": str(built_dir),
    }
    print(json.dumps(described))  # noqa: T201 (a command's output)
    return 0


def _pairs(arguments: Sequence[str]) -> Mapping[str, str]:
    return {name: value for name, _, value in (argument.partition("=") for argument in arguments)}


def _fail(message: str) -> int:
    print(message, file=sys.stderr)  # noqa: T201 (a command's error output)
    return 125  # Docker's own code for an error of the command itself


if __name__ == "__main__":
    sys.exit(main())
