"""A report as one HTML file that needs nothing else: no script, no font, no address is asked."""

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

from voice_client.bench import plots
from voice_client.bench.figures import PERCENTILE_NEEDS, Percentiles, StepFigures
from voice_client.bench.report import Report
from voice_client.bench.sample import MEASURES
from voice_client.bench.table import failures, kept_sentence, reasons

_TITLES = {"stt": "Speech to text", "tts": "Text to speech", "talk": "A conversation: heard and answered"}
_STYLE = """
:root { color-scheme: light; --text: #1f2937; --faint: #6b7280; --page: #f3f4f6; --card: #fff; --line: #e5e7eb;
  --yes: #2f7d4f; --no: #b3261e; --unknown: #9a6700; --warn: #fff7e6; --warn-line: #f0c36d; }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--text); background: var(--page); margin: 0; }
main { max-width: 1160px; margin: 0 auto; padding: 24px 20px 48px; }
h1 { font-size: 1.6em; margin: 0 0 4px; overflow-wrap: anywhere; } h2 { font-size: 1.15em; margin: 0 0 8px; }
section { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 16px 20px;
  margin: 16px 0; }
svg { width: 100%; height: auto; display: block; }
.wide { overflow-x: auto; } .wide svg { min-width: 620px; }
table { border-collapse: collapse; font-size: 13px; font-variant-numeric: tabular-nums; }
th, td { text-align: right; vertical-align: top;
  padding: 4px 10px 4px 0; border-bottom: 1px solid var(--line); white-space: nowrap; }
th { color: var(--faint); font-weight: 600; vertical-align: bottom; }
td:nth-child(2), th:nth-child(2) { text-align: left; }
.facts { display: grid; grid-template-columns: max-content 1fr; gap: 2px 16px; margin: 0; }
.facts dt { color: var(--faint); } .facts dd { margin: 0; overflow-wrap: anywhere; }
.answer { font-size: 1.25em; font-weight: 600; margin: 8px 0 0; }
.note { color: var(--faint); font-size: 13.5px; margin: 8px 0 0; }
.warning { background: var(--warn); border: 1px solid var(--warn-line); border-radius: 8px; padding: 8px 14px;
  margin: 12px 0 0; }
.yes { color: var(--yes); font-weight: 600; } .no { color: var(--no); font-weight: 600; }
.unknown { color: var(--unknown); }
@media screen and (prefers-color-scheme: dark) {
  :root { color-scheme: dark; --text: #e5e7eb; --faint: #9ca3af; --page: #111; --card: #1a1a1a; --line: #374151;
    --yes: #6fcf97; --no: #ff8a80; --unknown: #e0b04c; --warn: #33290f; --warn-line: #8a6d1f; }
  svg { filter: invert(0.9) hue-rotate(180deg); }
}
@media (max-width: 640px) { main { padding: 12px 8px 24px; } section { padding: 12px; } }
@media print {
  body { background: #fff; } main { max-width: none; padding: 0; }
  section { break-inside: avoid; } table { font-size: 9px; } th, td { padding-right: 5px; } th { white-space: normal; }
  .wide { overflow: visible; } .wide svg { min-width: 0; }
}
"""


def page(report: Report) -> str:
    """Return the page of a report that has at least one step."""
    return "\n".join(_parts(report))


def _parts(report: Report) -> Iterator[str]:
    document, steps = report.document, report.steps
    kind = document["kind"]
    title = f"{_TITLES[kind]}: {', '.join(endpoint['name'] for endpoint in document['endpoints'])}"
    yield '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body><main>"
    yield f"<h1>{escape(title)}</h1>"
    for warning in _warnings(document):
        yield f'<p class="warning">{escape(warning)}</p>'
    yield "<section>"
    yield f'<p class="answer">{escape(kept_sentence(report))}</p>'
    yield f'<p class="note">{escape(_kept_means(document))}</p>'
    yield '<dl class="facts" style="margin-top:12px">'
    yield from (f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in _facts(document))
    yield "</dl></section>"
    yield f'<section><h2>Each step</h2><div class="wide">{_table(steps, kind)}</div>'
    yield f"{_table_note()}{_notes(steps)}</section>"
    yield _section(
        "How late", plots.latency_plot(steps, kind), "p95 needs 20 utterances and p99 needs 100 to be drawn."
    )
    if any(step.word_errors is not None for step in steps):
        note = "Each recording counts once, whatever times it was heard."
        yield _section("How wrong", plots.accuracy_plot(steps), note)
    yield _section("At what price", plots.cost_plot(steps), f"Price: {document['price_per_hour']['source']}.")
    for timeline in _first_and_last(document["timelines"]):
        yield _section("Moment by moment", plots.timeline_plot(timeline), "")
    note = "Dashed: from there on the client is called saturated, and its figures say little about the server."
    yield _section("What failed, and the client itself", plots.health_plot(steps), note)
    yield f'<p class="note">sagemaker-voice {escape(document["version"])}, {escape(document["format"])}</p>'
    yield "</main></body></html>\n"


def _section(title: str, svg: str, note: str) -> str:
    below = f'<p class="note">{escape(note)}</p>' if note else ""
    return f'<section><h2>{escape(title)}</h2><div class="wide">{svg}</div>{below}</section>'


def _warnings(document: Mapping[str, Any]) -> Iterator[str]:
    if document["local"]:
        yield "Stand-ins on this machine were measured: this says nothing about the real models' speed or quality."
    if document["interrupted"]:
        yield "Broken off: this is what was measured until then."
    saturated = [str(step["streams"]) for step in document["steps"] if step["client_saturated"]]
    if saturated:
        where = "the step" if len(saturated) == 1 else "the steps"
        yield f"The client was saturated in {where} of {', '.join(saturated)}: what is late there may be its own doing."


def _kept_means(document: Mapping[str, Any]) -> str:
    limits = document["limits"]
    common = f"at most {limits['error_share']:.0%} of the utterances failed"
    drift = f"the word error rate is within {limits['word_error_drift'] * 100:g} point of the smallest step's"
    behind = f"it falls at most {limits['behind']:g} s behind for each second of speech"
    speaks = "it speaks faster than real time (p95) and playback never ran dry"
    parts = {"stt": (behind, drift), "tts": (speaks,), "talk": (behind, drift, speaks)}[document["kind"]]
    return f"Kept means: {'; '.join((*parts, common))}."


def _facts(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    plan = document["plan"]
    for endpoint in document["endpoints"]:
        instances = endpoint["instances"]
        types = ", ".join(instances["types"])
        runs = f"{instances['running']} x {types}" if instances["running"] else instances["unknown_because"]
        yield (
            "endpoint",
            f"{endpoint['name']} in {endpoint['region']}, {endpoint['model'] or 'model not known'}, {runs}",
        )
    price = document["price_per_hour"]["usd"]
    if price is not None:
        yield "price", f"{price:.3f} $ an hour"
    loop = "callers begin again at once" if plan["arrivals"] == "closed" else "callers come at random"
    times = f"{plan['duration']:g} s a step, after {plan['ramp']:g} s of ramp and {plan['warm_up']:g} s of warm-up"
    yield "load", f"{times}; {loop}"
    if document["kind"] != "tts":
        yield "chunks", f"{plan['chunk_bytes']} bytes ({plan['chunk_bytes'] / 32:.0f} ms)"
    material = document["material"]
    if "seconds" in material[0]:
        yield "recordings", f"{len(material)}, {sum(item['seconds'] for item in material):.1f} s"
    else:
        yield "texts", f"{len(material)}, {sum(item['characters'] for item in material)} characters"
    machine = document["machine"]
    yield "client", f"{machine['system']}, {machine['cores']} cores, load {machine['load_average'][0]}"
    yield "when", f"{document['started']} to {document['finished']}"


def _table(steps: Sequence[StepFigures], kind: str) -> str:
    shown = [name for name in MEASURES if any(name in step.measures for step in steps)]
    heads = ["streams", "kept", "utterances", "failed"]
    heads += [f"{escape(MEASURES[name])}<br>p50 / p95 / p99{'' if name == 'rtf' else ' ms'}" for name in shown]
    heads += ["WER (drift)"] if kind != "tts" else []
    heads += ["underruns"] if kind != "stt" else []
    heads += ["sent", "received"]
    rows = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in _cells(step, shown, kind))}</tr>" for step in steps)
    return f"<table><tr>{''.join(f'<th>{head}</th>' for head in heads)}</tr>{rows}</table>"


def _cells(step: StepFigures, shown: list[str], kind: str) -> Iterator[str]:
    word, mark = {True: ("yes", "yes"), False: ("no", "no"), None: ("not known", "unknown")}[step.verdict.kept]
    yield str(step.streams)
    yield f'<span class="{mark}">{word}</span>'
    yield str(step.utterances)
    yield str(step.failed)
    for name in shown:
        yield _percentiles(step.measures.get(name), digits=2 if name == "rtf" else 0)
    if kind != "tts":
        words = step.word_errors
        drift = f" ({words.drift * 100:+.1f})" if words is not None and words.drift is not None else ""
        yield "" if words is None else f"{words.rate:.1%}{drift}"
    if kind != "stt":
        yield "" if step.underruns is None else str(step.underruns)
    yield f"{step.sent_bytes / 1e6:.1f} MB"
    yield f"{step.received_bytes / 1e6:.1f} MB"


def _percentiles(found: Percentiles | None, *, digits: int) -> str:
    if found is None:
        return ""
    shown = [f"{found.p50:.{digits}f}"]
    for name, needed in PERCENTILE_NEEDS.items():
        value = f"{getattr(found, name):.{digits}f}"
        shown.append(value if found.n >= needed else f"({value})")
    return " / ".join(shown)


def _table_note() -> str:
    return '<p class="note">In brackets: too few utterances for a percentile, so it is the slowest of them.</p>'


def _notes(steps: Sequence[StepFigures]) -> str:
    lines = "".join(f"<li>{escape(line)}</li>" for line in (*reasons(steps), *failures(steps)))
    return f"<ul>{lines}</ul>" if lines else ""


def _first_and_last(timelines: list[Any]) -> list[Any]:
    return timelines[:1] + timelines[-1:] if len(timelines) > 1 else timelines
