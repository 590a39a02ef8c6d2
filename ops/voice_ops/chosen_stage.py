"""The stage that a command is given: its settings, out of cdk.json and `-c key=value`, as the CDK CLI reads them."""

import os
from collections.abc import Sequence

from rich.console import Console

from stacks.settings import SettingsError, StageSettings, load_settings, read_context
from voice_ops.assembly import PROJECT
from voice_ops.errors import OpsError

WIDTH_OF_A_FILE = 140
"""Columns when the output is no terminal and COLUMNS does not say."""


class StageUnusableError(OpsError):
    """The settings cannot be read, or are wrong; all problems are in the message."""


def overrides(context: Sequence[str]) -> dict[str, str]:
    """Return `-c` options as a mapping.

    Raises:
        StageUnusableError: one is not of the form key=value.
    """
    wrong = [item for item in context if not item.partition("=")[0] or "=" not in item]
    if wrong:
        raise StageUnusableError(f"-c {', '.join(wrong)}: write key=value")
    return dict(item.split("=", 1) for item in context)


def chosen_stage(stage: str, context: Sequence[str] = ()) -> StageSettings:
    """Return the settings of a stage.

    Raises:
        StageUnusableError: see the class.
    """
    try:
        return load_settings({**read_context(PROJECT / "cdk.json"), **overrides(context)}, stage)
    except SettingsError as error:
        raise StageUnusableError(str(error)) from error
    except (OSError, ValueError) as error:
        raise StageUnusableError(f"{PROJECT / 'cdk.json'} cannot be read: {error}") from error


def screen(*, stderr: bool = False) -> Console:
    """Return a console that does not fold tables where nobody looks at a screen."""
    console = Console(stderr=stderr, highlight=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        return Console(stderr=stderr, highlight=False, width=WIDTH_OF_A_FILE)
    return console
