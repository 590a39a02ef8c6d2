"""How a command ends: a result, or one line that says what happened and what to do, and an exit code."""

import asyncio
import os
import sys
from collections.abc import Coroutine

import typer

from voice_client.errors import VoiceError

UNEXPECTED = 1
"""Exit code of what no `VoiceError` describes; those carry their own (2 input, 3 endpoint, 4 stream or model)."""


_asked: list[bool] = []


def ask_for_tracebacks(wanted: bool) -> None:
    """Take the value of `--debug`, before the command runs."""
    _asked.append(wanted)


def debugging() -> bool:
    """Whether tracebacks are wanted (`--debug`, or VOICE_DEBUG set and not 0)."""
    return any(_asked) or os.environ.get("VOICE_DEBUG", "0") not in {"", "0"}


def say(message: str) -> None:
    """Write one line to standard error."""
    print(f"voice: {' '.join(message.split())}", file=sys.stderr, flush=True)  # noqa: T201


def report(error: Exception) -> int:
    """Write what an error says to standard error and return the exit code for it."""
    if isinstance(error, VoiceError):
        say(str(error))
        return error.exit_code
    # The text of an unknown error may hold anything, also what was spoken; its type may not.
    say(f"unexpected {type(error).__name__}: a fault of the program; VOICE_DEBUG=1 shows where")
    return UNEXPECTED


def run[T](work: Coroutine[object, object, T]) -> T:
    """Run a command's work to its result.

    Raises:
        typer.Exit: it failed; the reason has been written to standard error.
    """
    try:
        return asyncio.run(work)
    except Exception as error:
        if debugging():
            raise
        raise typer.Exit(report(error)) from error
