"""A report for the terminal: one row a step, and what it comes to."""

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from rich.console import Console
from rich.table import Table
from rich.text import Text

from voice_client.bench.comparison import Comparison
from voice_client.bench.figures import PERCENTILE_NEEDS, Percentiles, StepFigures
from voice_client.bench.own_load import BUSY_SHARE
from voice_client.bench.report import Report
from voice_client.bench.sample import MEASURES

_SHOWN = {
    "stt": ("first_partial_ms", "finalization_ms"),
    "tts": ("ttfa_ms", "rtf"),
    "talk": ("finalization_ms", "ttfa_ms", "response_ms"),
}
"""Measures that have a column; the others are in the JSON and on the page."""

NONE_SEEN_CHANCE = 0.05
"""Chance of seeing no failure in a step when as many fail as its line says: 95 % confidence."""

_BETWEEN = 2
"""Blanks between two columns."""

WIDE = 200
"""Columns of the table where the output is no terminal: nothing is cut off."""


def rendered(show: Callable[[Console], None]) -> str:
    """Return what is printed to a console that is as wide as standard output's terminal, or `WIDE`."""
    console = Console(width=None if sys.stdout.isatty() else WIDE)
    with console.capture() as printed:
        show(console)
    return printed.get()


@dataclass(frozen=True, slots=True)
class _Column:
    """One column: its head, and a cell for each step."""

    head: str
    cells: Sequence[Text]
    justify: Literal["left", "right"] = "right"

    @property
    def width(self) -> int:
        """Characters it takes."""
        return max(len(line) for line in (*self.head.splitlines(), *(cell.plain for cell in self.cells)))


def print_report(report: Report, console: Console) -> None:
    """Print the figures of a run, what failed, and how many streams were kept."""
    document = report.document
    console.print(Text(_title(document), style="bold"))
    for columns in _fitting(list(_columns(report.steps, document["kind"])), console.width):
        table = Table(box=None, header_style="bold", pad_edge=False)
        for column in columns:
            table.add_column(column.head, justify=column.justify, no_wrap=True)
        for row in zip(*(column.cells for column in columns), strict=True):
            table.add_row(*row)
        console.print(table)
        console.print()
    _notes(report, console)


def _fitting(columns: Sequence[_Column], width: int) -> list[list[_Column]]:
    """Return the columns in as many tables as the width takes; each begins with the first column, the streams."""
    first, *others = columns
    tables = [[first]]
    for column in others:
        taken = sum(each.width + _BETWEEN for each in tables[-1]) + column.width
        if taken > width and len(tables[-1]) > 1:
            tables.append([first])
        tables[-1].append(column)
    return tables


def print_comparison(comparison: Comparison, console: Console) -> None:
    """Print what changed between two runs."""
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in ("streams", "measure", "A", "B", "change", f"{comparison.confidence:.2%} interval", ""):
        table.add_column(name, justify="left" if name in {"measure", ""} else "right")
    for row in comparison.rows:
        style = {"worse": "bold red", "better": "bold green"}.get(row.verdict, "dim")
        low, high = (row.shown(value, signed=True) for value in row.interval)
        values = (row.shown(row.before), row.shown(row.after), row.shown(row.change, signed=True), f"{low} to {high}")
        table.add_row(str(row.streams), row.label, *values, Text(row.verdict, style=style))
    console.print(table)
    for note in comparison.notes:
        console.print(Text(f"note: {note}"))
    console.print(Text(comparison.sentence, style="bold"))


def _title(document: Any) -> str:
    names = " and ".join(endpoint["name"] for endpoint in document["endpoints"]) or "no endpoint"
    stand_in = " (stand-ins on this machine: they say nothing about the real models)" if document["local"] else ""
    return f"{document['kind']}: {names}{stand_in}"


def _columns(steps: Sequence[StepFigures], kind: str) -> Iterator[_Column]:
    def column(head: str, cell: Callable[[StepFigures], str | Text], **more: Any) -> _Column:
        cells = [cell(step) for step in steps]
        return _Column(head, [each if isinstance(each, Text) else Text(each) for each in cells], **more)

    yield column("streams", lambda step: str(step.streams))
    yield column("kept", _kept, justify="left")
    yield column("utter-\nances", lambda step: str(step.utterances))
    yield column("failed", lambda step: Text(str(step.failed), style="bold red" if step.failed else ""))
    for name in _SHOWN[kind]:
        ratio = name == "rtf"
        head = f"{MEASURES[name]}{'' if ratio else ' ms'}\np50/p95/p99"
        yield column(head, partial(_measure, name=name, ratio=ratio))
    if kind != "tts":
        yield column("WER\n(drift)", _words)
    if kind != "stt":
        yield column("under-\nruns", lambda step: "-" if step.underruns is None else str(step.underruns))
    yield column("speech\nper s", lambda step: f"{step.audio_rate:.2f}")
    if any(step.dollars_per_audio_hour is not None for step in steps):
        yield column("$ per\nspeech hour", _dollars)
    yield column("client\nCPU, late", _client)


def _measure(step: StepFigures, *, name: str, ratio: bool) -> str:
    return _percentiles(step.measures.get(name), ratio=ratio)


def _dollars(step: StepFigures) -> str:
    return "-" if step.dollars_per_audio_hour is None else f"{step.dollars_per_audio_hour:.3f}"


def _client(step: StepFigures) -> Text:
    said = "-" if step.client is None else f"{step.client.cpu_cores:.0%}, {step.client.lag_p99_ms:.0f} ms"
    return Text(said, style="bold yellow" if step.client_saturated else "")


def _percentiles(found: Percentiles | None, *, ratio: bool) -> str:
    if found is None:
        return "-"
    digits = 2 if ratio else 0
    shown = [f"{found.p50:.{digits}f}"]
    for name, needed in PERCENTILE_NEEDS.items():
        value: float = getattr(found, name)
        # With fewer utterances the percentile is just the slowest one.
        shown.append(f"{value:.{digits}f}" if found.n >= needed else f"({value:.{digits}f})")
    return "/".join(shown)


def _words(step: StepFigures) -> str:
    if step.word_errors is None:
        return "-"
    drift = f" ({step.word_errors.drift * 100:+.1f})" if step.word_errors.drift is not None else ""
    return f"{step.word_errors.rate:.1%}{drift}"


def _kept(step: StepFigures) -> Text:
    word, style = {True: ("yes", "green"), False: ("no", "bold red"), None: ("?", "bold yellow")}[step.verdict.kept]
    return Text(word, style=style)


def _notes(report: Report, console: Console) -> None:
    document = report.document
    small = any(found.n < PERCENTILE_NEEDS["p99"] for step in report.steps for found in step.measures.values())
    if small:
        console.print(
            Text("in brackets: too few utterances for a percentile, so it is the slowest of them", style="dim")
        )
    for line in (*reasons(report.steps), *failures(report.steps)):
        console.print(Text(line))
    if (price := document["price_per_hour"])["usd"] is None:
        console.print(Text(f"no price: {price['source']}", style="dim"))
    else:
        console.print(Text(f"{price['usd']:.3f} $ an hour: {price['source']}", style="dim"))
    if report.steps:
        console.print(Text(kept_sentence(report), style="bold"))


def kept_sentence(report: Report) -> str:
    """Return how many streams were kept, in a sentence; for a run that has measured something."""
    most = report.document["most_streams"]
    judged = [step for step in report.steps if most is None or step.streams >= most]
    unknown = next((step for step in judged[:2] if step.verdict.kept is None), None)
    why = "" if unknown is None else _why_unknown(unknown)
    if most is None and unknown is judged[0]:
        return f"How many streams are kept is not known{why}"
    if most is None:
        return f"Not even {_streams(judged[0])} {'is' if judged[0].streams == 1 else 'are'} kept"
    known = "" if unknown is None else " known to be"
    limit = "" if len(judged) > 1 else "; the limit lies above"
    kept = judged[0]
    return f"{_streams(kept)} {'is' if most == 1 else 'are'}{known} kept{limit} ({_evidence(kept)}){why}"


def _why_unknown(step: StepFigures) -> str:
    if not step.client_saturated:
        return f". {_streams(step)}: {step.verdict.reasons[0]}"
    busy = step.client is not None and step.client.loop_busy >= BUSY_SHARE
    cure = "use more --processes" if busy else "use a machine that does nothing else"
    return f". At {_streams(step)} the client was too slow to tell: {cure}"


def _evidence(step: StepFigures) -> str:
    """Return how many utterances stand behind a claim, and what they prove of failures when none was seen."""
    if step.failed:
        return f"{step.utterances} utterances, {step.failed} failed"
    unseen = 1 - NONE_SEEN_CHANCE ** (1 / step.utterances)
    return f"{step.utterances} utterances, none failed: at most {unseen:.1%} do"


def reasons(steps: Sequence[StepFigures]) -> list[str]:
    """Return what spoke against the streams of each step, a line a step."""
    return [f"{_streams(step)}: {', '.join(step.verdict.reasons)}" for step in steps if step.verdict.reasons]


def _streams(step: StepFigures) -> str:
    return f"{step.streams} stream{'' if step.streams == 1 else 's'}"


def failures(steps: Sequence[StepFigures]) -> list[str]:
    """Return what failed, a line for each kind in each step."""
    return [
        f"{_streams(step)}: {said['count']} x {kind}: {said['message']}"
        for step in steps
        for kind, said in step.errors.items()
    ]
