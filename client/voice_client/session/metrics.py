"""What a conversation cost in time. Milliseconds for what a user waits for, seconds for lengths of audio."""

from dataclasses import dataclass

from voice_client.audio.pcm import first_audible_sample
from voice_client.protocol import realtime, speech


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


@dataclass(frozen=True, slots=True)
class SpeakingMetrics:
    """Measures of one utterance spoken."""

    connect_ms: float
    """From opening the stream to its being open; the stream is opened before the text is known."""
    ttfa_ms: float | None
    """Time to first audio: from sending the text to the first audible sample; silence in front of it is waited for."""
    rtf: float
    """Real-time factor: text to last byte, divided by the audio's length."""
    frames: int
    """Binary messages that carried audio."""
    bytes: int
    """Bytes of PCM."""
    seconds: float
    """Length of the audio."""
    sentences: int
    retries: int


class SpeakingClock:
    """Notes the moments of one utterance and works out its measures. Times are seconds of one monotonic clock."""

    def __init__(self) -> None:
        self._text_sent: float | None = None
        self._audible: float | None = None
        self._last: float | None = None
        self._frames = 0
        self._bytes = 0
        self._sentences = 0
        self.retries = 0

    def text_sent(self, now: float) -> None:
        """Note that text was sent; the first counts."""
        if self._text_sent is None:
            self._text_sent = now

    def frame(self, pcm: bytes, now: float) -> None:
        """Note a frame of audio."""
        if self._audible is None and (sample := first_audible_sample(pcm)) is not None:
            # A player starts with the first frame, so the silence inside this frame is waited for as well.
            self._audible = now + sample / speech.SAMPLE_RATE_HZ
        self._frames += 1
        self._bytes += len(pcm)
        self._last = now

    def sentence(self) -> None:
        """Note a sentence that was spoken to its end."""
        self._sentences += 1

    def result(self, *, connect_ms: float) -> SpeakingMetrics:
        """Return the measures so far."""
        seconds = self._bytes / speech.BYTES_PER_SECOND
        begin = self._text_sent
        return SpeakingMetrics(
            connect_ms=connect_ms,
            ttfa_ms=(self._audible - begin) * 1000 if self._audible is not None and begin is not None else None,
            rtf=(self._last - begin) / seconds if self._last is not None and begin is not None and seconds else 0.0,
            frames=self._frames,
            bytes=self._bytes,
            seconds=seconds,
            sentences=self._sentences,
            retries=self.retries,
        )
