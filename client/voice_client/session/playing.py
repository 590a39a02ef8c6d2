"""What a listener has heard of the audio handed out so far, reckoned from a clock: a player plays at one speed."""

from voice_client.audio.pacing import Clock
from voice_client.protocol.speech import BYTES_PER_SECOND


class Playing:
    """The audio of one utterance at a listener's player.

    Args:
        clock: the sessions' clock.
        delay: seconds from a chunk's arrival to its sounding, when the player holds nothing.
    """

    def __init__(self, clock: Clock, *, delay: float) -> None:
        self._clock = clock
        self._delay = delay
        self._until = 0.0
        """When the audio handed out so far has been played."""
        self._starts: list[tuple[int, float]] = []
        """Each sentence and when its first sample sounds, in order."""

    @property
    def sounds(self) -> bool:
        """Whether something is to be heard now."""
        return self._clock.now() < self._until

    def add(self, sentence: int, pcm: bytes) -> None:
        """Note a chunk that went out now."""
        start = max(self._until, self._clock.now() + self._delay)
        if not self._starts or self._starts[-1][0] != sentence:
            self._starts.append((sentence, start))
        self._until = start + len(pcm) / BYTES_PER_SECOND

    def restart(self, sentence: int) -> None:
        """Note that a player drops what it holds of a sentence, which comes again."""
        if self._starts and self._starts[-1][0] == sentence:
            _, start = self._starts.pop()
            self._until = min(self._until, max(start, self._clock.now()))

    def begun(self) -> int:
        """Return how many sentences have begun to sound by now."""
        now = self._clock.now()
        return sum(start <= now for _, start in self._starts)

    async def finished(self) -> None:
        """Return when all has been played."""
        while self.sounds:
            await self._clock.sleep(self._until - self._clock.now())
