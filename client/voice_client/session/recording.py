"""The audio of one utterance: filled at the speed of the source, read by each attempt to send it."""

import asyncio
from collections.abc import AsyncGenerator

from voice_client.audio.pacing import Pacer
from voice_client.audio.source import PcmReader


class Recording:
    """Chunks of an utterance in order, kept as long as they may have to be sent again.

    Args:
        replayable: keep what was sent; otherwise a chunk is forgotten when it was read, and memory stays flat.
        backlog_chunks: chunks that may wait to be read for the first time; then the source waits.
    """

    def __init__(self, *, replayable: bool, backlog_chunks: int) -> None:
        self._replayable = replayable
        self._backlog = backlog_chunks
        self._chunks: list[bytes | None] = []
        self._read = 0
        self._complete = False
        self._failure: Exception | None = None
        self._changed = asyncio.Condition()
        self.total_bytes = 0

    @property
    def complete(self) -> bool:
        """Whether the source has ended."""
        return self._complete

    async def fill(self, reader: PcmReader, pacer: Pacer | None) -> None:
        """Take everything from a source; its failure is raised where the chunks are read."""
        try:
            async for chunk in reader:
                if pacer is not None:
                    await pacer.wait_for(chunk)
                async with self._changed:
                    await self._changed.wait_for(lambda: len(self._chunks) - self._read < self._backlog)
                    self._chunks.append(chunk)
                    self.total_bytes += len(chunk)
                    self._changed.notify_all()
        except Exception as failure:  # noqa: BLE001 - raised again in chunks()
            self._failure = failure
        async with self._changed:
            self._complete = True
            self._changed.notify_all()

    async def wait_for_first(self) -> None:
        """Return when there is a first chunk.

        Raises:
            Exception: what the source raised before its first chunk.
        """
        async with self._changed:
            await self._changed.wait_for(lambda: bool(self._chunks) or self._complete)
        if not self._chunks and self._failure is not None:
            raise self._failure

    async def chunks(self) -> AsyncGenerator[bytes]:
        """Yield all chunks from the first, waiting for those still to come.

        Raises:
            Exception: what the source raised, after the chunks that came before.
        """
        index = 0
        while True:
            async with self._changed:
                while index >= len(self._chunks) and not self._complete:
                    await self._changed.wait()
                if index >= len(self._chunks):
                    break
                chunk = self._chunks[index]
                if not self._replayable:
                    self._chunks[index] = None
                index += 1
                self._read = max(self._read, index)
                self._changed.notify_all()
            assert chunk is not None, "a recording that is not replayable was read twice"  # noqa: S101
            yield chunk
        if self._failure is not None:
            raise self._failure
