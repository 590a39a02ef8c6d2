"""The plug: a user's turn in, words out as they are made."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from voice_client.errors import VoiceError


@dataclass(frozen=True, slots=True)
class Exchange:
    """A turn that is over."""

    user: str = field(repr=False)
    reply: str = field(repr=False)
    """What the user heard of the reply: an interrupted one up to the sentence in which it was interrupted."""


class ReplyError(VoiceError):
    """A reply plug failed; `__cause__` is why, where there is a cause. No error quotes what was said."""

    exit_code = 4


class Reply(Protocol):
    """Makes replies."""

    def __call__(self, turn: str, history: Sequence[Exchange], /) -> AsyncIterator[str]:
        """Reply to a turn, in pieces of any length: characters, tokens or sentences.

        The iterator is closed when the reply is interrupted, if it can be (an async generator).

        Args:
            turn: what the user said.
            history: the exchanges before, oldest first.

        Raises:
            VoiceError: while iterating: there is no (further) reply.
        """
        ...
