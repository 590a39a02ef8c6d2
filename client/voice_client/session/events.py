"""What the sessions tell their callers. Spoken words are hidden from `repr`, so that a logged event leaks none."""

from dataclasses import dataclass, field
from typing import Literal

from voice_client.protocol.realtime import Usage
from voice_client.session.metrics import HearingMetrics


@dataclass(frozen=True, slots=True)
class SessionStarted:
    """A stream to the model is open; comes again after a reconnect."""

    session_id: str
    connect_ms: float
    """From the call to the model's `session.created`, in milliseconds."""


@dataclass(frozen=True, slots=True)
class Partial:
    """More words were heard."""

    utterance: int
    text: str = field(repr=False)
    """All of the utterance so far."""
    delta: str = field(repr=False)
    """What this event adds; the whole text when a replay heard the beginning differently."""
    at: float
    """Seconds since the utterance's first chunk was sent."""


@dataclass(frozen=True, slots=True)
class Final:
    """An utterance is complete."""

    utterance: int
    text: str = field(repr=False)
    usage: Usage | None
    metrics: HearingMetrics
    at: float
    """Seconds since the utterance's first chunk was sent."""
    start: float = 0.0
    """Where the utterance begins in the audio, in seconds; a whole number of samples."""
    end: float = 0.0
    """Where it ends. Between the end of one and the start of the next lies a pause that was not sent."""


@dataclass(frozen=True, slots=True)
class Notice:
    """Something the caller may want to know that ends nothing."""

    kind: Literal["reconnecting", "runaway"]
    """`reconnecting`: the stream was lost and is opened anew. `runaway`: the voice went on long after its text must
    have been over, and was stopped."""
    message: str


type TranscriptEvent = SessionStarted | Partial | Final | Notice


@dataclass(frozen=True, slots=True)
class SpeechChunk:
    """Audio as it arrives."""

    utterance: int
    """Counts the calls of `speak` and `open_speech` on this synthesizer from 0."""
    sentence: int
    """Index of the sentence within the utterance, from 0."""
    pcm: bytes = field(repr=False)
    """PCM16 little-endian, mono, 24 kHz; whole samples."""


@dataclass(frozen=True, slots=True)
class Restarted:
    """A sentence is spoken again from its start, because its audio broke off; its chunks so far are void.

    A player drops what it still holds of the sentence, a file what was written of it. Code that looks at `pcm` only
    works too: a listener then hears the beginning of the sentence twice.
    """

    utterance: int
    sentence: int

    @property
    def pcm(self) -> bytes:
        """No audio."""
        return b""


type SpeechEvent = SpeechChunk | Restarted
