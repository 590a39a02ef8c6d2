"""Runs an image that was never built: what its Dockerfile says to start, found in the recorded build context.

Only what matters for starting is read: FROM, ARG, ENV, WORKDIR, COPY, ADD, ENTRYPOINT and CMD of the last stage. RUN is
not carried out, so an image that installs something needs it on this machine.
"""

import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

_CONTINUATION = re.compile(r"\\[ \t]*\n(?:[ \t]*#[^\n]*\n)*")
_VARIABLE = re.compile(r"\$(?:\{(?P<braced>\w+)(?::-(?P<default>[^}]*))?\}|(?P<bare>\w+))")


class RecordedBuildError(Exception):
    """The Dockerfile of a recorded image does not say what to start; the message says what is missing."""


@dataclass(frozen=True, slots=True)
class RecordedBuild:
    """How to start an image's main process on this machine."""

    base_image: str
    """FROM of the last stage, arguments filled in."""
    entrypoint: tuple[str, ...]
    """Command without arguments, image paths turned into paths of the context; empty when the image has none."""
    default_arguments: tuple[str, ...]
    """CMD; SageMaker replaces it by `serve`."""
    serve_command: tuple[str, ...]
    """What `docker run IMAGE serve` starts: the entrypoint with that argument, else a program `serve` of the image."""
    environment: Mapping[str, str]
    """ENV, image paths turned into paths of the context."""
    working_directory: Path


@dataclass(slots=True)
class _Stage:
    base_image: str
    variables: dict[str, str]
    environment: dict[str, str] = field(default_factory=dict)
    copies: list[tuple[PurePosixPath, Path]] = field(default_factory=list)
    workdir: PurePosixPath = field(default_factory=lambda: PurePosixPath("/"))
    entrypoint: list[str] | None = None
    shell_form: bool = False
    """The ENTRYPOINT is a line for a shell."""
    cmd: list[str] = field(default_factory=list)

    def expanded(self, text: str) -> str:
        values = self.variables | self.environment

        def value(match: re.Match[str]) -> str:
            return values.get(match["braced"] or match["bare"]) or match["default"] or ""

        return _VARIABLE.sub(value, text)

    def on_this_machine(self, text: str) -> str:
        """Turn a path inside the image into the path of what was copied there, the longest match first."""
        for target, source in sorted(self.copies, key=lambda copy: -len(copy[0].parts)):
            if text == str(target) or text.startswith(f"{str(target).rstrip('/')}/"):
                return str(source) + text[len(str(target).rstrip("/")) :]
        return text

    def value_on_this_machine(self, value: str) -> str:
        """Turn every path of a variable such as PATH or PYTHONPATH."""
        return ":".join(part if part.startswith("//") else self.on_this_machine(part) for part in value.split(":"))

    def serve_program(self) -> Path | None:
        """Return the file `serve` that was copied into the image, as images without an ENTRYPOINT have it."""
        for target, source in reversed(self.copies):
            program = source / "serve" if source.is_dir() else source
            if program.is_file() and (source.is_dir() or target.name == "serve" or source.name == "serve"):
                return program
        return None


def read_recorded_build(context: Path, dockerfile: Path, build_args: Mapping[str, str]) -> RecordedBuild:
    """Read a Dockerfile's last stage.

    Raises:
        RecordedBuildError: no stage, or neither an ENTRYPOINT in the exec form (a shell form would swallow SIGTERM) nor
            a program `serve`.
    """
    arguments: dict[str, str] = {}
    stage: _Stage | None = None
    for line in _instructions(dockerfile.read_text(encoding="utf-8")):
        name, _, rest = line.partition(" ")
        rest = rest.strip()
        match name.upper():
            case "FROM":
                base_image = _Stage("", arguments).expanded(_without_options(rest)[0])
                stage = _Stage(base_image, dict(arguments))
            case "ARG":
                name, _, default = rest.partition("=")
                scope = stage or _Stage("", arguments)
                default = scope.expanded(default.strip("\"'"))
                scope.variables[name] = build_args.get(name, default or scope.variables.get(name, ""))
            case _ if stage is not None:
                _apply(stage, name.upper(), rest, context)
    if stage is None:
        raise RecordedBuildError(f"{dockerfile} has no FROM")
    entrypoint = tuple(stage.on_this_machine(stage.expanded(word)) for word in stage.entrypoint or ())
    program = None if stage.entrypoint or stage.shell_form else stage.serve_program()
    if not entrypoint and program is None:
        raise RecordedBuildError(
            f'{dockerfile} has no ENTRYPOINT ["...", ...] in the exec form and copies no program named serve, '
            "so there is nothing to start"
        )
    workdir = Path(stage.on_this_machine(str(stage.workdir)))
    return RecordedBuild(
        base_image=stage.base_image,
        entrypoint=entrypoint,
        default_arguments=tuple(stage.cmd),
        serve_command=(str(program),) if program else (*entrypoint, "serve"),
        environment={name: stage.value_on_this_machine(value) for name, value in stage.environment.items()},
        working_directory=workdir if workdir.is_dir() and workdir.is_relative_to(context) else context,
    )


def _instructions(text: str) -> list[str]:
    lines = (line.strip() for line in _CONTINUATION.sub(" ", text).splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def _without_options(rest: str) -> list[str]:
    return [word for word in shlex.split(rest) if not word.startswith("--")]


def _apply(stage: _Stage, instruction: str, rest: str, context: Path) -> None:
    match instruction:
        case "ENV":
            for assignment in shlex.split(rest):
                name, _, value = assignment.partition("=")
                stage.environment[name] = stage.expanded(value)
        case "WORKDIR":
            stage.workdir /= stage.expanded(rest)
        case "COPY" | "ADD" if "--from=" not in rest:
            words = json.loads(rest) if rest.startswith("[") else _without_options(rest)
            *sources, target = [stage.expanded(word) for word in words]
            for source in sources:
                place = context / source.lstrip("/")
                into = stage.workdir / target
                # Docker copies a directory's content, a file by name into a target that ends with "/".
                named = not place.is_dir() and (target.endswith("/") or len(sources) > 1)
                stage.copies.append((into / place.name if named else into, place))
        case "ENTRYPOINT":
            stage.entrypoint = json.loads(rest) if rest.startswith("[") else None
            stage.shell_form = stage.entrypoint is None
            stage.cmd = []
        case "CMD":
            stage.cmd = json.loads(rest) if rest.startswith("[") else []
        case _:
            pass
