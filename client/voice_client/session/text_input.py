"""Text that grows, and its sentences as soon as they are wanted."""

import asyncio
from collections import deque

from voice_client.errors import BadInputError, ProtocolError
from voice_client.session.sentences import SentenceSplitter

SLICE = 3000
"""Characters that are cut into sentences at once: a page, and less than 10 ms of work. The rest of a longer text waits
until its sentences are wanted, so that the first one goes out at once and the event loop is never held up."""


class TextInput:
    """What is to be spoken; pushed by one task, read as sentences by another of the same event loop.

    Args:
        splitter: finds the sentences.
        longest: characters that are taken at most.
    """

    def __init__(self, splitter: SentenceSplitter, *, longest: int) -> None:
        self._splitter = splitter
        self._longest = longest
        self._length = 0
        self._waiting: deque[str | None] = deque()
        """What is not cut into sentences yet, in slices; None is a flush."""
        self._changed = asyncio.Event()
        self.sentences: list[str] = []
        """Known so far, in order."""
        self.ended = False
        """Whether no text will follow."""

    @property
    def complete(self) -> bool:
        """Whether all sentences are known."""
        return self.ended and not self._waiting

    def push(self, text: str) -> None:
        """Add text; a sentence is known when the one after it has begun.

        Raises:
            BadInputError: more text than is spoken at once; nothing of this push is taken.
            ProtocolError: the text was ended.
        """
        if self.ended:
            raise ProtocolError("text was pushed after its end; open another speech for it")
        if self._length + len(text) > self._longest:
            raise BadInputError(
                f"the text has more than {self._longest} characters, which are spoken at once at most",
                advice="Speak it in parts",
            )
        self._length += len(text)
        self._take(*(text[start : start + SLICE] for start in range(0, len(text), SLICE)))

    def flush(self) -> None:
        """Say that what was pushed so far is a whole sentence."""
        if not self.ended:
            self._take(None)

    def end(self) -> None:
        """Say that no text follows. Idempotent."""
        self.flush()
        self.ended = True
        self._changed.set()

    def begins(self) -> bool:
        """Return whether there is a sentence in what was pushed; cuts no more of it than that takes."""
        while not self.sentences and self._waiting:
            self._cut_next()
        return bool(self.sentences)

    async def has(self, index: int) -> bool:
        """Return whether there is a sentence of this index, once that is known."""
        while len(self.sentences) <= index:
            if self._waiting:
                self._cut_next()
                await asyncio.sleep(0)
            elif self.ended:
                return False
            else:
                self._changed.clear()
                await self._changed.wait()
        return True

    def _take(self, *pieces: str | None) -> None:
        nothing_waits = not self._waiting
        self._waiting += pieces
        if nothing_waits and pieces:
            self._cut_next()
        self._changed.set()

    def _cut_next(self) -> None:
        text = self._waiting.popleft()
        self.sentences += self._splitter.push(text) if text is not None else self._splitter.flush()
