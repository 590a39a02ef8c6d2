"""From utterances to the figures of a step: percentiles, word error rates, real time, and how many streams are kept."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from voice_client.bench.fleet import StepMeasured
from voice_client.bench.own_load import OwnLoad
from voice_client.bench.sample import MEASURES, Sample

DRIFT_LIMIT = 0.01
"""Word error rate above the single-stream run's that a kept stream may have: one point, the bar of the field."""

ERROR_LIMIT = 0.01
"""Share of utterances that may fail in a step whose streams count as kept."""

BEHIND_LIMIT = 0.1
"""By how much a paced stream may fall behind, in seconds for each second of speech: a real-time factor of 1.1. Paced
speech takes as long as it takes, so its own real-time factor says nothing; but a server that cannot keep up has work
left at the end, the more the longer it was spoken to, while one that can has only its fixed delay."""

SURE_ERRORS = 2.0
"""Standard errors by which a stream must be over `BEHIND_LIMIT` before that is held against the server."""

FEWEST_UTTERANCES = 8
"""Utterances of a step below which its streams never count as kept: a minute of one stream gives about twelve. Each
stream must have begun one as well; whether streams fall behind also takes recordings of at least two lengths."""

PERCENTILE_NEEDS = {"p95": 20, "p99": 100}
"""Utterances below which a percentile is no more than the slowest of them."""


@dataclass(frozen=True, slots=True)
class Percentiles:
    """What is said of one measure: each percentile is the value of one utterance (nearest rank)."""

    n: int
    p50: float
    p95: float
    p99: float
    max: float
    mean: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Percentiles":
        """Return the percentiles of one or more values."""
        p50, p95, p99 = np.quantile(values, [0.5, 0.95, 0.99], method="inverted_cdf")
        return cls(len(values), float(p50), float(p95), float(p99), float(np.max(values)), float(np.mean(values)))


@dataclass(frozen=True, slots=True)
class WordErrorRate:
    """How wrong what was heard is. Each recording counts once, whatever times it was heard."""

    words: int
    """Words said in all utterances."""
    rate: float
    drift: float | None
    """Rate minus the one of the step with the fewest streams, over the recordings that both have."""


@dataclass(frozen=True, slots=True)
class Behind:
    """How much longer the final text takes for each further second of speech: a line through all utterances."""

    per_second: float
    error: float
    """Its standard error."""

    @property
    def proven(self) -> bool:
        """Whether the server does not keep up, as far as that can be told from the utterances."""
        return self.per_second - SURE_ERRORS * self.error > BEHIND_LIMIT

    @property
    def suspected(self) -> bool:
        """Whether the line is steeper than allowed, proven or not."""
        return self.per_second > BEHIND_LIMIT


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether the streams of a step were kept, and what spoke against it."""

    kept: bool | None
    """None when that cannot be told: the client was saturated, or there are too few utterances. What went wrong in a
    few utterances went wrong; that nothing did is a claim that takes more of them."""
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StepFigures:
    """Everything that is said of one step."""

    streams: int
    calls_per_second: float | None
    processes: int
    complete: bool
    measured_seconds: float
    utterances: int
    failed: int
    errors: Mapping[str, Mapping[str, Any]]
    """By kind: how many, and what the first of them said."""
    measures: Mapping[str, Percentiles]
    word_errors: WordErrorRate | None
    behind: Behind | None
    """`stt`, `talk`: see `BEHIND_LIMIT`; what a paced stream has in place of a real-time factor below 1."""
    underruns: int | None
    """`tts`, `talk`: how often playback would have run dry."""
    audio_seconds: float
    """Speech of the utterances that went well."""
    audio_rate: float
    """Seconds of speech that were served in each second, by all streams together."""
    sent_bytes: int
    received_bytes: int
    client: OwnLoad | None
    """Of the process that was worst off; CPU of all together. None when the step was broken off before its end."""
    client_saturated: bool
    dollars_per_audio_hour: float | None
    verdict: Verdict

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        values: dict[str, Any] = _rounded(asdict(self))
        return values


def figures(steps: Sequence[StepMeasured], *, dollars_per_hour: float | None) -> list[StepFigures]:
    """Return the figures of all steps that measured anything; the first is what the others are compared with."""
    found: list[StepFigures] = []
    baseline: dict[int, tuple[float, int]] | None = None
    for step in sorted(steps, key=lambda step: step.streams):
        samples = [sample for sample in step.samples if sample.measured]
        if not samples:
            continue
        if baseline is None:
            baseline = _by_recording(samples)
        found.append(_figures(step, samples, baseline, dollars_per_hour))
    return found


def most_streams(steps: Iterable[StepFigures]) -> int | None:
    """Return the most streams that were kept, as far as every step below was kept too; None when not even the first."""
    most = None
    for step in steps:
        if not step.verdict.kept:
            break
        most = step.streams
    return most


def _figures(
    step: StepMeasured,
    samples: Sequence[Sample],
    baseline: Mapping[int, tuple[float, int]],
    dollars_per_hour: float | None,
) -> StepFigures:
    good = [sample for sample in samples if sample.error is None]
    failed = len(samples) - len(good)
    measures = {}
    for name in MEASURES:
        # A stream is opened at the beginning, so that nearly all openings lie before the window.
        counted = [sample for sample in step.samples if sample.error is None] if name == "connect_ms" else good
        if values := [sample.measures[name] for sample in counted if name in sample.measures]:
            measures[name] = Percentiles.of(values)
    behind = _behind(good)
    underruns = [sample.underruns for sample in good if sample.underruns is not None]
    rate = _audio_rate(step, samples)
    client = _together(step.own)
    saturated = any(own.saturated for own in step.own)
    words = _word_error_rate(good, baseline)
    verdict = _verdict(
        speaking=measures.get("rtf") if underruns else None,
        behind=behind,
        underruns=sum(underruns),
        drift=words.drift if words is not None else None,
        error_share=failed / len(samples),
        client_told=client is not None,
        saturated=saturated,
        missing=tuple(_missing(step, samples, good, behind, words)),
    )
    return StepFigures(
        streams=step.streams,
        calls_per_second=step.calls_per_second,
        processes=step.processes,
        complete=step.complete,
        measured_seconds=step.measured_seconds,
        utterances=len(samples),
        failed=failed,
        errors=_errors(samples),
        measures=measures,
        word_errors=words,
        behind=behind,
        underruns=sum(underruns) if underruns else None,
        audio_seconds=sum(sample.audio_seconds for sample in good),
        audio_rate=rate,
        sent_bytes=sum(sample.sent_bytes for sample in samples),
        received_bytes=sum(sample.received_bytes for sample in samples),
        client=client,
        client_saturated=saturated,
        dollars_per_audio_hour=dollars_per_hour / rate if dollars_per_hour is not None and rate else None,
        verdict=verdict,
    )


def _behind(good: Sequence[Sample]) -> Behind | None:
    """Fit a line through the final texts' delays against the lengths of the speech (least squares)."""
    heard = [sample for sample in good if "finalization_ms" in sample.measures and sample.audio_seconds]
    delays = np.array([sample.measures["finalization_ms"] / 1000 for sample in heard])
    # What was said, not what was answered: in `talk` the audio of a sample is both.
    lengths = np.array([sample.spoken_seconds for sample in heard])
    if len(heard) < FEWEST_UTTERANCES or np.ptp(lengths) < 0.1 * lengths.max():
        return None
    away = lengths - lengths.mean()
    slope = float((away * delays).sum() / (away**2).sum())
    rest = delays - delays.mean() - slope * away
    error = float(np.sqrt((rest**2).sum() / (len(heard) - 2) / (away**2).sum()))
    return Behind(slope, error)


def _audio_rate(step: StepMeasured, samples: Sequence[Sample]) -> float:
    """Return the speech that is served in a second: per utterance, times utterances a second.

    In the closed loop a stream serves one after the other, failures among them; edges of the window play no part.
    """
    mean_audio = sum(sample.audio_seconds for sample in samples) / len(samples)
    if step.calls_per_second is not None:
        return mean_audio * step.calls_per_second
    mean_elapsed = sum(sample.elapsed for sample in samples) / len(samples)
    return mean_audio / mean_elapsed * step.streams if mean_elapsed else 0.0


def _errors(samples: Sequence[Sample]) -> dict[str, dict[str, Any]]:
    counts = Counter(sample.error for sample in samples if sample.error is not None)
    first = {sample.error: sample.message for sample in reversed(samples) if sample.error is not None}
    return {kind: {"count": count, "message": first[kind] or ""} for kind, count in counts.most_common()}


def _by_recording(samples: Iterable[Sample]) -> dict[int, tuple[float, int]]:
    """Return for each recording its mean number of word errors, and its words."""
    errors: dict[int, list[int]] = defaultdict(list)
    words: dict[int, int] = {}
    for sample in samples:
        if sample.word_errors is not None and sample.words:
            errors[sample.item].append(sample.word_errors)
            words[sample.item] = sample.words
    return {item: (sum(counts) / len(counts), words[item]) for item, counts in errors.items()}


def _rate(by_recording: Mapping[int, tuple[float, int]]) -> float:
    return sum(errors for errors, _ in by_recording.values()) / sum(words for _, words in by_recording.values())


def _word_error_rate(good: Sequence[Sample], baseline: Mapping[int, tuple[float, int]]) -> WordErrorRate | None:
    heard = _by_recording(good)
    if not heard:
        return None
    both = heard.keys() & baseline.keys()
    drift = None
    if both:
        drift = _rate({item: heard[item] for item in both}) - _rate({item: baseline[item] for item in both})
    return WordErrorRate(sum(sample.words or 0 for sample in good), _rate(heard), drift)


def _together(own: Sequence[OwnLoad]) -> OwnLoad | None:
    if not own:
        return None
    return OwnLoad(
        cpu_cores=sum(each.cpu_cores for each in own),
        loop_busy=max(each.loop_busy for each in own),
        lag_p50_ms=max(each.lag_p50_ms for each in own),
        lag_p99_ms=max(each.lag_p99_ms for each in own),
        lag_max_ms=max(each.lag_max_ms for each in own),
    )


def _verdict(
    *,
    speaking: Percentiles | None,
    behind: Behind | None,
    underruns: int,
    drift: float | None,
    error_share: float,
    client_told: bool,
    saturated: bool,
    missing: tuple[str, ...],
) -> Verdict:
    """Judge a step; `missing` is what it would take to call its streams kept when nothing speaks against it."""
    reasons = []
    if error_share > ERROR_LIMIT:
        reasons.append(f"{error_share:.1%} failed")
    if speaking is not None and speaking.p95 >= 1:
        reasons.append(f"real-time factor {speaking.p95:.2f}")
    if behind is not None and behind.proven:
        reasons.append(f"falls {behind.per_second:.2f} s behind for each second of speech")
    if underruns:
        reasons.append(f"{underruns} underrun{'s' if underruns > 1 else ''}")
    if drift is not None and drift > DRIFT_LIMIT:
        reasons.append(f"word error rate {drift * 100:+.1f} points")
    if saturated:
        return Verdict(None, ("the client was too slow to tell", *reasons))
    if not client_told:
        return Verdict(None, ("broken off, so that the client's own load is not known", *reasons))
    if reasons:
        return Verdict(False, tuple(reasons))
    return Verdict(None if missing else True, missing)


def _missing(
    step: StepMeasured,
    samples: Sequence[Sample],
    good: Sequence[Sample],
    behind: Behind | None,
    words: WordErrorRate | None,
) -> Iterator[str]:
    """Yield what is missing before the streams of a step that nothing speaks against can be called kept."""
    if len(samples) < FEWEST_UTTERANCES:
        yield f"too few utterances to tell ({len(samples)}; it takes {FEWEST_UTTERANCES}): a longer --duration helps"
        return
    began = len({sample.caller for sample in samples})
    if step.calls_per_second is None and began < step.streams:
        yield f"only {began} of {step.streams} streams began an utterance: a longer --duration helps"
    if not any("finalization_ms" in sample.measures for sample in good):
        return  # speaking: nothing more is judged
    if behind is None:
        yield "recordings of one length do not show whether streams fall behind: take some of other lengths"
    elif behind.suspected:
        rate, error = f"{behind.per_second:.2f} s", f"{SURE_ERRORS * behind.error:.2f}"
        yield f"may fall {rate} behind for each second of speech, give or take {error}: a longer --duration tells"
    if words is None or words.drift is None:
        yield "no recording was heard in the smallest step too, so the drift of the word errors is not known"


def _rounded(value: Any) -> Any:
    """Round all floats inside to what is meaningful: a millionth."""
    if isinstance(value, float):
        return round(value, 6)
    if isinstance(value, Mapping):
        return {name: _rounded(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(item) for item in value]
    return value
