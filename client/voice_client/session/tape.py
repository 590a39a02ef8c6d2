"""The audio of one source on its way: filled at the speed of the source, read by each attempt to send it."""

import asyncio
from collections import deque

from voice_client.audio.pacing import Pacer
from voice_client.audio.source import PcmReader
from voice_client.session.segments import Segment, SegmentPlan
from voice_client.session.spool import Spool


class Tape:
    """Audio by its offset in the source, kept only as long as it may have to be sent.

    Args:
        plan: cuts the audio into segments as it comes.
        replayable: keep a segment until it is released; otherwise audio is forgotten as it is read.
        backlog_bytes: audio that may wait to be read for the first time; then the source waits. None: the source
            never waits (a microphone would lose sound).
    """

    def __init__(self, plan: SegmentPlan, *, replayable: bool, backlog_bytes: int | None) -> None:
        self._plan = plan
        self._replayable = replayable
        self._backlog = backlog_bytes
        self._spool = Spool()
        self._segments: deque[Segment] = deque()
        """Begun and not yet released, in order."""
        self._taken = 0
        """How many of them have been given out."""
        self._read = 0
        self._complete = False
        self._failure: Exception | None = None
        self._changed = asyncio.Condition()

    @property
    def total_bytes(self) -> int:
        """Length of the audio so far."""
        return self._spool.end

    @property
    def held_bytes(self) -> int:
        """Audio in memory."""
        return len(self._spool)

    async def fill(self, reader: PcmReader, pacer: Pacer | None) -> None:
        """Take everything from a source; its failure is raised where the audio is read."""
        try:
            async for chunk in reader:
                if pacer is not None:
                    await pacer.wait_for(chunk)
                async with self._changed:
                    await self._changed.wait_for(self._has_room)
                    self._spool.add(chunk)
                    self._segments.extend(self._plan.feed(chunk))
                    self._forget()
                    self._changed.notify_all()
        except Exception as failure:  # noqa: BLE001 - raised again where the audio is read
            self._failure = failure
        async with self._changed:
            if self._failure is None:
                self._segments.extend(self._plan.finish())
            self._complete = True
            self._changed.notify_all()

    async def next_segment(self) -> Segment | None:
        """Return the next segment as soon as it has begun, None after the last.

        Raises:
            Exception: what the source raised.
        """
        async with self._changed:
            await self._changed.wait_for(lambda: self._taken < len(self._segments) or self._complete)
            if self._taken < len(self._segments):
                self._taken += 1
                return self._segments[self._taken - 1]
        if self._failure is not None:
            raise self._failure
        return None

    async def read(self, segment: Segment, offset: int, size: int) -> bytes:
        """Return `size` bytes of a segment from an offset of the audio; fewer at its end, none behind it.

        Raises:
            Exception: what the source raised, after all that came before.
        """
        async with self._changed:
            await self._changed.wait_for(
                lambda: segment.end is not None or self._complete or self.total_bytes >= offset + size
            )
            stop = offset + size if segment.end is None else min(offset + size, segment.end)
            stop = min(stop, self.total_bytes)
            if stop == offset and segment.end is None and self._failure is not None:
                raise self._failure
            data = self._spool.read(offset, stop)
            self._read = max(self._read, stop)
            if not self._replayable:
                self._forget()
            self._changed.notify_all()
            return data

    async def cut(self, segment: Segment) -> None:
        """End a segment with what there is of it; a segment that has its end keeps it."""
        async with self._changed:
            if segment.end is None:
                self._plan.cut()
            self._changed.notify_all()

    async def release(self, segment: Segment) -> None:
        """Forget a segment: it has been heard."""
        async with self._changed:
            self._segments.remove(segment)
            self._taken -= 1
            self._forget()
            self._changed.notify_all()

    def _has_room(self) -> bool:
        return self._backlog is None or self.total_bytes - max(self._read, self._needed()) < self._backlog

    def _needed(self) -> int:
        """Offset of the first byte that is or may become part of a segment."""
        return self._segments[0].start if self._segments else self._plan.needed_from

    def _forget(self) -> None:
        needed = self._needed()
        if not self._replayable:
            needed = max(needed, self._read)
        self._spool.forget(needed)
