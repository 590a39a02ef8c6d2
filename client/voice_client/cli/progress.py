"""How far several files are, on a terminal only."""

import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, Self

from voice_client.audio import AudioSource, PcmReader


class FilesProgress:
    """A bar on standard error for the file under way and one for all of them; nothing where that is no terminal.

    Args:
        files: how many there are.
    """

    def __init__(self, files: int) -> None:
        self._bars: Any = None
        self._all: Any = None
        self._this: Any = None
        self._files = files

    def begin(self, name: str, seconds: float | None) -> Callable[[float], None]:
        """Begin a file of a length (None: not known); returns what takes the seconds that went by."""
        if self._bars is None:
            return lambda _: None
        if self._this is not None:
            self._bars.remove_task(self._this)
        task = self._this = self._bars.add_task(name, total=seconds)
        return lambda passed: self._bars.advance(task, passed)

    def end(self) -> None:
        """Count a file that is done."""
        if self._bars is not None:
            self._bars.advance(self._all)

    def __enter__(self) -> Self:
        if sys.stderr.isatty():
            from rich.console import Console  # noqa: PLC0415 - slow to load, and scripts never see it
            from rich.progress import Progress  # noqa: PLC0415

            self._bars = Progress(console=Console(stderr=True), transient=True)
            self._all = self._bars.add_task(f"{self._files} files", total=self._files)
            self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._bars is not None:
            self._bars.stop()


class WatchedSource:
    """A source that tells how much of it was read.

    Args:
        source: the audio.
        passed: is told the seconds of each chunk.
    """

    def __init__(self, source: AudioSource, passed: Callable[[float], None]) -> None:
        self._source = source
        self._passed = passed

    @property
    def live(self) -> bool:
        """As the source is."""
        return self._source.live

    @asynccontextmanager
    async def open(self, *, rate: int, chunk_bytes: int) -> AsyncGenerator[PcmReader]:
        """See `AudioSource.open`."""
        async with self._source.open(rate=rate, chunk_bytes=chunk_bytes) as reader:
            yield _WatchedReader(reader, lambda chunk: self._passed(len(chunk) / (2 * rate)))


class _WatchedReader:
    def __init__(self, reader: PcmReader, passed: Callable[[bytes], None]) -> None:
        self._reader = reader
        self._passed = passed

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        chunk = await anext(self._reader)
        self._passed(chunk)
        return chunk
