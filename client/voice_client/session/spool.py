"""Bytes by their offset in a stream: added at the end, forgotten from the front."""

from collections import deque

BLOCK_BYTES = 64 * 1024
"""Two seconds of audio. Blocks of one size are reused by the allocator; one buffer that grows and shrinks with every
segment was seen to leave the process three times as large as what it held."""


class Spool:
    """Holds a window of a stream of bytes, in blocks of one size."""

    def __init__(self) -> None:
        self._blocks: deque[bytearray] = deque()
        self._first_block = 0
        """Offset of the first block that is held."""
        self.start = 0
        """Offset of the first byte that can be read."""
        self.end = 0
        """Offset behind the last byte."""

    def __len__(self) -> int:
        return self.end - self.start

    def add(self, data: bytes) -> None:
        """Append bytes."""
        at = 0
        while at < len(data):
            used = self.end % BLOCK_BYTES
            if not used:
                self._blocks.append(bytearray(BLOCK_BYTES))
            piece = data[at : at + BLOCK_BYTES - used]
            self._blocks[-1][used : used + len(piece)] = piece
            self.end += len(piece)
            at += len(piece)

    def read(self, start: int, stop: int) -> bytes:
        """Return the bytes between two offsets, all of which must be held."""
        if not self.start <= start <= stop <= self.end:
            raise IndexError(f"bytes {start} to {stop} are not among those from {self.start} to {self.end}")
        pieces = []
        while start < stop:
            block, used = divmod(start - self._first_block, BLOCK_BYTES)
            size = min(stop - start, BLOCK_BYTES - used)
            pieces.append(self._blocks[block][used : used + size])
            start += size
        return b"".join(pieces)

    def forget(self, offset: int) -> None:
        """Drop what comes before an offset."""
        self.start = max(self.start, min(offset, self.end))
        while self._blocks and self.start - self._first_block >= BLOCK_BYTES:
            self._blocks.popleft()
            self._first_block += BLOCK_BYTES
