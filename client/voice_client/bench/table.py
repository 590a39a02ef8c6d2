"""A report for the terminal: one row a step, and what it comes to."""

import sys
from collections.abc import Callable, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from voice_client.bench.comparison import Comparison
from voice_client.bench.figures import PERCENTILE_NEEDS, Percentiles, StepFigures
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

WIDE = 200
"""Columns of the table where the output is no terminal: nothing is cut off."""


def rendered(show: Callable[[Console], None]) -> str:
    """Return what is printed to a console that is as wide as standard output's terminal, or `WIDE`."""
    console = Console(width=None if sys.stdout.isatty() else WIDE)
    with console.capture() as printed:
        show(console)
    return printed.get()


def print_report(report: Report, console: Console) -> None:
    """Print the table of a run, what failed, and how many streams were kept."""
    document = report.document
    kind = document["kind"]
    priced = any(step.dollars_per_audio_hour is not None for step in report.steps)
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("streams", justify="right")
    table.add_column("kept")
    table.add_column("utter-\nances", justify="right")
    table.add_column("failed", justify="right")
    for name in _SHOWN[kind]:
        unit = "" if name == "rtf" else " ms"
        table.add_column(f"{MEASURES[name]}{unit}\np50/p95/p99", justify="right", no_wrap=True)
    if kind != "tts":
        table.add_column("WER\n(drift)", justify="right", no_wrap=True)
    if kind != "stt":
        table.add_column("under-\nruns", justify="right")
    table.add_column("speech\nper s", justify="right")
    if priced:
        table.add_column("$ per\nspeech hour", justify="right")
    table.add_column("client\nCPU, late", justify="right", no_wrap=True)
    for step in report.steps:
        table.add_row(*_row(step, kind, priced=priced))
    console.print(Text(_title(document), style="bold"))
    console.print(table)
    console.print()
    _notes(report, console)


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


def _row(step: StepFigures, kind: str, *, priced: bool) -> list[str | Text]:
    row: list[str | Text] = [
        str(step.streams),
        _kept(step),
        str(step.utterances),
        Text(str(step.failed), style="bold red" if step.failed else ""),
    ]
    row += [_percentiles(step.measures.get(name), ratio=name == "rtf") for name in _SHOWN[kind]]
    if kind != "tts":
        row.append(_words(step))
    if kind != "stt":
        row.append("-" if step.underruns is None else str(step.underruns))
    row.append(f"{step.audio_rate:.2f}")
    if priced:
        row.append("-" if step.dollars_per_audio_hour is None else f"{step.dollars_per_audio_hour:.3f}")
    client = "-" if step.client is None else f"{step.client.cpu_cores:.0%}, {step.client.lag_p99_ms:.0f} ms"
    row.append(Text(client, style="bold yellow" if step.client_saturated else ""))
    return row


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
    """Return how many streams were kept, in a sentence."""
    most = report.document["most_streams"]
    streams = f"{most} stream{' is' if most == 1 else 's are'}"
    if any(step.client_saturated for step in report.steps):
        known = f"{streams} known to be kept" if most is not None else "How many streams are kept is not known"
        return f"{known}: the client was saturated. Use more --processes, or a machine that does nothing else"
    if most is None:
        smallest = report.steps[0]
        if smallest.verdict.kept is None:
            return "How many streams are kept is not known"
        return f"Not even {smallest.streams} stream{' is' if smallest.streams == 1 else 's are'} kept"
    kept, *above = (step for step in report.steps if step.streams >= most)
    known = " known to be" if above and above[0].verdict.kept is None else ""
    limit = "" if above else "; the limit lies above"
    return f"{streams}{known} kept{limit} ({_evidence(kept)})"


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
