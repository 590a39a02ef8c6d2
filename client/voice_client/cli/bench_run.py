"""A run of `voice bench`: measured, and written down whatever comes of it."""

import tempfile
from contextlib import AsyncExitStack
from datetime import datetime
from pathlib import Path

import typer

from voice_client.bench.local_cloud import local_cloud
from voice_client.bench.measuring import Measured, measure, prepared
from voice_client.bench.plan import BenchPlan
from voice_client.cli.bench_options import Result
from voice_client.cli.bench_progress import RunProgress
from voice_client.cli.failure import report, run, say
from voice_client.errors import BadInputError, VoiceError
from voice_client.session.endpoint import DEFAULT_STAGE
from voice_client.whole_file import write_whole


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
    """Write both files and print the result; what goes wrong with one does not keep the others from being written."""
    from voice_client.bench.page import page  # noqa: PLC0415 - matplotlib is slow to load
    from voice_client.bench.report import make_report, to_text  # noqa: PLC0415
    from voice_client.bench.table import print_report, rendered  # noqa: PLC0415

    made = make_report(measured, price_per_hour=result.price_per_hour, local=local, interrupted=interrupted)
    text = to_text(made)
    contents = {"json": text} | ({"html": page(made)} if made.steps else {})
    name = f"{measured.plan.kind}-{datetime.now().astimezone():%Y%m%d-%H%M%S}"
    problem: Exception | None = None
    try:
        files = _write_files(result.output, name, contents)
    except VoiceError as error:
        problem, files = error, _write_elsewhere(name, contents)
    try:
        shown = text if result.as_json else rendered(lambda console: print_report(made, console))
        print(shown, end="", flush=True)  # noqa: T201
    except OSError as error:  # a full disk, or nobody who reads
        problem = problem or error
    if files:
        say(f"{'broken off; ' if interrupted else ''}report: {' '.join(map(str, files))}")
    if problem is not None:
        raise typer.Exit(report(problem))


def _write_files(folder: Path, name: str, contents: dict[str, str]) -> list[Path]:
    files = []
    for kind, content in contents.items():
        files.append(folder / f"{name}.{kind}")
        write_whole(files[-1], content)
    return files


def _write_elsewhere(name: str, contents: dict[str, str]) -> list[Path]:
    """Write where temporary files go: what was measured cost GPU hours."""
    try:
        return _write_files(Path(tempfile.mkdtemp(prefix="voice-bench-")), name, contents)
    except (VoiceError, OSError):
        return []  # the first problem is told
