"""Decides, from the audio alone, which stretches of it are heard as one piece, and which pauses are not sent at all.

Pure: no clock and no I/O, so that the same audio is cut at the same samples however often its stream breaks.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from voice_client.audio.speech_activity import SpeechActivity
from voice_client.protocol import realtime
from voice_client.session.settings import Turns

_SAMPLE_BYTES = 2


@dataclass(eq=False, slots=True)
class Segment:
    """A stretch of audio between a commit that starts a generation and the final commit that ends it."""

    start: int
    """Offset of its first byte in the audio."""
    end: int | None = None
    """Offset behind its last byte; None while it goes on."""
    speech: bytearray = field(default_factory=bytearray, repr=False)
    """For each frame from `start` on, whether somebody speaks in it (1 or 0)."""
    frame_bytes: int = 640
    """Bytes of one frame."""

    @property
    def frame_seconds(self) -> float:
        """Length of one frame."""
        return self.frame_bytes / realtime.BYTES_PER_SECOND

    def speech_frames(self, start: int, end: int) -> int:
        """Count the frames with speech between two offsets of the audio."""
        first, last = (max(0, offset - self.start) // self.frame_bytes for offset in (start, end))
        return self.speech.count(1, first, last)


class SegmentPlan:
    """Cuts audio into segments as it comes.

    Without `turns` everything is sent: a segment ends where the next one begins, at the first pause after
    `look_for_pause` seconds, and after `longest` seconds in any case. With `turns` a segment begins a little before
    somebody speaks and ends when a pause has lasted long enough; pauses between segments are left out.

    Args:
        turns: how turns are told apart; None for one long utterance.
        look_for_pause: seconds of a segment after which any short pause ends it.
        longest: seconds after which a segment ends, pause or not.
    """

    short_pause = 0.3
    """Seconds of quiet that are gap enough between two words to cut a long segment there."""

    def __init__(self, *, turns: Turns | None, look_for_pause: float, longest: float) -> None:
        self._turns = turns
        self._look_for_pause = self._bytes(look_for_pause)
        self._longest = self._bytes(longest)
        self._activity = SpeechActivity(realtime.SAMPLE_RATE_HZ)
        self._frame_bytes = self._activity.frame_samples * _SAMPLE_BYTES
        self._open: Segment | None = None
        self._cut = 0
        """Where the last segment ended."""
        self._total = 0
        self._quiet = 0
        """Bytes since somebody last spoke."""
        self._lead: bytearray = bytearray()
        """Verdicts on the frames before a turn, of which its beginning is made."""

    @property
    def needed_from(self) -> int:
        """Offset from which on audio may still become part of a segment that has not begun."""
        if self._turns is None:
            return self._cut
        return max(self._cut, self._total - self._bytes(self._turns.lead) - 4 * self._frame_bytes)

    def feed(self, pcm: bytes) -> Iterator[Segment]:
        """Take the next samples; yields each segment that begins in them. One that ends has its `end` set."""
        if self._turns is None and self._open is None and pcm:
            yield self._begin(self._cut)
        self._total += len(pcm)
        for frame in self._activity.feed(pcm):
            end = frame.end * _SAMPLE_BYTES
            self._quiet = 0 if frame.speech else self._quiet + self._frame_bytes
            if self._open is None:
                begun = self._between(end, speech=frame.speech)
                if begun is not None:
                    yield begun
            else:
                self._open.speech.append(frame.speech)
                if self._ends(self._open, end):
                    self._end(end)

    def finish(self) -> Iterator[Segment]:
        """The audio is over: what is open ends with its last sample; yields a last segment when one is left to send."""
        if self._open is None and self._turns is None and self._total > self._cut:
            yield self._begin(self._cut)
        if self._open is not None:
            self._end(self._total)

    def cut(self) -> None:
        """End the open segment with the last sample so far; the next sample begins another."""
        if self._open is not None:
            self._activity.skip_rest()
            self._end(self._total)

    def _between(self, end: int, *, speech: bool) -> Segment | None:
        """Judge a frame outside of all segments."""
        turns = self._turns
        if turns is None:
            begun = self._begin(self._cut)
            begun.speech.append(speech)
            return begun
        self._lead.append(speech)
        if not speech:
            del self._lead[: -self._frames(turns.lead)]
            return None
        start = max(self._cut, end - len(self._lead) * self._frame_bytes)
        begun = self._begin(start)
        begun.speech += self._lead
        self._lead.clear()
        return begun

    def _ends(self, segment: Segment, end: int) -> bool:
        length = end - segment.start
        if length + self._frame_bytes > self._longest:
            return True
        pause = self.short_pause if self._turns is None else self._turns.pause
        if length >= self._look_for_pause:
            pause = min(pause, self.short_pause)
        elif self._turns is None:
            return False
        return self._quiet >= self._bytes(pause)

    def _begin(self, start: int) -> Segment:
        self._open = Segment(start, frame_bytes=self._frame_bytes)
        return self._open

    def _end(self, end: int) -> None:
        assert self._open is not None  # noqa: S101 - called for an open segment only
        self._open.end = self._cut = end
        self._open = None
        self._lead.clear()

    def _frames(self, seconds: float) -> int:
        return max(1, self._bytes(seconds) // self._frame_bytes)

    @staticmethod
    def _bytes(seconds: float) -> int:
        return int(seconds * realtime.SAMPLE_RATE_HZ) * _SAMPLE_BYTES
