"""Reads the labels an image would carry out of its Dockerfile, as `docker build` would set them, and its base image.

Only what they need: line continuations, comments, ARG and ENV values, stages that build on stages. Instructions
that run something are skipped, and labels of the base image are unknown. Reference:
https://docs.docker.com/reference/dockerfile/
"""

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

_VARIABLE = re.compile(r"\\\$|\$(?:\{(?P<braced>\w+)(?::(?P<operator>[-+])(?P<word>[^}]*))?\}|(?P<bare>\w+))")
_DIRECTIVE = re.compile(r"#\s*escape\s*=\s*(\S)", re.IGNORECASE)


class DockerfileError(ValueError):
    """The Dockerfile cannot be read; the message names the instruction."""


@dataclass(slots=True)
class _Stage:
    base_image: str = ""
    labels: dict[str, str] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)


def labels_of(dockerfile: str, build_args: Mapping[str, str], target: str | None = None) -> dict[str, str]:
    """Return the labels of the last stage, or of the stage `target`.

    Raises:
        DockerfileError: there is no FROM, no stage `target`, or an instruction cannot be read.
    """
    return _last_stage(dockerfile, build_args, target).labels


def base_image_of(dockerfile: str, build_args: Mapping[str, str]) -> str:
    """Return the image that the last stage begins with, arguments filled in, through stages that build on stages.

    Raises:
        DockerfileError: there is no FROM, or an instruction cannot be read.
    """
    return _last_stage(dockerfile, build_args, None).base_image


def _last_stage(dockerfile: str, build_args: Mapping[str, str], target: str | None) -> _Stage:
    stages: dict[str, _Stage] = {}
    before_from: dict[str, str] = {}
    current: _Stage | None = None
    for instruction, rest in _instructions(dockerfile):
        match instruction:
            case "ARG" if current is None:
                before_from |= _arguments(rest, build_args, before_from, {})
            case "FROM":
                current = _from(rest, stages, before_from)
            case "ARG" if current is not None:
                current.variables |= _arguments(rest, build_args, current.variables, before_from)
            case "ENV" if current is not None:
                current.variables |= _pairs(rest, current.variables)
            case "LABEL" if current is not None:
                current.labels |= _pairs(rest, current.variables)
    if current is None:
        raise DockerfileError("The Dockerfile has no FROM.")
    if target is None:
        return current
    if target not in stages:
        raise DockerfileError(f"The Dockerfile has no stage {target}.")
    return stages[target]


def _from(rest: str, stages: dict[str, _Stage], variables: Mapping[str, str]) -> _Stage:
    words = [word for word in _expand(rest, variables).split() if not word.startswith("--")]
    if not words:
        raise DockerfileError(f"FROM {rest}: names no image.")
    base = stages.get(words[0], _Stage(words[0]))
    # ENV values of a base stage go on; so do its labels.
    stage = _Stage(base.base_image, dict(base.labels), dict(base.variables))
    stages[str(len({id(known) for known in stages.values()}))] = stage
    if len(words) == 3 and words[1].upper() == "AS":
        stages[words[2]] = stage
    return stage


def _instructions(dockerfile: str) -> Iterator[tuple[str, str]]:
    escape = "\\"
    if (first := _DIRECTIVE.match(dockerfile)) is not None:
        escape = first.group(1)
    joined = ""
    for line in dockerfile.splitlines():
        if line.lstrip().startswith("#") or (joined and not line.strip()):
            continue
        text = line.rstrip()
        if text.endswith(escape):
            joined += text[:-1] + " "
            continue
        joined += text
        word, _, rest = joined.strip().partition(" ")
        if word:
            yield word.upper(), rest.strip()
        joined = ""


def _arguments(
    rest: str, build_args: Mapping[str, str], variables: Mapping[str, str], inherited: Mapping[str, str]
) -> dict[str, str]:
    found = {}
    for word in _words(rest):
        name, equals, default = word.partition("=")
        if name in build_args:
            found[name] = build_args[name]
        elif equals:
            found[name] = _expand(default, {**variables, **found})
        elif name in inherited:
            found[name] = inherited[name]
    return found


def _pairs(rest: str, variables: Mapping[str, str]) -> dict[str, str]:
    words = _words(rest)
    if not words:
        return {}
    if "=" not in words[0]:  # the old form: LABEL key the rest of the line
        name, _, value = rest.partition(" ")
        return {name: _expand(value.strip().strip('"'), variables)}
    pairs = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals:
            raise DockerfileError(f"{rest}: {word} is not of the form name=value.")
        pairs[_expand(name, variables)] = _expand(value, variables)
    return pairs


def _words(rest: str) -> list[str]:
    try:
        return shlex.split(rest)
    except ValueError as error:
        raise DockerfileError(f"{rest}: {error}") from error


def _expand(text: str, variables: Mapping[str, str]) -> str:
    def value(match: re.Match[str]) -> str:
        if match.group(0) == "\\$":
            return "$"
        name = match.group("braced") or match.group("bare")
        known = variables.get(name, "")
        match match.group("operator"):
            case "-":
                return known or match.group("word")
            case "+":
                return match.group("word") if known else ""
        return known

    return _VARIABLE.sub(value, text)
