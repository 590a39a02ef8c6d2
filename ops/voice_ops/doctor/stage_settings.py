"""The settings of the stage, with what is wrong in them as lines, and as much of the rest as can be examined."""

import json
from collections.abc import Mapping
from typing import Any

from stacks.settings import SettingsError, SettingsProblem, StageSettings, load_settings
from voice_ops.doctor.check import Check, failed, passed

_ROUNDS = 8
"""Taking a faulty value away can show another fault; each round takes away at least one."""


def examine_settings(context: Mapping[str, Any], stage: str) -> tuple[StageSettings | None, list[Check]]:
    """Load the settings of a stage; where they are faulty, load them without the faulty values.

    Args:
        context: of cdk.json, with the overrides of the command line in it.
        stage: which stage.

    Returns:
        The settings to go on with, None when there are none; and the line `settings`, with one of its own for each
        setting that would have led to a wrong inference AMI (`ami.stt`, `ami.tts`).
    """
    problems: list[SettingsProblem] = []
    remaining: dict[str, Any] = json.loads(json.dumps(dict(context)))
    settings = None
    for _ in range(_ROUNDS):
        try:
            settings = load_settings(remaining, stage)
            break
        except SettingsError as error:
            problems += [problem for problem in error.problems if problem not in problems]
            taken = [_take_away(remaining, stage, problem.key) for problem in error.problems]
            if not any(taken):
                break
    if not problems:
        return settings, [passed("settings", f"stage {stage}{', paused' if settings and settings.paused else ''}")]
    return settings, _lines(problems, examined=settings is not None)


def _lines(problems: list[SettingsProblem], *, examined: bool) -> list[Check]:
    about_ami = [problem for problem in problems if problem.key.endswith("_cuda")]
    others = [str(problem) for problem in problems if problem not in about_ami]
    wrong = [str(problem) for problem in problems]
    named = ", ".join(dict.fromkeys(problem.key for problem in problems))
    advice = f"correct {named} (docs/settings.md)"
    if others and examined:
        advice += "; the rest was examined without"
    return [
        failed("settings", "; ".join(wrong), advice),
        *(
            failed(
                f"ami.{problem.key.partition('.')[0]}",
                f"the setting {problem.key} would choose a wrong inference AMI: {problem.message}",
                f"leave {problem.key} out: the AMI follows from the image",
            )
            for problem in about_ami
        ),
    ]


def _take_away(context: dict[str, Any], stage: str, key: str) -> bool:
    """Remove a setting from the overrides and from the stage's object; return whether it was there."""
    given = [name for name in context if name == key or name.startswith(f"{key}.")]
    for name in given:
        del context[name]
    *parents, last = key.split(".")
    section: Any = context.get("voice", {})
    section = section.get(stage) if isinstance(section, dict) else None
    for parent in parents:
        section = section.get(parent) if isinstance(section, dict) else None
    if isinstance(section, dict) and last in section:
        del section[last]
        return True
    return bool(given)
