"""How a command ends: a result, or one line that says what happened and what to do, and an exit code."""

import asyncio
import contextlib
import errno
import os
import signal
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
    """Write one line to standard error, if there is one that takes it; the exit code speaks in any case."""
    if sys.stderr is None:  # then `print` would take standard output
        return
    with contextlib.suppress(OSError):
        print(f"voice: {' '.join(message.split())}", file=sys.stderr, flush=True)  # noqa: T201


def report(error: Exception) -> int:
    """Write what an error says to standard error and return the exit code for it."""
    if isinstance(error, VoiceError):
        say(str(error))
        return error.exit_code
    if isinstance(error, BrokenPipeError):
        return _nobody_reads()
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        say("there is no room left where the output goes; make room, or write it elsewhere")
        return UNEXPECTED
    # The text of an unknown error may hold anything, also what was spoken; its type may not.
    say(f"unexpected {type(error).__name__}: a fault of the program; VOICE_DEBUG=1 shows where")
    return UNEXPECTED


def run[T](work: Coroutine[object, object, T]) -> T:
    """Run a command's work to its result; a request to end (SIGTERM, SIGHUP) lets it clean up first.

    Raises:
        typer.Exit: it failed, and the reason has been written to standard error; or it was asked to end.
    """
    try:
        result = asyncio.run(_until_asked_to_end(work))
        if sys.stdout is not None:
            sys.stdout.flush()  # here it can be told that it fails
    except _AskedToEnd as asked:
        raise typer.Exit(128 + asked.number) from None
    except Exception as error:
        if debugging():
            raise
        raise typer.Exit(report(error)) from error
    return result


def _nobody_reads() -> int:
    """Drop what Python still holds for a reader who has gone (`| head`), and return the exit code for it."""
    for stream in filter(None, (sys.stdout, sys.stderr)):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    return 128 + signal.SIGPIPE


class _AskedToEnd(Exception):  # noqa: N818 - no error
    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


async def _until_asked_to_end[T](work: Coroutine[object, object, T]) -> T:
    task = asyncio.ensure_future(work)
    asked: list[int] = []

    def end(number: int) -> None:
        asked.append(number)
        task.cancel()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # as under nohup
            loop.add_signal_handler(number, end, number)
    try:
        return await task
    except asyncio.CancelledError:
        if asked:
            raise _AskedToEnd(asked[0]) from None
        raise
