"""Every limit and time-out of the sessions, with its default and the reason for it. Times in seconds."""

import random
from dataclasses import dataclass


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
class TranscriberSettings:
    """Limits of speech to text."""

    chunk_bytes: int = 4096
    """Audio in one message: 128 ms at 16 kHz, the size of AWS's walkthrough."""
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
    backlog_chunks: int = 32
    """Chunks read ahead of what could be sent (4 s); then the source waits, so memory stays bounded."""


@dataclass(frozen=True, slots=True)
class SynthesizerSettings:
    """Limits of text to speech."""

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
