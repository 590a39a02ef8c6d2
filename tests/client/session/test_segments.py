"""The cuts lose no sample, send none into two texts, and depend on nothing but the samples."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from voice_client.session.segments import Segment, SegmentPlan
from voice_client.session.settings import Turns

RATE = 16_000
SECOND = 2 * RATE


def loud(seconds: float) -> bytes:
    return np.random.default_rng(3).integers(-9000, 9000, int(seconds * RATE)).astype("<i2").tobytes()


def quiet(seconds: float) -> bytes:
    return bytes(2 * int(seconds * RATE))


def cut(
    pcm: bytes,
    *,
    turns: Turns | None = None,
    look_for_pause: float = 300.0,
    longest: float = 480.0,
    sizes: list[int] | None = None,
) -> list[tuple[int, int]]:
    plan = SegmentPlan(turns=turns, look_for_pause=look_for_pause, longest=longest)
    segments: list[Segment] = []
    at = 0
    for size in [*(sizes or []), *[4096] * (len(pcm) // 4096 + 1)]:
        segments += plan.feed(pcm[at : at + size])
        at += size
    assert at >= len(pcm)
    segments += plan.finish()
    assert all(segment.end is not None for segment in segments)
    return [(segment.start, segment.end or 0) for segment in segments]


class TestOneLongUtterance:
    def test_short_audio_is_one_segment(self) -> None:
        pcm = quiet(1) + loud(3) + quiet(2) + loud(0.001)
        assert cut(pcm) == [(0, len(pcm))]
        assert cut(b"") == []
        assert cut(b"ab") == [(0, 2)]

    def test_it_is_cut_at_the_first_gap_after_it_has_become_long(self) -> None:
        pcm = (loud(1) + quiet(0.5)) * 8
        segments = cut(pcm, look_for_pause=4.0, longest=8.0)
        assert len(segments) == 3
        for start, end in segments[:-1]:
            assert 4.0 <= (end - start) / SECOND <= 6.0
            assert not np.frombuffer(pcm[end - SECOND // 10 : end], "<i2").any()

    def test_without_any_gap_it_is_cut_at_the_latest_moment(self) -> None:
        pcm = loud(10)
        assert [round((end - start) / SECOND, 2) for start, end in cut(pcm, look_for_pause=2, longest=4)] == [4, 4, 2]

    def test_a_cut_on_demand_loses_nothing(self) -> None:
        plan = SegmentPlan(turns=None, look_for_pause=300, longest=480)
        pcm = loud(2)
        first = list(plan.feed(pcm[:5001]))
        plan.cut()
        second = [*plan.feed(pcm[5001:]), *plan.finish()]
        assert [(s.start, s.end) for s in first + second] == [(0, 5001), (5001, len(pcm))]


class TestTurns:
    TURNS = Turns(pause=0.7, lead=0.3)

    def test_each_turn_with_a_little_before_it_and_its_pause_after_it(self) -> None:
        pcm = quiet(2) + loud(1) + quiet(3) + loud(2) + quiet(2)
        (a, b), (c, d) = cut(pcm, turns=self.TURNS)
        assert a / SECOND == pytest.approx(1.7, abs=0.05)
        assert b / SECOND == pytest.approx(3.7, abs=0.05)
        assert c / SECOND == pytest.approx(5.7, abs=0.05)
        assert d / SECOND == pytest.approx(8.7, abs=0.05)

    def test_a_pause_that_is_too_short_ends_nothing(self) -> None:
        assert len(cut(loud(1) + quiet(0.5) + loud(1), turns=self.TURNS)) == 1

    def test_silence_alone_has_no_turn(self) -> None:
        assert cut(quiet(20), turns=self.TURNS) == []

    def test_a_turn_without_end_is_cut_and_goes_on_with_the_next_sample(self) -> None:
        segments = cut(loud(10), turns=self.TURNS, look_for_pause=2, longest=4)
        assert [start for start, _ in segments] == [0] + [end for _, end in segments[:-1]]
        assert segments[-1][1] == len(loud(10))

    def test_the_speech_of_a_segment_is_known(self) -> None:
        plan = SegmentPlan(turns=self.TURNS, look_for_pause=300, longest=480)
        (segment,) = plan.feed(quiet(2) + loud(1) + quiet(1))
        assert segment.end is not None
        assert segment.speech_frames(segment.start, segment.end) == pytest.approx(50, abs=2)
        assert segment.speech_frames(segment.start, segment.start + 8000) <= 1


pieces = st.lists(st.tuples(st.sampled_from([loud, quiet]), st.floats(0.01, 2.5)), min_size=1, max_size=10)


@given(pieces=pieces, sizes=st.lists(st.integers(1, 9000).map(lambda n: 2 * n), max_size=40), turns=st.booleans())
def test_any_chunks_give_the_same_cuts_and_nothing_loud_is_left_out(
    pieces: list[tuple[object, float]], sizes: list[int], turns: bool
) -> None:
    pcm = b"".join(make(seconds) for make, seconds in pieces)  # type: ignore[operator]
    how = Turns() if turns else None
    segments = cut(pcm, turns=how, look_for_pause=1.5, longest=3.0, sizes=sizes)
    assert segments == cut(pcm, turns=how, look_for_pause=1.5, longest=3.0)
    at = 0
    for start, end in segments:
        assert at <= start < end <= len(pcm)
        assert end - start <= 3.0 * SECOND
        left_out = np.frombuffer(pcm[at:start], "<i2")
        # A click of one frame is no speech.
        assert np.count_nonzero(left_out) <= 2 * 320
        at = end
    if turns:
        assert np.count_nonzero(np.frombuffer(pcm[at:], "<i2")) <= 2 * 320
    else:
        assert not segments or segments[0][0] == 0
        assert all(end == start for (_, end), (start, _) in pairwise(segments))
        assert at == len(pcm)
