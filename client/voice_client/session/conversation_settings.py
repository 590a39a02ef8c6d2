"""Settings of a conversation, each with its default and the reason for it. Times in seconds."""

from dataclasses import dataclass

from voice_client.errors import BadInputError
from voice_client.session.settings import TranscriberSettings, Turns


@dataclass(frozen=True, slots=True)
class BargeIn:
    """When what a user says while the voice speaks is an interruption.

    A microphone near a loudspeaker hears the voice itself. A browser takes that echo out; a terminal does not, so
    there a headset, a longer `minimum_speech`, a higher `minimum_level` or no barge-in at all is wanted.
    """

    minimum_speech: float = 0.12
    """So much speech in one go interrupts. Shorter is a cough or a click; each 0.1 s more is heard as a voice that
    does not listen. With the way through microphone and player it leaves the voice silent within 0.2 s."""
    minimum_level: float = -45.0
    """dBFS (RMS of 20 ms). What is softer does not interrupt: an echo that a canceller left over is below."""
    longest_gap: float = 0.1
    """A gap of this length inside a word (before a plosive) does not start the count anew."""


@dataclass(frozen=True, slots=True)
class ConversationSettings:
    """How turns are taken, and limits of a reply.

    Raises:
        BadInputError: values that cannot be; all of them are named.
    """

    turns: Turns = Turns()  # noqa: RUF009 - frozen
    """How the end of a user's turn is told."""
    barge_in: BargeIn | None = BargeIn()
    """None: the voice cannot be interrupted. What a microphone hears meanwhile is left out, and a file waits."""
    chunk_bytes: int = 2560
    """Audio in one message to the speech-to-text model: 80 ms, one token of Voxtral Realtime. Smaller than in a plain
    transcription, because here each chunk's length is part of the wait for an answer."""
    first_token: float = 30.0
    """From a user's turn to the first word of the reply. A loaded language model answers within seconds."""
    next_token: float = 20.0
    """Longest silence of a reply plug inside a reply."""
    longest_reply: int = 20_000
    """Characters of one reply, 25 minutes of speech; a plug that does not stop is stopped there, with a notice."""
    history: int = 20
    """Exchanges that a reply plug is shown, the newest: what fits into a small language model's context."""
    playback_delay: float = 0.05
    """From an audio chunk's arrival to its sounding: the buffer of a player. Tells whether the voice is sounding."""

    def __post_init__(self) -> None:
        problems = [
            f"{name} must be more than 0"
            for name in ("first_token", "next_token", "longest_reply")
            if not getattr(self, name) > 0
        ]
        if self.history < 0:
            problems.append("history cannot be negative")
        if self.barge_in is not None:
            if not 0.04 <= self.barge_in.minimum_speech <= 5:
                problems.append("the minimum speech of an interruption is 0.04 to 5 s")
            if not -90 <= self.barge_in.minimum_level <= 0:
                problems.append("the minimum level of an interruption is -90 to 0 dBFS")
        try:
            self.hearing()
        except BadInputError as error:
            problems.append(error.message)
        if problems:
            raise BadInputError("; ".join(problems))

    def hearing(self) -> TranscriberSettings:
        """Return the settings of the `Transcriber` that listens."""
        return TranscriberSettings(turns=self.turns, chunk_bytes=self.chunk_bytes)
