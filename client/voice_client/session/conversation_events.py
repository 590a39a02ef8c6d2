"""What a conversation tells its caller. Spoken words are hidden from `repr`, so that a logged event leaks none.

Besides these come `Partial` (words of the turn under way), `SpeechChunk` (audio to play) and `Restarted` (audio to
drop), as the ear and the voice give them; their `utterance` counts the ear's or the voice's utterances.
"""

from dataclasses import dataclass, field
from typing import Literal

from voice_client.errors import VoiceError
from voice_client.session.conversation_metrics import TurnMetrics
from voice_client.session.events import Notice, Partial, Restarted, SpeechChunk


@dataclass(frozen=True, slots=True)
class UserStartedSpeaking:
    """Somebody speaks: long and loud enough to be meant."""


@dataclass(frozen=True, slots=True)
class UserTurn:
    """A user's turn is complete; a reply is being made."""

    turn: int
    """Counts the turns of the conversation from 0."""
    text: str = field(repr=False)
    start: float
    """Where the turn begins in the audio, in seconds."""
    end: float


@dataclass(frozen=True, slots=True)
class ReplyText:
    """More words of the reply, as the plug gives them; they are on their way to the voice."""

    turn: int
    delta: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Interrupted:
    """The user speaks over the reply, or went on before it began: a player falls silent and drops what it holds."""

    turn: int
    """The turn whose reply was interrupted."""
    heard: str = field(repr=False)
    """The sentences of the reply that were heard, the one under way included; empty when none had begun."""
    played: float
    """Seconds of the reply's audio that were heard, as far as a clock can tell."""


@dataclass(frozen=True, slots=True)
class Resumed:
    """What interrupted a reply before its first sound held no word: the reply is made again."""

    turn: int


@dataclass(frozen=True, slots=True)
class ReplyDone:
    """The reply has been made and its audio is out (it may still be playing)."""

    turn: int
    text: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class TurnFailed:
    """A turn got no full reply; the conversation goes on."""

    turn: int
    part: Literal["reply", "voice"]
    """What failed: the reply plug, or the text-to-speech endpoint."""
    error: VoiceError


type ConversationEvent = (
    UserStartedSpeaking
    | Partial
    | UserTurn
    | ReplyText
    | SpeechChunk
    | Restarted
    | Interrupted
    | Resumed
    | ReplyDone
    | TurnMetrics
    | TurnFailed
    | Notice
)
