"""What is known of one utterance, over all its segments and all attempts to have them heard."""

from collections.abc import Callable

from voice_client.audio.pacing import Clock
from voice_client.protocol import realtime
from voice_client.protocol.realtime import BYTES_PER_SECOND, Usage
from voice_client.session.events import Final, Partial, TranscriptEvent
from voice_client.session.metrics import HearingClock
from voice_client.session.segments import Segment

type Emit = Callable[[TranscriptEvent], None]
"""Takes an event to the caller; never blocks."""


class Utterance:
    """Text, usage and times of an utterance.

    Args:
        number: counts the utterances of a transcriber.
        emit: takes events to the caller.
        time: the sessions' clock.
        start: offset of its first byte in the audio.
    """

    def __init__(self, number: int, emit: Emit, time: Clock, *, start: int) -> None:
        self.number = number
        self.emit = emit
        self.clock = HearingClock()
        self.shown = ""
        """The text of the last `Partial`."""
        self._heard = ""
        """The text of the segments that are complete."""
        self._usage: Usage | None = None
        self._start = self._end = start
        self._audio_bytes = 0
        self._connect_ms = 0.0
        self._time = time

    def sent(self, pcm: bytes) -> None:
        """Note a chunk that goes up now."""
        self.clock.sent(pcm, self._time.now())

    def all_sent(self) -> None:
        """Note that a segment's final commit goes up now."""
        self.clock.final_commit(self._time.now())

    def words(self, segment_text: str) -> None:
        """Tell the caller what has been heard of the segment under way."""
        now = self._time.now()
        self.clock.words(now)
        text = joined(self._heard, segment_text)
        if len(text) <= len(self.shown):
            return  # a replay hears again what was shown already
        added = text[len(self.shown) :] if text.startswith(self.shown) else text
        self.shown = text
        self.emit(Partial(self.number, text, added, self.clock.since_start(now)))

    def segment_heard(self, segment: Segment, done: realtime.TranscriptionDone, *, connect_ms: float) -> None:
        """Note that a segment is complete."""
        assert segment.end is not None  # noqa: S101 - it was sent to its end
        self._heard = joined(self._heard, done.text)
        self._usage = _sum(self._usage, done.usage)
        self._end = segment.end
        self._audio_bytes += segment.end - segment.start
        self._connect_ms = connect_ms

    def complete(self) -> None:
        """Tell the caller that the utterance is over."""
        now = self._time.now()
        metrics = self.clock.result(connect_ms=self._connect_ms, audio_bytes=self._audio_bytes, now=now)
        self.emit(
            Final(
                self.number,
                self._heard,
                self._usage,
                metrics,
                self.clock.since_start(now),
                start=self._start / BYTES_PER_SECOND,
                end=self._end / BYTES_PER_SECOND,
            )
        )


def joined(before: str, after: str) -> str:
    """Join the texts of two segments: with one space where neither brings one."""
    gap = "" if not before or not after or before[-1].isspace() or after[0].isspace() else " "
    return f"{before}{gap}{after}"


def _sum(one: Usage | None, other: Usage | None) -> Usage | None:
    if one is None or other is None:
        return one or other
    return Usage(
        prompt_tokens=one.prompt_tokens + other.prompt_tokens,
        completion_tokens=one.completion_tokens + other.completion_tokens,
        total_tokens=one.total_tokens + other.total_tokens,
    )
