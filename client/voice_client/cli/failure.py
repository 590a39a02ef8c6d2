"""How a command ends: a result, or one line that says what happened and what to do, and an exit code."""

import asyncio
import os
import sys
from collections.abc import Coroutine

import typer

from voice_client.errors import VoiceError

UNEXPECTED = 1
"""Exit code of what no `VoiceError` describes; those carry their own (2 input, 3 endpoint, 4 stream or model)."""


def debugging() -> bool:
    """Whether tracebacks are wanted (VOICE_DEBUG set and not 0)."""
    return os.environ.get("VOICE_DEBUG", "0") not in {"", "0"}


def say(message: str) -> None:
    """Write one line to standard error."""
    print(f"voice: {' '.join(message.split())}", file=sys.stderr, flush=True)  # noqa: T201


def run[T](work: Coroutine[object, object, T], *, debug: bool) -> T:
    """Run a command's work to its result.

    Raises:
        typer.Exit: it failed; the reason has been written to standard error.
    """
    try:
        return asyncio.run(work)
    except VoiceError as error:
        if debug or debugging():
            raise
        say(str(error))
        raise typer.Exit(error.exit_code) from error
    except Exception as error:
        if debug or debugging():
            raise
        # The text of an unknown error may hold anything, also what was spoken; its type may not.
        say(f"unexpected {type(error).__name__}: this is a fault of the program; run it with --debug to see where")
        raise typer.Exit(UNEXPECTED) from error
