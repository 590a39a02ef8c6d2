"""From utterances to figures, worked out by hand."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from voice_client.bench.callers import Outcome, Trace
from voice_client.bench.figures import Percentiles, StepFigures, figures, most_streams
from voice_client.bench.fleet import StepMeasured
from voice_client.bench.load import Step, StepLoad, split_callers
from voice_client.bench.own_load import LoopWatch, OwnLoad
from voice_client.bench.sample import Sample
from voice_client.bench.word_errors import WordErrors, word_errors
from voice_client.session.speaking_metrics import SentenceClock

IDLE = OwnLoad(0.1, 0.1, 0.2, 3.0, 5.0)


def heard(item: int = 0, *, streams: int = 1, final_ms: float = 300.0, seconds: float = 4.0, **more: Any) -> Sample:
    values: dict[str, Any] = {
        "streams": streams,
        "caller": 0,
        "item": item,
        "began": 1.0,
        "elapsed": seconds + final_ms / 1000,
        "measured": True,
        "audio_seconds": seconds,
        "spoken_seconds": seconds,
        "measures": {"finalization_ms": final_ms},
    }
    return Sample(**values | more)


def spoken(*, rtf: float = 0.5, underruns: int = 0, streams: int = 1, caller: int = 0) -> Sample:
    return heard(streams=streams, caller=caller, spoken_seconds=0.0, measures={"rtf": rtf}, underruns=underruns)


def steady(count: int, *, jitter: float = 1.0, slope: float = 0.0) -> list[Sample]:
    """Return utterances of five lengths, late by 2.5 s, and by `slope` milliseconds for each second of speech."""
    return [
        heard(
            number % 5,
            seconds=2.0 + number % 5,
            final_ms=2500.0 + slope * (number % 5) + jitter * ((number * 7) % 3 - 1),
            word_errors=0,
            words=9,
        )
        for number in range(count)
    ]


def measured(samples: list[Sample], *, own: OwnLoad = IDLE, rate: float | None = None) -> StepMeasured:
    streams = samples[0].streams
    return StepMeasured(streams, rate, 1, samples, [own], complete=True, measured_seconds=60.0)


def one(samples: list[Sample], **more: Any) -> StepFigures:
    (found,) = figures([measured(samples, **more)], dollars_per_hour=None)
    return found


def test_a_percentile_is_a_value_that_was_measured() -> None:
    found = Percentiles.of([float(value) for value in range(1, 201)])
    assert (found.n, found.p50, found.p95, found.p99, found.max) == (200, 100.0, 190.0, 198.0, 200.0)


def test_ramp_and_warm_up_count_only_for_opening_streams() -> None:
    early = heard(measured=False, final_ms=9000.0, measures={"connect_ms": 80.0, "finalization_ms": 9000.0})
    found = one([early, heard()])
    assert found.utterances == 1
    assert found.measures["finalization_ms"].max == 300.0
    assert found.measures["connect_ms"].p50 == 80.0


def test_each_recording_counts_once_in_the_word_error_rate_and_its_drift() -> None:
    # Under load the hard recording is heard four times and the easy one once: a plain mean would call that drift.
    alone = [heard(0, word_errors=0, words=10), heard(1, word_errors=5, words=10)]
    loaded = [heard(0, streams=4, word_errors=0, words=10)]
    loaded += [heard(1, streams=4, word_errors=5, words=10) for _ in range(4)]
    first, second = figures([measured(loaded), measured(alone)], dollars_per_hour=None)
    assert first.word_errors is not None
    assert second.word_errors is not None
    assert first.word_errors.rate == second.word_errors.rate == 0.25
    assert second.word_errors.drift == 0.0
    assert second.word_errors.words == 50

    worse = [heard(0, streams=4, word_errors=1, words=10), heard(1, streams=4, word_errors=5, words=10)]
    _, second = figures([measured(alone), measured(worse)], dollars_per_hour=None)
    assert second.word_errors is not None
    assert second.word_errors.drift == pytest.approx(0.05)
    assert second.verdict.kept is False
    assert "+5.0 points" in second.verdict.reasons[0]


def test_what_a_server_is_behind_grows_with_the_speech() -> None:
    lengths = [2.0, 3.0, 4.0, 5.0, 6.0] * 4
    jitter = [5.0, -5.0, 0.0, 3.0, -3.0, 1.0, -1.0] * 3
    late = [
        heard(final_ms=300 + 250 * seconds + extra, seconds=seconds)
        for seconds, extra in zip(lengths, jitter, strict=False)
    ]
    found = one(late)
    assert found.behind is not None
    assert found.behind.per_second == pytest.approx(0.25, abs=0.01)
    assert found.verdict.kept is False
    assert "falls 0.25 s behind" in found.verdict.reasons[0]


def test_a_long_but_steady_delay_is_not_falling_behind() -> None:
    assert one(steady(20)).verdict.kept is True


def test_a_few_utterances_prove_nothing_about_falling_behind() -> None:
    noisy = [heard(final_ms=delay, seconds=seconds) for delay, seconds in ((200.0, 0.8), (400.0, 1.0), (300.0, 1.2))]
    assert one(noisy).behind is None
    assert one(noisy).verdict.kept is None


@pytest.mark.parametrize(
    ("samples", "reason"),
    [
        (lambda: steady(7), "too few utterances to tell (7; it takes 8)"),
        (lambda: [spoken()] * 7, "too few utterances to tell (7; it takes 8)"),
        (lambda: [spoken(streams=4)] * 20, "only 1 of 4 streams began an utterance"),
        (lambda: [heard(word_errors=0, words=9)] * 20, "recordings of one length"),
        (lambda: steady(10, jitter=800.0, slope=200.0), "may fall 0.16 s behind"),
    ],
)
def test_kept_is_claimed_only_where_enough_was_seen(samples: Callable[[], list[Sample]], reason: str) -> None:
    """Nothing speaks against these, and not enough speaks for them."""
    found = one(samples())
    assert found.verdict.kept is None
    assert reason in found.verdict.reasons[0]
    assert most_streams([found]) is None


def test_what_went_wrong_in_a_few_utterances_went_wrong() -> None:
    assert one([heard(error="Throttled", measures={})] * 2).verdict.kept is False


@pytest.mark.parametrize(
    ("samples", "reason"),
    [
        ([spoken(rtf=1.2)] * 3, "real-time factor 1.20"),
        ([spoken(), spoken(underruns=2)], "2 underruns"),
        ([heard()] * 50 + [heard(error="Throttled", measures={})], "2.0% failed"),
    ],
)
def test_why_streams_are_not_kept(samples: list[Sample], reason: str) -> None:
    found = one(samples)
    assert found.verdict.kept is False
    assert found.verdict.reasons == (reason,)


def test_the_most_streams_are_those_below_which_all_are_kept() -> None:
    steps = figures(
        [
            measured([spoken(streams=1)] * 8),
            measured([spoken(streams=4, caller=caller % 4) for caller in range(8)]),
            measured([spoken(streams=8, rtf=1.5)]),
            measured([spoken(streams=16, caller=caller) for caller in range(16)]),
        ],
        dollars_per_hour=None,
    )
    assert [step.verdict.kept for step in steps] == [True, True, False, True]
    assert most_streams(steps) == 4
    assert most_streams(steps[2:]) is None


def test_the_price_is_that_of_the_speech_served_failures_included() -> None:
    # Four streams, each 4 s of speech in 5 s; every second utterance fails after 5 s: 1.6 s of speech a second.
    good = heard(streams=4, elapsed=5.0)
    bad = heard(streams=4, elapsed=5.0, audio_seconds=0.0, measures={}, error="ConnectionLost")
    (found,) = figures([measured([good, bad] * 4)], dollars_per_hour=3.2)
    assert found.audio_rate == pytest.approx(1.6)
    assert found.dollars_per_audio_hour == pytest.approx(2.0)
    (open_loop,) = figures([measured([good, bad], rate=0.5)], dollars_per_hour=None)
    assert open_loop.audio_rate == pytest.approx(1.0)
    assert open_loop.dollars_per_audio_hour is None


def test_words_are_compared_as_a_listener_hears_them() -> None:
    said = "Mr. Dashwood isn't ill-disposed!"
    assert word_errors(said, "mister dashwood isn\N{RIGHT SINGLE QUOTATION MARK}t ill disposed") == WordErrors(0, 5)
    assert word_errors(said, "mister dashwood is ill disposed now") == WordErrors(2, 5)
    assert word_errors(said, "") == WordErrors(5, 5)
    with pytest.raises(ValueError, match="no word"):
        word_errors("...", "one")


def test_callers_are_dealt_out_evenly() -> None:
    assert list(split_callers(5, 2)) == [(0, 2, 4), (1, 3)]


class Burning:
    """A caller that keeps the event loop at work."""

    def __init__(self) -> None:
        self.trace = Trace()

    async def call(self, item: int) -> Outcome:
        self.trace.begin()
        end = time.perf_counter() + 0.1
        while time.perf_counter() < end:
            pass
        await asyncio.sleep(0)
        return Outcome(1.0, 0.0, {"rtf": 0.1}, underruns=0)


async def test_a_saturated_client_is_flagged_and_nothing_is_said_of_the_server() -> None:
    @asynccontextmanager
    async def make() -> AsyncIterator[Burning]:
        yield Burning()

    loop = asyncio.get_running_loop()
    step = StepMeasured(2, None, 1, complete=True)
    now, stop = loop.time(), asyncio.Event()
    part = Step(2, (0, 1), starts_at=now, ramp=0.0, window_from=now + 0.1, window_to=now + 1.2)
    load = StepLoad(part, make, items=1, kind="tts", emit=step.samples.append)

    def over(own: OwnLoad) -> None:
        step.own.append(own)
        stop.set()

    async with asyncio.timeout(30):
        await load.run(over, stop)

    (found,) = figures([step], dollars_per_hour=None)
    assert found.client is not None
    assert found.client.lag_p99_ms >= 90
    assert found.client_saturated
    assert found.verdict.kept is None
    assert "client was too slow" in found.verdict.reasons[0]
    assert most_streams([found]) is None


class Quick:
    """A caller that is answered at once."""

    def __init__(self) -> None:
        self.trace = Trace()

    async def call(self, item: int) -> Outcome:
        self.trace.begin()
        await asyncio.sleep(0.02)
        return Outcome(1.0, 0.0, {"rtf": 0.1}, underruns=0)


@pytest.mark.parametrize("calls_per_second", [None, 10.0])
async def test_a_call_counts_from_when_it_was_due_however_long_its_stream_takes_to_open(
    calls_per_second: float | None,
) -> None:
    """Callers that come while the endpoint takes nobody are waited for: left out, they would make it look quick."""

    @asynccontextmanager
    async def make() -> AsyncIterator[Quick]:
        await asyncio.sleep(1.5)
        yield Quick()

    loop = asyncio.get_running_loop()
    samples: list[Sample] = []
    now, stop = loop.time(), asyncio.Event()
    window = {"starts_at": now, "ramp": 0.0, "window_from": now, "window_to": now + 1.0}
    part = Step(4, (0, 1, 2, 3), calls_per_second=calls_per_second, seed=1, **window)
    load = StepLoad(part, make, items=1, kind="tts", emit=samples.append)
    async with asyncio.timeout(30):
        await load.run(lambda _: stop.set(), stop)

    counted = [sample for sample in samples if sample.measured]
    if calls_per_second is None:
        assert {sample.caller for sample in counted} == {0, 1, 2, 3}
    assert len(counted) >= 4
    assert all(sample.began < 1.0 and sample.elapsed >= 1.5 for sample in counted)


async def test_a_stall_counts_for_as_long_as_it_lasted() -> None:
    """One stall of 300 ms in 600 ms is half of the time, though a single look finds it."""
    async with LoopWatch() as watch:
        await asyncio.sleep(0.15)
        time.sleep(0.3)  # noqa: ASYNC251 - the stall
        await asyncio.sleep(0.15)
        load = watch.load()
    assert load.lag_max_ms >= 280
    assert load.lag_p99_ms >= 200
    assert load.lag_p50_ms >= 3
    assert load.saturated


def test_silence_that_comes_faster_than_it_is_played_is_waited_for() -> None:
    """Half a second of silence in five chunks within 40 ms: the first sound is half a second after the first chunk."""
    clock = SentenceClock(turn=10.0, retries=0)
    for number in range(5):
        clock.chunk(bytes(4800), 10.3 + number * 0.01)
    clock.chunk(bytes(480) + b"\x00\x40" * 2160, 10.35)
    measured = clock.result()
    assert measured.first_byte_ms == pytest.approx(300)
    assert measured.leading_silence_ms == pytest.approx(510)
    assert measured.ttfa_ms == pytest.approx(300 + 510)
