"""What hearing cost in time. Milliseconds for what a user waits for, seconds for lengths of audio."""

from dataclasses import dataclass

from voice_client.audio.pcm import first_audible_sample
from voice_client.protocol import realtime


@dataclass(frozen=True, slots=True)
class HearingMetrics:
    """Measures of one utterance heard."""

    connect_ms: float
    """From opening the stream to the model's `session.created`."""
    first_partial_ms: float | None
    """From the chunk with the first audible sample being sent to the first delta that is not empty."""
    finalization_ms: float
    """From the end of the speech (final commit) to the final text."""
    rtf: float
    """Real-time factor: first chunk to final text, divided by the audio's length. About 1 when paced."""
    audio_seconds: float
    retries: int


class HearingClock:
    """Notes the moments of one utterance and works out its measures. Times are seconds of one monotonic clock."""

    def __init__(self) -> None:
        self.first_sent: float | None = None
        self._first_audible: float | None = None
        self._first_words: float | None = None
        self._final_commit: float | None = None
        self.retries = 0

    def sent(self, pcm: bytes, now: float) -> None:
        """Note a chunk that was sent; a replayed one changes nothing."""
        if self.first_sent is None:
            self.first_sent = now
        if self._first_audible is None and first_audible_sample(pcm) is not None:
            self._first_audible = now

    def words(self, now: float) -> None:
        """Note a delta that is not empty."""
        if self._first_words is None:
            self._first_words = now

    def final_commit(self, now: float) -> None:
        """Note the end of the audio; the last one counts."""
        self._final_commit = now

    def since_start(self, now: float) -> float:
        """Return seconds since the first chunk."""
        return 0.0 if self.first_sent is None else now - self.first_sent

    def result(self, *, connect_ms: float, audio_bytes: int, now: float) -> HearingMetrics:
        """Return the measures of an utterance that is complete now."""
        seconds = audio_bytes / realtime.BYTES_PER_SECOND
        partial = (
            (self._first_words - self._first_audible) * 1000
            if self._first_words is not None and self._first_audible is not None
            else None
        )
        return HearingMetrics(
            connect_ms=connect_ms,
            first_partial_ms=partial,
            finalization_ms=(now - (now if self._final_commit is None else self._final_commit)) * 1000,
            rtf=self.since_start(now) / seconds if seconds else 0.0,
            audio_seconds=seconds,
            retries=self.retries,
        )
