"""What a listener has heard of the audio handed out so far, reckoned from a clock: a player plays at one speed."""

from dataclasses import dataclass

from voice_client.audio.pacing import Clock
from voice_client.protocol.speech import BYTES_PER_SECOND


@dataclass(slots=True)
class _Piece:
    sentence: int
    start: float
    """When its first sample sounds."""
    seconds: float


class Playing:
    """The audio of one utterance at a listener's player.

    Args:
        clock: the sessions' clock.
        delay: seconds from a chunk's arrival to its sounding, when the player holds nothing.
    """

    def __init__(self, clock: Clock, *, delay: float) -> None:
        self._clock = clock
        self._delay = delay
        self._pieces: list[_Piece] = []

    @property
    def until(self) -> float:
        """When the audio handed out so far has been played, in seconds of the clock."""
        return self._pieces[-1].start + self._pieces[-1].seconds if self._pieces else 0.0

    @property
    def sounds(self) -> bool:
        """Whether something is to be heard now."""
        return self._clock.now() < self.until

    @property
    def played_seconds(self) -> float:
        """How much of the audio has been played by now."""
        now = self._clock.now()
        return sum(min(piece.seconds, max(0.0, now - piece.start)) for piece in self._pieces)

    def add(self, sentence: int, pcm: bytes) -> None:
        """Note a chunk that went out now."""
        start = max(self.until, self._clock.now() + self._delay)
        self._pieces.append(_Piece(sentence, start, len(pcm) / BYTES_PER_SECOND))

    def restart(self, sentence: int) -> None:
        """Note that a player drops what it holds of a sentence, which comes again."""
        self._pieces = [piece for piece in self._pieces if piece.sentence != sentence]

    def begun(self) -> int:
        """Return how many sentences have begun to sound by now."""
        now = self._clock.now()
        return len({piece.sentence for piece in self._pieces if piece.start <= now})

    async def finished(self) -> None:
        """Return when all has been played."""
        while self.sounds:
            await self._clock.sleep(self.until - self._clock.now())
