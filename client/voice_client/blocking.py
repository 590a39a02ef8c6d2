"""Waiting, with a deadline, for library code that blocks."""

import asyncio
import contextlib
import threading
from collections.abc import Callable

from voice_client.errors import DeadlineError


async def call_blocking[T](function: Callable[[], T], *, deadline_seconds: float, doing: str, advice: str) -> T:
    """Run `function` in a thread and return what it returns, or raise what it raises.

    The thread is a daemon of its own: a call that never comes back can hold up neither this coroutine beyond its
    deadline nor the end of the process, which a thread of asyncio's default executor would.

    Args:
        function: called without arguments, in the thread.
        deadline_seconds: how long to wait.
        doing: what is being waited for, for the error ("reading the credentials").
        advice: what to do when the deadline passes.

    Raises:
        DeadlineError: the call took longer. It goes on in its thread, and its result is dropped.
    """
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[T] = loop.create_future()

    def settle(result: T | None, error: BaseException | None) -> None:
        if outcome.done():
            return
        if error is not None:
            outcome.set_exception(error)
        else:
            outcome.set_result(result)  # type: ignore[arg-type]  # a result of None is a T here

    def run() -> None:
        result: T | None = None
        error: BaseException | None = None
        try:
            result = function()
        except BaseException as caught:  # noqa: BLE001  # handed to the waiting coroutine
            error = caught
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(settle, result, error)

    threading.Thread(target=run, name=f"voice: {doing}", daemon=True).start()
    try:
        async with asyncio.timeout(deadline_seconds):
            return await outcome
    except TimeoutError:
        if outcome.done() and not outcome.cancelled():
            raise  # the function's own TimeoutError
        raise DeadlineError(f"{doing} took longer than {deadline_seconds:g} s", advice=advice) from None
