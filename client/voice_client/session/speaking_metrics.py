"""What speaking cost in time. Milliseconds for what a user waits for, seconds for lengths of audio."""

from dataclasses import dataclass

from voice_client.audio.pcm import first_audible_sample
from voice_client.protocol import speech


@dataclass(frozen=True, slots=True)
class SentenceMetrics:
    """Measures of one sentence. Its turn comes when it was asked for and the sentence before it is over."""

    first_byte_ms: float | None
    """From its turn to its first audio."""
    ttfa_ms: float | None
    """From its turn to its first audible sample; silence in front of it is waited for."""
    leading_silence_ms: float | None
    """Silence in front of its first audible sample; None when all of it is silence."""
    rtf: float
    """Real-time factor: its turn to its last byte, divided by the audio's length."""
    chunks: int
    """Binary messages that carried audio."""
    bytes: int
    """Bytes of PCM."""
    seconds: float
    """Length of the audio."""
    retries: int
    """How often it was asked for again."""


@dataclass(frozen=True, slots=True)
class SpeakingMetrics:
    """Measures of one utterance spoken. Audio that was void after a restart is counted nowhere."""

    connect_ms: float
    """From opening the stream to its being configured; it is opened before the text is known."""
    first_byte_ms: float | None
    """From asking for the first sentence to its first audio."""
    ttfa_ms: float | None
    """Time to first audio: from asking for the first sentence to the first audible sample of the utterance; silence in
    front of it is waited for."""
    leading_silence_ms: float | None
    """Silence in front of the first audible sample."""
    rtf: float
    """Real-time factor: first sentence asked for to last byte, divided by the audio's length."""
    underruns: int
    """How often a player that starts with the first chunk would have run dry before the next one came. A gap in
    which no text was there to be spoken is not counted."""
    underrun_ms: float
    """How long those gaps were together."""
    chunks: int
    """Binary messages that carried audio."""
    bytes: int
    """Bytes of PCM."""
    seconds: float
    """Length of the audio."""
    retries: int
    """New streams opened, and sentences asked for again because they ran away."""
    sentences: tuple[SentenceMetrics, ...]
    """Of the sentences that gave audio, in order."""


class SentenceClock:
    """Notes the moments of one sentence. Times are seconds of one monotonic clock."""

    def __init__(self, turn: float, retries: int) -> None:
        self.turn = turn
        self.retries = retries
        self.first: float | None = None
        self.last = turn
        self.chunks = 0
        self.bytes = 0
        self.silence: float | None = None
        """Seconds in front of the first audible sample."""
        self.audible: float | None = None
        self.arrivals: list[tuple[float, int]] = []
        """When how many bytes came."""
        self._played_until = turn
        """When a player that starts with the first chunk has played what came so far."""

    def chunk(self, pcm: bytes, now: float) -> None:
        """Note a chunk of audio."""
        if self.audible is None and (sample := first_audible_sample(pcm)) is not None:
            # A player starts with the first chunk: the silence of the chunks before is played out first, however fast
            # they came, and the silence inside this one is waited for as well.
            self.audible = max(now, self._played_until) + sample / speech.SAMPLE_RATE_HZ
            self.silence = self.bytes / speech.BYTES_PER_SECOND + sample / speech.SAMPLE_RATE_HZ
        if self.first is None:
            self.first = now
        self.arrivals.append((now, len(pcm)))
        self.chunks += 1
        self.bytes += len(pcm)
        self.last = now
        self._played_until = max(now, self._played_until) + len(pcm) / speech.BYTES_PER_SECOND

    def result(self) -> SentenceMetrics:
        """Return the measures so far."""
        seconds = self.bytes / speech.BYTES_PER_SECOND
        return SentenceMetrics(
            first_byte_ms=_ms(self.turn, self.first),
            ttfa_ms=_ms(self.turn, self.audible),
            leading_silence_ms=self.silence * 1000 if self.silence is not None else None,
            rtf=(self.last - self.turn) / seconds if seconds else 0.0,
            chunks=self.chunks,
            bytes=self.bytes,
            seconds=seconds,
            retries=self.retries,
        )


class SpeakingClock:
    """Notes the moments of one utterance and works out its measures. Times are seconds of one monotonic clock."""

    def __init__(self) -> None:
        self.connect_ms = 0.0
        self.retries = 0
        self._asked: float | None = None
        self._spoken: list[SentenceClock] = []
        self._current: SentenceClock | None = None
        self._again = 0

    def asked(self, now: float) -> None:
        """Note that a sentence was asked for; the first one counts."""
        if self._asked is None:
            self._asked = now

    def turn(self, now: float) -> None:
        """Note that the next sentence's turn has come."""
        self._current = SentenceClock(now, self._again)

    def chunk(self, pcm: bytes, now: float) -> None:
        """Note a chunk of the sentence whose turn it is."""
        assert self._current is not None, "audio before its sentence's turn"  # noqa: S101
        self._current.chunk(pcm, now)

    def over(self) -> None:
        """Note that the sentence whose turn it was is complete."""
        if self._current is not None:
            self._spoken.append(self._current)
        self._current, self._again = None, 0

    def again(self) -> None:
        """Note that the sentence whose turn it is will be asked for again; what it gave is void."""
        self.retries += 1
        self._again += 1
        self._current = None

    def result(self) -> SpeakingMetrics:
        """Return the measures so far."""
        begun = [*self._spoken, self._current] if self._current is not None else self._spoken
        spoken = [sentence for sentence in begun if sentence.chunks]
        size = sum(sentence.bytes for sentence in spoken)
        seconds = size / speech.BYTES_PER_SECOND
        first = spoken[0].first if spoken else None
        audible = next((sentence.audible for sentence in spoken if sentence.audible is not None), None)
        underruns, dry = _underruns(spoken)
        return SpeakingMetrics(
            connect_ms=self.connect_ms,
            first_byte_ms=_ms(self._asked, first),
            ttfa_ms=_ms(self._asked, audible),
            leading_silence_ms=_leading_silence(spoken),
            rtf=(spoken[-1].last - self._asked) / seconds if seconds and self._asked is not None else 0.0,
            underruns=underruns,
            underrun_ms=dry * 1000,
            chunks=sum(sentence.chunks for sentence in spoken),
            bytes=size,
            seconds=seconds,
            retries=self.retries,
            sentences=tuple(sentence.result() for sentence in spoken),
        )


def _ms(begin: float | None, end: float | None) -> float | None:
    return (end - begin) * 1000 if begin is not None and end is not None else None


def _leading_silence(spoken: list[SentenceClock]) -> float | None:
    silent = 0.0
    for sentence in spoken:
        if sentence.silence is not None:
            return (silent + sentence.silence) * 1000
        silent += sentence.bytes / speech.BYTES_PER_SECOND
    return None


def _underruns(spoken: list[SentenceClock]) -> tuple[int, float]:
    """Return how often and how long (in seconds) a player would have had nothing to play."""
    count, dry, played_out = 0, 0.0, None
    for sentence in spoken:
        for number, (at, size) in enumerate(sentence.arrivals):
            seconds = size / speech.BYTES_PER_SECOND
            # The first chunk of a sentence that was asked for after the player ran dry is late because of its text.
            text_was_late = number == 0 and played_out is not None and sentence.turn > played_out
            if played_out is not None and at > played_out and not text_was_late:
                count += 1
                dry += at - played_out
            played_out = max(at, played_out or at) + seconds
    return count, dry
