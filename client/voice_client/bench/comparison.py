"""Whether two runs differ by more than noise.

For each step and measure both runs have: the difference of the medians (and of the 95th percentiles), each utterance
taken relative to the usual value of its recording or text, so that a mix of long and short ones is no noise. How sure
it is comes from a bootstrap: both runs are drawn again many times, in blocks of utterances that followed one another,
since what slows one slows the next. Few blocks say less than many: the interval is widened as Student's t is wider than
the normal distribution (the "expanded percentile" interval of Hesterberg, 2015, with blocks in place of single values).
The confidence is 95 % for all comparisons of a table together (Bonferroni).

A difference counts when the interval leaves out zero and the difference is one that a listener or a budget can notice.
"""

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from statistics import NormalDist
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from voice_client.bench.report import samples_of
from voice_client.bench.sample import MEASURES, Sample
from voice_client.errors import BadInputError

type Values = NDArray[np.float64]

ERROR_RATE = 0.05
"""Chance that a table of two equal runs claims any change."""

DRAWS = 5_000
"""Bootstrap draws: the interval in a table of 40 comparisons still has some of them outside."""

DRAWN_AT_ONCE = 2_000_000
"""Values drawn in one go: 16 MB, however many utterances a report has."""

FEWEST = {"p50": 20, "p95": 40, "rate": 20}
"""Utterances of each run below which nothing is said: with fewer, a server that is slow for a while looks like another
server, and an interval that allows for that finds nothing."""

STUDENT_DRAWS = 400_000
"""Draws of Student's t, for one of its quantiles to about 2 %."""

LEAST_SHARE = 0.05
"""Smallest change of a time that counts, as a share of what it was: what differs less differs from run to run."""

LEAST_MS = 10.0
"""And in milliseconds: nobody hears less."""

LEAST_POINTS = 0.01
"""Smallest change that counts of word error rate and of the share that failed: one point."""

_SHARES = ("failed", "word_error_rate")

type Outcome = Literal["no change", "better", "worse", "too few"]


@dataclass(frozen=True, slots=True)
class Row:
    """One comparison. Values are milliseconds, ratios or shares, as `unit` says."""

    streams: int
    name: str
    statistic: Literal["p50", "p95", "rate"]
    unit: Literal["ms", "", "%"]
    before: float
    after: float
    change: float
    """Of utterances of the same recordings; not quite `after - before` where the mix differs."""
    interval: tuple[float, float]
    counts: tuple[int, int]
    verdict: Outcome

    @property
    def label(self) -> str:
        """What a reader calls it."""
        name = MEASURES.get(self.name, self.name.replace("_", " "))
        return name if self.statistic == "rate" else f"{name} {self.statistic}"

    def shown(self, value: float, *, signed: bool = False) -> str:
        """Return a value of this row with its unit."""
        sign = "+" if signed else ""
        if self.unit == "%":
            return f"{value * 100:{sign}.1f} %"
        return f"{value:{sign}.0f} ms" if self.unit == "ms" else f"{value:{sign}.3f}"


@dataclass(frozen=True, slots=True)
class Comparison:
    """What differs between two runs."""

    rows: Sequence[Row]
    confidence: float
    """Of each interval."""
    notes: Sequence[str]

    @property
    def worse(self) -> bool:
        """Whether anything became worse."""
        return any(row.verdict == "worse" for row in self.rows)

    @property
    def sentence(self) -> str:
        """What it comes to."""
        changed = [row for row in self.rows if row.verdict in {"better", "worse"}]
        if not changed:
            told = any(row.verdict == "no change" for row in self.rows)
            return "no change" if told else "too few utterances to tell"
        return "; ".join(f"{row.verdict}: {row.label} at {row.streams} {_by(row)}" for row in changed)

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        rows = [asdict(row) for row in self.rows]
        return {
            "change": self.sentence,
            "worse": self.worse,
            "confidence": self.confidence,
            "notes": self.notes,
            "rows": rows,
        }


def compare(before: Mapping[str, Any], after: Mapping[str, Any], *, seed: int = 1) -> Comparison:
    """Compare two reports.

    Args:
        before, after: documents that `voice_client.bench.report.read_report` returned.
        seed: of the draws, so that the same two reports always give the same answer.

    Raises:
        BadInputError: reports of different kinds, or without a step in common.
    """
    if before["kind"] != after["kind"]:
        raise BadInputError(f"one report is of {before['kind']}, the other of {after['kind']}")
    one, other = _by_step(before), _by_step(after)
    both = sorted(one.keys() & other.keys())
    if not both:
        raise BadInputError("the reports have no number of streams in common")
    pairs = [(streams, one[streams], other[streams]) for streams in both]
    planned = [
        (streams, name, having_a, having_b)
        for streams, a, b in pairs
        for name in (*MEASURES, *_SHARES)
        if (having_a := _having(name, a)) and (having_b := _having(name, b))
    ]
    comparisons = sum(1 if name in _SHARES else 2 for _, name, _, _ in planned)
    bootstrap = _Bootstrap(ERROR_RATE / comparisons, seed)
    rows: list[Row] = []
    for streams, name, a, b in planned:
        if name in _SHARES:
            rows.append(bootstrap.share(streams, name, a, b))
        else:
            rows += bootstrap.times(streams, name, a, b)
    return Comparison(rows, 1 - bootstrap.level, _notes(before, after, one, other))


def _by_step(document: Mapping[str, Any]) -> dict[int, list[Sample]]:
    steps: dict[int, list[Sample]] = defaultdict(list)
    for sample in samples_of(document):
        steps[sample.streams].append(sample)
    for samples in steps.values():
        samples.sort(key=lambda sample: sample.began)
    return {streams: samples for streams, samples in steps.items() if any(sample.measured for sample in samples)}


def _having(name: str, samples: Sequence[Sample]) -> list[Sample]:
    """Return the utterances that count for a comparison."""
    if name == "connect_ms":  # streams are opened before the window, nearly all of them
        return [sample for sample in samples if name in sample.measures]
    measured = [sample for sample in samples if sample.measured]
    if name == "failed":
        return measured
    if name == "word_error_rate":
        return [sample for sample in measured if sample.words]
    return [sample for sample in measured if name in sample.measures]


class _Bootstrap:
    """Compares what two runs have of one measure.

    Args:
        level: chance that one comparison of equal runs claims a change.
        seed: of the draws.
    """

    def __init__(self, level: float, seed: int) -> None:
        self.level = level
        self._random = np.random.default_rng(seed)

    def times(self, streams: int, name: str, a: Sequence[Sample], b: Sequence[Sample]) -> list[Row]:
        """Compare the medians and the 95th percentiles of a measure."""
        before = np.array([sample.measures[name] for sample in a])
        after = np.array([sample.measures[name] for sample in b])
        rest_a, rest_b = _without_usual(name, a, b)
        ratio = name == "rtf"
        shares: dict[Literal["p50", "p95"], float] = {"p50": 0.5, "p95": 0.95}
        drawn = self._quantiles(rest_b, *shares.values()) - self._quantiles(rest_a, *shares.values())
        rows = []
        for (statistic, share), draws in zip(shares.items(), drawn, strict=True):
            usual = float(np.quantile(before, share))
            change = float(np.quantile(rest_b, share) - np.quantile(rest_a, share))
            interval = self._interval(change, draws, len(a), len(b))
            least = usual * LEAST_SHARE if ratio else max(LEAST_MS, usual * LEAST_SHARE)
            enough = min(len(before), len(after)) >= FEWEST[statistic]
            rows.append(
                Row(
                    streams=streams,
                    name=name,
                    statistic=statistic,
                    unit="" if ratio else "ms",
                    before=usual,
                    after=float(np.quantile(after, share)),
                    change=change,
                    interval=interval,
                    counts=(len(before), len(after)),
                    verdict=_verdict(change, interval, least, enough=enough),
                )
            )
        return rows

    def share(self, streams: int, name: str, a: Sequence[Sample], b: Sequence[Sample]) -> Row:
        """Compare a share: of utterances that failed, or of words that were wrong."""
        above_a, below_a = _counted(name, a)
        above_b, below_b = _counted(name, b)
        before, after = float(above_a.sum() / below_a.sum()), float(above_b.sum() / below_b.sum())
        drawn = self._rates(above_b, below_b) - self._rates(above_a, below_a)
        interval = self._interval(after - before, drawn, len(a), len(b))
        enough = min(len(a), len(b)) >= FEWEST["rate"]
        return Row(
            streams=streams,
            name=name,
            statistic="rate",
            unit="%",
            before=before,
            after=after,
            change=after - before,
            interval=interval,
            counts=(len(a), len(b)),
            verdict=_verdict(after - before, interval, LEAST_POINTS, enough=enough),
        )

    def _interval(self, change: float, drawn: Values, *counts: int) -> tuple[float, float]:
        low, high = np.quantile(drawn, [self.level / 2, 1 - self.level / 2])
        wider = _widening(self.level, *counts)
        return change + wider * (float(low) - change), change + wider * (float(high) - change)

    def _quantiles(self, values: Values, *shares: float) -> Values:
        """Return a row for each share, with a value for each draw."""
        draws = self._draws(len(values))
        return np.concatenate([np.quantile(values[places], shares, axis=1) for places in draws], axis=1)

    def _rates(self, above: Values, below: Values) -> Values:
        draws = self._draws(len(above))
        return np.concatenate([above[places].sum(axis=1) / below[places].sum(axis=1) for places in draws])

    def _draws(self, count: int) -> Iterator[NDArray[np.int64]]:
        """Yield rows of places, `DRAWS` in all: blocks of neighbours, in a ring, so that all places are as likely."""
        length = _block_length(count)
        at_once = max(1, DRAWN_AT_ONCE // count)
        for begun in range(0, DRAWS, at_once):
            rows = min(at_once, DRAWS - begun)
            starts = self._random.integers(0, count, size=(rows, -(-count // length), 1))
            yield ((starts + np.arange(length)) % count).reshape(rows, -1)[:, :count]


def _block_length(count: int) -> int:
    """Return how many neighbours are drawn together: enough for a slow spell of several utterances to stay whole."""
    return max(1, round(2 * math.cbrt(count)), round(math.sqrt(count)))


@cache
def _widening(level: float, count_a: int, count_b: int) -> float:
    """Return by how much the interval of two runs of so many utterances is wider than their draws say.

    The spread among k blocks is drawn too small by sqrt((k - 1) / k), and it is known only as well as k values tell: as
    Student's t has it, with the degrees of freedom of both runs together.
    """
    blocks = [max(2.0, count / _block_length(count)) for count in (count_a, count_b)]
    student = np.random.default_rng(1).standard_t(sum(blocks) - 2, STUDENT_DRAWS)
    shares = max(k / (k - 1) for k in blocks)
    return float(np.quantile(np.abs(student), 1 - level)) / NormalDist().inv_cdf(1 - level / 2) * float(shares**0.5)


def _without_usual(name: str, a: Sequence[Sample], b: Sequence[Sample]) -> tuple[Values, Values]:
    """Return a measure's values less what is usual for each recording, in both runs together."""
    by_item: dict[int, list[float]] = defaultdict(list)
    for sample in (*a, *b):
        by_item[sample.item].append(sample.measures[name])
    usual = {item: float(np.median(values)) for item, values in by_item.items()}

    def rest(samples: Sequence[Sample]) -> Values:
        return np.array([sample.measures[name] - usual[sample.item] for sample in samples])

    return rest(a), rest(b)


def _counted(name: str, samples: Sequence[Sample]) -> tuple[Values, Values]:
    """Return what is counted of each utterance, and out of how much."""
    if name == "failed":
        return np.array([float(sample.error is not None) for sample in samples]), np.ones(len(samples))
    return (
        np.array([float(sample.word_errors or 0) for sample in samples]),
        np.array([float(sample.words or 0) for sample in samples]),
    )


def _verdict(change: float, interval: tuple[float, float], least: float, *, enough: bool) -> Outcome:
    if not enough:
        return "too few"
    low, high = interval
    if low <= 0 <= high or abs(change) < least:
        return "no change"
    return "worse" if change > 0 else "better"


def _by(row: Row) -> str:
    streams = "stream" if row.streams == 1 else "streams"
    return f"{streams} by {row.shown(abs(row.change))}"


def _served(endpoint: Mapping[str, Any]) -> str:
    """Return what an endpoint is to a comparison."""
    instances = endpoint["instances"]
    running = f"{instances['running']} x " if instances["running"] else ""
    types = "/".join(instances["types"]) or "unknown instances"
    return f"{endpoint['model'] or 'model not known'} on {running}{types}"


def _notes(
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    one: Mapping[int, Sequence[Sample]],
    other: Mapping[int, Sequence[Sample]],
) -> list[str]:
    """Return what makes the comparison weaker than it looks."""
    notes = [
        f"{name.replace('_', ' ')}: {before['plan'].get(name)} in A, {after['plan'].get(name)} in B"
        for name in ("arrivals", "chunk_bytes", "voice", "language", "warm_up", "ramp")
        if before["plan"].get(name) != after["plan"].get(name)
    ]
    served = [", ".join(map(_served, document["endpoints"])) for document in (before, after)]
    if served[0] != served[1]:
        notes.append(f"endpoint: {served[0]} in A, {served[1]} in B")
    if before["material"] != after["material"]:
        notes.append("the recordings or texts are not the same")
    if before["local"] != after["local"]:
        notes.append("one run is of stand-ins on a laptop, the other is not")
    for letter, document in (("A", before), ("B", after)):
        if saturated := [str(step["streams"]) for step in document["steps"] if step["client_saturated"]]:
            notes.append(f"in {letter} the client was saturated at {', '.join(saturated)} streams")
        if document["interrupted"]:
            notes.append(f"{letter} was broken off")
    if only := sorted(one.keys() ^ other.keys()):
        notes.append(f"in one run only: {', '.join(map(str, only))} streams")
    return notes
