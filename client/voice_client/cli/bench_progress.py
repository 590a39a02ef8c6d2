"""How far a run is: a bar on a terminal, a line for each step elsewhere."""

import sys
from types import TracebackType
from typing import Any, Self

import numpy as np

from voice_client.bench.fleet import StepMeasured
from voice_client.bench.plan import BenchPlan
from voice_client.bench.sample import Sample
from voice_client.cli.failure import say

_LEADING = {
    "stt": ("finalization_ms", "final text"),
    "tts": ("ttfa_ms", "first sound"),
    "talk": ("response_ms", "response"),
}


class RunProgress:
    """Shows a run on standard error.

    Args:
        plan: the run.
    """

    def __init__(self, plan: BenchPlan) -> None:
        self._plan = plan
        self._bars: Any = None
        self._task: Any = None
        self._label = ""
        self._values: list[float] = []
        self._utterances = self._failed = 0

    def note(self, line: str) -> None:
        """See `Watching`."""
        if self._bars is None:
            say(line)
        self.detail(line)

    def detail(self, line: str) -> None:
        """Show how far that is, on a terminal only."""
        if self._bars is not None:
            self._show(line, total=None)

    def starting(self, step: StepMeasured, number: int, of: int) -> None:
        """See `Watching`."""
        self._values, self._utterances, self._failed = [], 0, 0
        self._label = f"step {number + 1} of {of}: {step.streams} stream{'s' if step.streams > 1 else ''}"
        planned = self._plan.ramp + self._plan.warm_up + self._plan.duration
        if self._bars is None:
            say(f"{self._label}, {planned:.0f} s and what is under way by then")
        else:
            self._show(self._label, total=planned)

    def sample(self, sample: Sample) -> None:
        """See `Watching`."""
        if sample.measured:
            self._utterances += 1
            self._failed += sample.error is not None
            if (value := sample.measures.get(_LEADING[self._plan.kind][0])) is not None:
                self._values.append(value)
        if self._bars is not None:
            self._bars.update(self._task, description=f"{self._label}, {self._so_far()}")

    def finished(self, step: StepMeasured) -> None:
        """See `Watching`."""
        if self._bars is None:
            say(f"{self._label}, {self._so_far()}")

    def _show(self, line: str, *, total: float | None) -> None:
        if self._task is not None:
            self._bars.remove_task(self._task)
        self._task = self._bars.add_task(line, total=total)

    def _so_far(self) -> str:
        failed = f", {self._failed} failed" if self._failed else ""
        middle = f", {_LEADING[self._plan.kind][1]} {np.median(self._values):.0f} ms" if self._values else ""
        return f"{self._utterances} utterance{'s' if self._utterances != 1 else ''}{failed}{middle}"

    def __enter__(self) -> Self:
        if sys.stderr.isatty():
            from rich.console import Console  # noqa: PLC0415 - scripts never see it
            from rich.progress import BarColumn, Progress, Task, TextColumn, TimeElapsedColumn  # noqa: PLC0415
            from rich.progress_bar import ProgressBar  # noqa: PLC0415
            from rich.table import Column  # noqa: PLC0415

            class TimeBar(BarColumn):
                """A bar that moves with the time, whether or not anything came back meanwhile."""

                def render(self, task: Task) -> ProgressBar:
                    if task.total is not None:
                        task.completed = min(task.total, task.elapsed or 0.0)
                    return super().render(task)

            text = TextColumn("{task.description}", table_column=Column(no_wrap=True, overflow="ellipsis"))
            columns = (TimeElapsedColumn(), TimeBar(bar_width=12), text)
            self._bars = Progress(*columns, console=Console(stderr=True), transient=True)
            self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._bars is not None:
            self._bars.stop()
