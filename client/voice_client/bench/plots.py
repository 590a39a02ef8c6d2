"""The pictures of a report, each an SVG."""

import io
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, MaxNLocator, NullLocator, PercentFormatter, ScalarFormatter

from voice_client.bench.figures import DRIFT_LIMIT, PERCENTILE_NEEDS, StepFigures
from voice_client.bench.own_load import BUSY_SHARE, LATE_MS
from voice_client.bench.sample import MEASURES

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BLUE, ORANGE, RED, GREEN, GREY = "#2563a8", "#d9822b", "#b3261e", "#2f7d4f", "#6b7280"
_PERCENTILES = {"p50": (GREEN, "o"), "p95": (ORANGE, "s"), "p99": (RED, "^")}
_STYLE: dict[Any, Any] = {
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.edgecolor": "#9ca3af",
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "grid.color": "#e5e7eb",
    "font.size": 9.5,
    "legend.frameon": False,
    "svg.fonttype": "path",  # looks the same everywhere, and asks for no font
}


def latency_plot(steps: Sequence[StepFigures], kind: str) -> str:
    """Latency percentiles against streams, a panel for each measure that waits are made of."""
    names = {
        "stt": ("first_partial_ms", "finalization_ms"),
        "tts": ("first_byte_ms", "ttfa_ms"),
        "talk": ("finalization_ms", "ttfa_ms", "response_ms"),
    }[kind]
    shown = [name for name in names if any(name in step.measures for step in steps)]

    def draw(figure: Figure) -> None:
        for axes, name in zip(_panels(figure, max(1, len(shown))), shown, strict=False):
            for percentile, (colour, marker) in _PERCENTILES.items():
                points = [(step.streams, step.measures[name]) for step in steps if name in step.measures]
                known = [(x, getattr(y, percentile)) for x, y in points if y.n >= PERCENTILE_NEEDS.get(percentile, 1)]
                if known:
                    axes.plot(*zip(*known, strict=True), color=colour, marker=marker, label=percentile)
            slowest = [(step.streams, step.measures[name].max) for step in steps if name in step.measures]
            axes.plot(*zip(*slowest, strict=True), color=GREY, marker="_", linestyle=":", label="slowest")
            for step in steps:
                if name in step.measures:
                    _note(axes, step.streams, 0.0, f"n={step.measures[name].n}")
            axes.set_title(f"{MEASURES[name]}, ms")
            axes.set_ylim(0, 1.3 * max(value for _, value in slowest))
            _streams_axis(axes, steps)
            axes.legend(ncols=4, fontsize=8, loc="upper left")

    return _svg("latency", draw, width=10.0, height=3.6)


def accuracy_plot(steps: Sequence[StepFigures]) -> str:
    """Word error rate and its drift against streams."""
    heard = [(step.streams, step.word_errors) for step in steps if step.word_errors is not None]

    def draw(figure: Figure) -> None:
        left, right = _panels(figure, 2)
        left.plot([x for x, _ in heard], [words.rate for _, words in heard], color=BLUE, marker="o")
        for x, words in heard:
            _note(left, x, words.rate, f"{words.words} words")
        left.set_title("Word error rate")
        left.set_ylim(0, max(0.02, *(words.rate * 1.4 for _, words in heard)))
        drifts = [(x, words.drift) for x, words in heard if words.drift is not None]
        right.axhspan(-1, DRIFT_LIMIT, color=GREEN, alpha=0.08)
        right.axhline(DRIFT_LIMIT, color=GREEN, linestyle="--", linewidth=1)
        right.plot(*zip(*drifts, strict=True), color=ORANGE, marker="o")
        reach = max(2 * DRIFT_LIMIT, *(1.3 * abs(drift) for _, drift in drifts))
        right.set_ylim(-reach, reach)
        right.set_title(f"Drift against {heard[0][0]} stream{'s' if heard[0][0] > 1 else ''}; kept up to one point")
        for axes in (left, right):
            axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=1))
            axes.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
            _streams_axis(axes, steps)

    return _svg("accuracy", draw, width=10.0, height=3.0)


def cost_plot(steps: Sequence[StepFigures]) -> str:
    """What an hour of speech costs, and how much speech is served, against streams."""

    priced = [(step.streams, step.dollars_per_audio_hour) for step in steps]
    known = [(x, price) for x, price in priced if price is not None]

    def draw(figure: Figure) -> None:
        panels = _panels(figure, 2 if known else 1)
        if known:
            left = panels[0]
            left.plot(*zip(*known, strict=True), color=BLUE, marker="o")
            for x, price in known:
                _note(left, x, price, f"{price:.2f} $")
            left.set_ylim(0, max(price for _, price in known) * 1.25)
            left.set_title("US dollars per hour of speech")
        right = panels[-1]
        right.plot([step.streams for step in steps], [step.audio_rate for step in steps], color=BLUE, marker="o")
        for step in steps:
            _note(right, step.streams, step.audio_rate, f"{step.audio_rate:.1f}")
        right.set_title("Seconds of speech served in a second")
        right.set_ylim(0, max(step.audio_rate for step in steps) * 1.3 or 1)
        for axes in panels:
            _streams_axis(axes, steps)

    return _svg("cost", draw, width=10.0, height=3.0)


def health_plot(steps: Sequence[StepFigures]) -> str:
    """What failed, and how the measuring client itself did."""

    def draw(figure: Figure) -> None:
        failed, busy, late = _panels(figure, 3)
        places = range(len(steps))
        labels = [str(step.streams) for step in steps]
        failed.bar(places, [step.failed / step.utterances for step in steps], color=RED, width=0.6)
        failed.set_title("Failed utterances")
        failed.yaxis.set_major_formatter(PercentFormatter(1.0))
        failed.set_ylim(0, max(0.05, *(1.2 * step.failed / step.utterances for step in steps)))
        shares = [step.client.loop_busy if step.client is not None else 0.0 for step in steps]
        lags = [step.client.lag_p99_ms if step.client is not None else 0.0 for step in steps]
        busy.bar(places, shares, color=BLUE, width=0.6)
        busy.axhline(BUSY_SHARE, color=RED, linestyle="--", linewidth=1)
        busy.yaxis.set_major_formatter(PercentFormatter(1.0))
        busy.set_ylim(0, max(1.0, *shares))
        busy.set_title("Client: event loop busy")
        late.bar(places, lags, color=BLUE, width=0.6)
        late.axhline(LATE_MS, color=RED, linestyle="--", linewidth=1)
        late.set_ylim(0, max(1.4 * LATE_MS, *(1.1 * lag for lag in lags)))
        late.set_title("Client: late by, p99, ms")
        for axes in (failed, busy, late):
            axes.set_xticks(list(places), labels)
            axes.set_xlabel("streams")
            axes.grid(visible=False, axis="x")

    return _svg("health", draw, width=10.0, height=2.8)


def timeline_plot(timeline: Mapping[str, Any]) -> str:
    """One session: what was sent, what came back, when."""
    points: list[tuple[float, str, float]] = [tuple(point) for point in timeline["points"]]

    def draw(figure: Figure) -> None:
        (axes,) = _panels(figure, 1)
        sent = [(at, value) for at, what, value in points if what == "sent"]
        words = [(at, value) for at, what, value in points if what == "words"]
        audio = [(at, value) for at, what, value in points if what == "audio"]
        if sent:
            axes.step(*zip(*sent, strict=True), where="post", color=BLUE, label="speech sent")
        if audio:
            axes.step(*zip(*audio, strict=True), where="post", color=GREEN, label="speech received")
            _playback(axes, audio)
        axes.set_ylabel("seconds of speech")
        axes.set_xlabel("seconds since the utterance began")
        axes.set_ylim(bottom=0)
        axes.margins(x=0.02, y=0.15)
        if words:
            right = axes.twinx()
            right.spines["right"].set_visible(True)
            right.grid(visible=False)
            right.plot(*zip(*words, strict=True), color=ORANGE, marker=".", drawstyle="steps-post", label="text heard")
            right.set_ylabel("characters heard", color=ORANGE)
            right.set_ylim(bottom=0)
            right.margins(y=0.15)
        marks = {"end": "end of speech", "final": "final text", "text": "text", "playing": "first sound"}
        for at, what, _ in points:
            if what in marks:
                axes.axvline(at, color=RED if what in {"end", "text"} else GREY, linestyle="--", linewidth=1)
                axes.annotate(
                    f"{marks[what]}\n{at:.2f} s",
                    (at, 1.0),
                    xycoords=("data", "axes fraction"),
                    xytext=(2, 2) if what in {"final", "playing"} else (-2, 2),
                    textcoords="offset points",
                    fontsize=8,
                    va="bottom",
                    ha="left" if what in {"final", "playing"} else "right",
                )
        streams = timeline["streams"]
        axes.set_title(f"One session at {streams} stream{'s' if streams > 1 else ''}", pad=28)
        named = [line for one in figure.axes for line in one.get_lines() if not str(line.get_label()).startswith("_")]
        axes.legend(handles=named, loc="center left", fontsize=8)

    return _svg(f"timeline-{timeline['streams']}", draw, width=10.0, height=3.2)


def _playback(axes: "Axes", audio: Sequence[tuple[float, float]]) -> None:
    """Draw what a listener has heard: from the first chunk at the speed of speech, with a halt at each underrun."""
    line = [(audio[0][0], 0.0)]
    played, received = 0.0, audio[0][1]
    for at, total in audio[1:]:
        dry = line[-1][0] + (received - played)
        if at > dry:
            line += [(dry, received), (at, received)]
            played = received
        else:
            played += at - line[-1][0]
            line.append((at, played))
        received = total
    line.append((line[-1][0] + (received - played), received))
    axes.plot(*zip(*line, strict=True), color=GREY, linestyle=":", label="speech played")


def _panels(figure: Figure, count: int) -> "list[Axes]":
    return [figure.add_subplot(1, count, number + 1) for number in range(count)]


def _streams_axis(axes: "Axes", steps: Sequence[StepFigures]) -> None:
    counts = [step.streams for step in steps]
    if max(counts) >= 8 * min(counts):
        axes.set_xscale("log", base=2)
    axes.xaxis.set_major_locator(FixedLocator(counts))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(ScalarFormatter())
    axes.set_xlabel("streams")
    axes.margins(x=0.1)


def _note(axes: "Axes", x: float, y: float, text: str) -> None:
    axes.annotate(text, (x, y), xytext=(0, 7), textcoords="offset points", ha="center", fontsize=8, color=GREY)


def _svg(name: str, draw: Callable[[Figure], None], *, width: float, height: float) -> str:
    """Draw a figure and return it as the element `<svg>`: no prologue, no date, no address but its name spaces."""
    with mpl.rc_context(_STYLE | {"svg.hashsalt": name}):
        figure = Figure(figsize=(width, height), layout="constrained")
        draw(figure)
        out = io.StringIO()
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    text = out.getvalue()
    return text[text.index("<svg") :]
