"""How long a user waits for an answer, part by part."""

from dataclasses import dataclass

from voice_client.audio.pcm import first_audible_sample
from voice_client.protocol.speech import BYTES_PER_SECOND, SAMPLE_RATE_HZ


@dataclass(frozen=True, slots=True)
class TurnMetrics:
    """The waits of one turn: end of speech, then final text, then first token, then first sound.

    Each part begins where the one before ends, in milliseconds; None for what did not happen (an interruption, a
    failure). The first part contains the pause that ends a turn (`Turns.pause`).
    """

    turn: int
    final_text_ms: float
    """From the last sound of speech, as it came from the source, to the final text."""
    first_token_ms: float | None
    """From the final text to the first words of the reply."""
    first_sound_ms: float | None
    """From the first words of the reply to its first audible sample; silence in front of it is waited for."""
    total_ms: float | None
    """From the last sound of the user's speech to the first audible sample of the answer."""
    interrupted: bool
    """Whether the reply was interrupted before its first sound."""


class TurnClock:
    """Notes the moments of one turn. Times are seconds of one monotonic clock.

    Args:
        turn: counts the turns of the conversation.
        speech_end: when the last speech of the turn came in.
        final_text: when the turn's text was complete.
    """

    def __init__(self, turn: int, *, speech_end: float, final_text: float) -> None:
        self._turn = turn
        self._speech_end = speech_end
        self._final_text = final_text
        self._first_token: float | None = None
        self._first_sound: float | None = None
        self._played_until = 0.0
        """When a player that begins at once has played what came until now."""

    def token(self, now: float) -> None:
        """Note words of the reply; the first count."""
        if self._first_token is None:
            self._first_token = now

    def audio(self, pcm: bytes, now: float) -> bool:
        """Note audio of the reply; returns whether it holds the first audible sample."""
        if self._first_sound is not None:
            return False
        starts = max(now, self._played_until)  # silence that came faster than it is played is waited for all the same
        self._played_until = starts + len(pcm) / BYTES_PER_SECOND
        if (sample := first_audible_sample(pcm)) is None:
            return False
        self._first_sound = starts + sample / SAMPLE_RATE_HZ
        return True

    def result(self, *, interrupted: bool = False) -> TurnMetrics:
        """Return the measures so far."""
        token, sound = self._first_token, self._first_sound
        return TurnMetrics(
            turn=self._turn,
            final_text_ms=(self._final_text - self._speech_end) * 1000,
            first_token_ms=(token - self._final_text) * 1000 if token is not None else None,
            first_sound_ms=(sound - token) * 1000 if sound is not None and token is not None else None,
            total_ms=(sound - self._speech_end) * 1000 if sound is not None else None,
            interrupted=interrupted,
        )
