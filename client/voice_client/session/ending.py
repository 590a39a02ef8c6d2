"""Ends tasks that are no longer wanted."""

import asyncio
from typing import Any


async def end_tasks(*tasks: asyncio.Task[Any]) -> None:
    """Cancel tasks and return when they have ended.

    Their results and errors are dropped: whoever ends a task has its outcome from elsewhere, and an error nobody asks
    for would be written to standard error by asyncio.
    """
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    for task in tasks:
        if not task.cancelled():
            task.exception()
