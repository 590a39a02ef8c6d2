"""Waiting for what happens in the server or the container, which have no event to offer."""

import asyncio
from collections.abc import Callable

from .bare_client import DEADLINE


async def until(condition: Callable[[], object], seconds: float = DEADLINE) -> None:
    """Return when the condition holds.

    Raises:
        TimeoutError: it does not within `seconds`.
    """
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0.01)
