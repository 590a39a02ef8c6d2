"""Every limit and time-out of the sessions, with its default and the reason for it. Times in seconds."""

import random
from dataclasses import dataclass

from voice_client.errors import BadInputError

SECONDS_PER_TOKEN = 0.08
"""Audio that one token of Voxtral Realtime stands for."""

LARGEST_CHUNK = 1024 * 1024
"""Bytes: half a minute of audio. As base64 it stays far below the 16 MiB that vLLM takes in one message."""


@dataclass(frozen=True, slots=True)
class Retry:
    """How a session comes back after a loss that a new stream can cure; `retry=None` turns this off."""

    attempts: int = 5
    """New streams for one utterance or sentence before the error is given to the caller. Five waits bridge
    four to eight seconds, besides what opening takes: a passing fault is over, and a
    caller still patient."""
    first_wait: float = 0.25
    longest_wait: float = 4.0

    def wait(self, attempt: int) -> float:
        """Return the pause before attempt 1, 2, ...: doubled each time, half of it random.

        Without the random half, all clients of an endpoint that restarts would come back in the same instant.
        """
        whole = min(self.longest_wait, self.first_wait * 2.0 ** (attempt - 1))
        return whole / 2 + random.random() * whole / 2  # noqa: S311 - no secret


@dataclass(frozen=True, slots=True)
class Turns:
    """How speech is told from the pauses between turns."""

    pause: float = 0.7
    """A pause of this length ends a turn. Shorter ones lie between the words of a sentence; the model itself holds
    words back for 0.48 s, so that they are out when the turn is ended."""
    lead: float = 0.3
    """What is sent from before the first loud sound: soft first consonants are no louder than a room."""


@dataclass(frozen=True, slots=True)
class TranscriberSettings:
    """Limits of speech to text.

    Raises:
        BadInputError: values that cannot be; all of them are named.
    """

    chunk_bytes: int = 4096
    """Audio in one message: 128 ms at 16 kHz, the size of AWS's walkthrough."""
    turns: Turns | None = None
    """Hear each turn as an utterance of its own and leave out the pauses between; None hears all as one utterance."""
    look_for_pause: float = 300.0
    """A segment that is older ends at the next gap between words. Segments bound what is sent again after a loss,
    and what is kept in memory for it (1.9 MB a minute); a gap costs the model nothing but its context."""
    longest_segment: float = 480.0
    """A segment ends after this time, gap or not. The model's length is a limit too, where it is known."""
    model_share: float = 0.9
    """Share of the model's length (80 ms a token) that a segment may take: the rest is for its delay and its text."""
    stream_lifetime: float = 1680.0
    """The platform ends a stream after 30 minutes. No segment goes on after 28, and none begins on a stream that would
    become so old under it."""
    idle_cut: float = 60.0
    """When a source brings nothing for so long, what there is of a segment is sent as a whole: a stream on which
    nothing happens is closed by the container after 300 s."""
    stall_speech: float = 5.0
    """With so much speech sent and no word back, a word is due: the model says the first after about a second."""
    stall: float = 10.0
    """A word that is due may take so long; then the segment is sent again on a new stream."""
    paced: bool = True
    """Send a file at the speed at which it was spoken; False sends as fast as backpressure lets it."""
    session_created: float = 15.0
    """From an open stream to `session.created`. The bridge accepts at once but reaches vLLM only after its own
    connect, which a loaded GPU delays by seconds."""
    done_silence: float = 20.0
    """Longest silence of the server between the final commit and `done`. It ends within a second when the engine
    keeps up, and deltas go on arriving while it works off a backlog."""
    done_slack: float = 60.0
    """`done` must come within this time plus the length of the audio after the final commit, deltas or not: a server
    that needs longer than the audio lasts cannot serve real time."""
    cause: float = 1.0
    """When sending fails, wait so long for the reason to arrive on the receiving side."""
    backlog: float = 4.0
    """Audio read ahead of what could be sent; then the source waits, so memory stays bounded. A live source cannot
    wait: of it, everything is kept."""

    def __post_init__(self) -> None:
        problems = []
        if self.chunk_bytes < 2 or self.chunk_bytes % 2 or self.chunk_bytes > LARGEST_CHUNK:
            problems.append(
                f"a chunk of {self.chunk_bytes} bytes is not a whole number of samples up to {LARGEST_CHUNK}"
            )
        problems += [
            f"{name} must be more than 0"
            for name in ("look_for_pause", "longest_segment", "stream_lifetime", "idle_cut", "stall", "backlog")
            if not getattr(self, name) > 0
        ]
        if self.turns is not None and not (0.1 <= self.turns.pause <= 10 and 0 <= self.turns.lead <= 2):
            problems.append("a pause between turns is 0.1 to 10 s long, and the lead of a turn 0 to 2 s")
        if problems:
            raise BadInputError("; ".join(problems))

    def longest(self, max_model_len: int | None) -> float:
        """Return how long a segment may be, in seconds, for a model of so many tokens (None: not known)."""
        if max_model_len is None:
            return self.longest_segment
        return min(self.longest_segment, self.model_share * max_model_len * SECONDS_PER_TOKEN)


@dataclass(frozen=True, slots=True)
class SynthesizerSettings:
    """Limits of text to speech.

    Raises:
        BadInputError: values that cannot be; all of them are named.
    """

    first_audio: float = 30.0
    """From the text of a sentence (when it is its turn) to its first byte. A loaded GPU answers within seconds."""
    next_audio: float = 20.0
    """Longest silence inside a sentence. The model makes a frame every 80 ms of speech."""
    sentences_ahead: int = 1
    """Sentences sent while an earlier one is spoken. The server queues them; one is enough to hide the way there."""
    longest_sentence: int = 500
    """Characters; a longer sentence is cut at a comma or a space. 500 characters are about 40 s of speech, and the
    model stops at 4096 tokens (about 340 s), losing the rest."""
    longest_text: int = 200_000
    """Characters of one `speak`, about four hours of speech: more is a wrong file rather than a text."""
    held_bytes: int = 30 * 48_000
    """Audio that waits for the listener (30 s, 1.4 MB); then the model waits. A model speaks several times faster than
    real time, and a player takes it in real time."""
    runaway_seconds: float = 4.0
    """Speech that goes on for longer than its text can take is stopped and asked for once more. So much is allowed to
    any text, for pauses and breath..."""
    runaway_factor: float = 3.0
    """... and so many times what the text takes when it is spoken slowly. Babble goes on for minutes."""
    config_answer: float = 5.0
    """An error within so many seconds of the configuration is about the configuration; a later one that comes before
    any audio is the idle time-out of a stream that waited."""
    error_end: float = 2.0
    """After an error about a sentence the server says within so many seconds that the sentence is over; after an idle
    time-out it says nothing more."""
    keep_alive: float = 20.0
    """How often an idle stream is touched when a spare stream is wanted; the server ends it after 30 s."""
    stream_lifetime: float = 1500.0
    """The platform ends a stream after 30 minutes. No sentence begins on a stream older than 25: a sentence of 500
    characters is spoken within a minute, or is taken for babble within three."""

    def __post_init__(self) -> None:
        problems = [
            f"{name} must be more than 0"
            for name in self.__slots__
            if name not in {"sentences_ahead", "config_answer"} and not getattr(self, name) > 0
        ]
        if self.sentences_ahead < 0:
            problems.append("sentences_ahead must not be less than 0")
        if problems:
            raise BadInputError("; ".join(problems))
