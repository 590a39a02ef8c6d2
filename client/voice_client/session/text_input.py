"""Text that grows, and its sentences as soon as they are known."""

import asyncio

from voice_client.errors import BadInputError, ProtocolError
from voice_client.session.sentences import SentenceSplitter


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
        self._changed = asyncio.Event()
        self.sentences: list[str] = []
        """Known so far, in order."""
        self.ended = False
        """Whether no text will follow."""

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
        self._add(self._splitter.push(text))

    def flush(self) -> None:
        """Say that what was pushed so far is a whole sentence."""
        if not self.ended:
            self._add(self._splitter.flush())

    def end(self) -> None:
        """Say that no text follows. Idempotent."""
        self.flush()
        self.ended = True
        self._changed.set()

    async def has(self, index: int) -> bool:
        """Return whether there is a sentence of this index, once that is known."""
        while len(self.sentences) <= index and not self.ended:
            self._changed.clear()
            await self._changed.wait()
        return len(self.sentences) > index

    def _add(self, sentences: list[str]) -> None:
        if sentences:
            self.sentences += sentences
            self._changed.set()
