"""Runs a blocking iterator in a thread of its own and hands its items to asyncio."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Self

THREAD_END_SECONDS = 1.0
"""Wait for the thread at the end. Only a read from a pipe that brings nothing takes longer; the thread is a daemon,
so that even then it does not keep the process alive."""


class BackgroundReader:
    """An async iterator over what a blocking iterator yields, at most `depth` items ahead of its reader.

    A class and not an async generator: a generator that is cancelled while it waits is finished for good, whereas
    here the next `anext` goes on where the cancelled one stopped.
    """

    def __init__(self, produce: Callable[[], Iterator[bytes]], *, depth: int = 16) -> None:
        self._produce = produce
        self._room = threading.Semaphore(depth)
        self._stopped = False
        self._items: asyncio.Queue[bytes | Exception | None] = asyncio.Queue()
        self._ended = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        threading.Thread(target=self._run, name="audio-reader", daemon=True).start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stopped = True
        self._room.release()
        try:
            async with asyncio.timeout(THREAD_END_SECONDS):
                await self._ended.wait()
        except TimeoutError:
            return

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        """Return the next item.

        Raises:
            Exception: what the blocking iterator raised.
        """
        item = await self._items.get()
        if isinstance(item, bytes):
            self._room.release()
            return item
        self._items.put_nowait(item)  # the end stays the end
        if item is None:
            raise StopAsyncIteration
        raise item

    def _run(self) -> None:
        end: Exception | None = None
        try:
            for item in self._produce():
                self._room.acquire()
                if self._stopped:
                    break
                self._post(item)
        except Exception as error:  # noqa: BLE001 - raised again where the items are read
            end = error
        self._post(end)

    def _post(self, item: bytes | Exception | None) -> None:
        assert self._loop is not None  # noqa: S101 - set before the thread starts
        try:
            self._loop.call_soon_threadsafe(self._items.put_nowait, item)
            if not isinstance(item, bytes):
                self._loop.call_soon_threadsafe(self._ended.set)
        except RuntimeError:
            self._stopped = True  # the loop is closed: nobody reads any more
