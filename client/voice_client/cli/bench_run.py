"""A run of `voice bench`: measured, and written down whatever comes of it."""

import tempfile
from collections.abc import Callable
from contextlib import AsyncExitStack
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from voice_client.bench.local_cloud import local_cloud
from voice_client.bench.measuring import Measured, measure, prepared
from voice_client.bench.plan import BenchPlan
from voice_client.cli.bench_options import Result
from voice_client.cli.bench_progress import RunProgress
from voice_client.cli.failure import debugging, report, run, say
from voice_client.errors import BadInputError, VoiceError
from voice_client.session.endpoint import DEFAULT_STAGE
from voice_client.whole_file import write_whole

if TYPE_CHECKING:
    from voice_client.bench.report import Report


def measure_and_write(plan: BenchPlan, result: Result, *, local: bool) -> None:
    """Measure, and write what was measured, also when it was broken off.

    Args:
        plan: what to measure.
        result: where it goes.
        local: whether a local cloud is started for it.

    Raises:
        typer.Exit: it failed, and the reason has been written to standard error.
    """
    try:
        measured = prepared(plan)
        _check_folder(result.output)
    except VoiceError as error:
        raise typer.Exit(report(error)) from error
    try:
        run(_run(measured, local=local))
    except (KeyboardInterrupt, typer.Exit) as end:
        if any(sample.measured for step in measured.steps for sample in step.samples):
            _write(measured, result, local=local, interrupted=True)
        elif isinstance(end, KeyboardInterrupt):
            say("broken off before anything was measured: no report")
        if isinstance(end, KeyboardInterrupt):
            raise typer.Exit(130) from None
        raise
    _write(measured, result, local=local, interrupted=False)
    if not any(sample.error is None for step in measured.steps for sample in step.samples if sample.measured):
        say("not one utterance went well")
        raise typer.Exit(4)


async def _run(measured: Measured, *, local: bool) -> None:
    async with AsyncExitStack() as stack:
        progress = stack.enter_context(RunProgress(measured.plan))
        environment = None
        if local:
            progress.note("starting a local cloud")
            stage = measured.plan.place.stage or DEFAULT_STAGE
            environment = await stack.enter_async_context(local_cloud(stage, on_line=progress.detail))
        await measure(measured, environment, progress)
        if local:
            progress.note("ending the local cloud")


def _check_folder(folder: Path) -> None:
    """See before the run that its results can be written after it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise BadInputError(f"--output {folder} takes no file: {error.strerror or error}") from error


def _write(measured: Measured, result: Result, *, local: bool, interrupted: bool) -> None:
    """Write both files and print the result; what goes wrong with one does not take the others along."""
    from voice_client.bench.report import make_report, to_text  # noqa: PLC0415 - slow to load
    from voice_client.bench.table import print_report, rendered  # noqa: PLC0415

    made = make_report(measured, price_per_hour=result.price_per_hour, local=local, interrupted=interrupted)
    text = to_text(made)
    files = _Files(result.output, f"{measured.plan.kind}-{datetime.now().astimezone():%Y%m%d-%H%M%S}")
    steps: tuple[Callable[[], object], ...] = (
        lambda: files.write("json", text),
        lambda: print(text if result.as_json else rendered(partial(print_report, made)), end="", flush=True),  # noqa: T201
        lambda: files.write("html", _page(made)) if made.steps else None,
    )
    problems: list[Exception] = []
    for step in steps:
        try:
            step()
        except Exception as error:  # noqa: BLE001 - told below
            problems.append(error)
    if files.written:
        say(f"{'broken off; ' if interrupted else ''}report: {' '.join(map(str, files.written))}")
    if problems and debugging():
        raise problems[0]
    codes = [report(problem) for problem in problems]
    if codes:
        raise typer.Exit(codes[0])


def _page(made: "Report") -> str:
    from voice_client.bench.page import page  # noqa: PLC0415 - matplotlib is slow to load

    return page(made)


class _Files:
    """Files of one run; where their folder takes none (any more), in a folder for temporary files instead.

    What was measured cost GPU hours.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._name = name
        self.written: list[Path] = []

    def write(self, kind: str, content: str) -> None:
        """Write one file.

        Raises:
            BadInputError: not where it belongs.
        """
        try:
            self._write(kind, content)
        except BadInputError:
            self._folder = Path(tempfile.mkdtemp(prefix="voice-bench-"))
            self._write(kind, content)
            raise

    def _write(self, kind: str, content: str) -> None:
        path = self._folder / f"{self._name}.{kind}"
        write_whole(path, content)
        self.written.append(path)
