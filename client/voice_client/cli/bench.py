"""`voice bench`: how many callers an endpoint serves, how late, how wrong, at what price."""

import json
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from voice_client.cli import options
from voice_client.cli.failure import report, run, say
from voice_client.errors import BadInputError, VoiceError
from voice_client.whole_file import write_whole

if TYPE_CHECKING:
    from voice_client.bench.measuring import Measured
    from voice_client.bench.plan import BenchPlan

WORSE = 5
"""Exit code of `compare --check` when something became worse."""

_NEEDED = ("jiwer", "matplotlib", "jsonschema")
_LOAD = "Load"
_RESULT = "Result"

app = typer.Typer(
    help="Measure an endpoint under load: how many callers, how late, how wrong, at what price.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)

Concurrency = Annotated[
    str, typer.Option("--concurrency", metavar="N,N,...", help="Streams at once, a step each.", rich_help_panel=_LOAD)
]
Duration = Annotated[
    float, typer.Option("--duration", metavar="SECONDS", help="Measured part of each step.", rich_help_panel=_LOAD)
]
WarmUp = Annotated[
    float,
    typer.Option("--warm-up", metavar="SECONDS", help="Full load before it, not counted.", rich_help_panel=_LOAD),
]
Ramp = Annotated[
    float, typer.Option("--ramp", metavar="SECONDS", help="Callers begin spread over it.", rich_help_panel=_LOAD)
]
Open = Annotated[
    bool,
    typer.Option(
        "--open",
        help="Callers come at random, served or not, so many at once on average; each opens a stream of its own.",
        rich_help_panel=_LOAD,
    ),
]
ChunkBytes = Annotated[
    int,
    typer.Option("--chunk-bytes", help="PCM16 in one message; 4096 bytes are 128 ms.", rich_help_panel=_LOAD),
]
Processes = Annotated[
    int | None,
    typer.Option(
        "--processes", help="Processes that play the callers. (default: one a 32 streams)", rich_help_panel=_LOAD
    ),
]
Recordings = Annotated[
    Path | None,
    typer.Option(
        "--recordings",
        metavar="DIR",
        help="Folder of NAME.wav with NAME.txt. (default: five clips of the package)",
        rich_help_panel=_LOAD,
    ),
]
Output = Annotated[
    Path,
    typer.Option(
        "--output", "-o", metavar="DIR", help="Folder for the report: JSON and HTML.", rich_help_panel=_RESULT
    ),
]
Price = Annotated[
    float | None,
    typer.Option(
        "--price-per-hour",
        metavar="USD",
        help="Of all instances together. (default: by the instance type, where a price is known)",
        rich_help_panel=_RESULT,
    ),
]
JsonReport = Annotated[
    bool, typer.Option("--json", help="Print the report on standard output.", rich_help_panel=_RESULT)
]
Local = Annotated[
    bool,
    typer.Option(
        "--local",
        help="Start a local cloud with this folder's project for the run, and end it.",
        rich_help_panel="Where",
    ),
]
DEFAULT_OUTPUT = Path("bench-results")


@app.command()
def stt(
    *,
    concurrency: Concurrency = "1,4,8,16",
    duration: Duration = 60.0,
    warm_up: WarmUp = 5.0,
    ramp: Ramp = 5.0,
    open_loop: Open = False,
    chunk_bytes: ChunkBytes = 4096,
    processes: Processes = None,
    recordings: Recordings = None,
    output: Output = DEFAULT_OUTPUT,
    price_per_hour: Price = None,
    as_json: JsonReport = False,
    local: Local = False,
    stage: options.StageOption = None,
    endpoint: options.EndpointOption = None,
    region: options.RegionOption = None,
    endpoint_url: options.EndpointUrlOption = None,
    ca_bundle: options.CaBundleOption = None,
    model: options.ModelOption = None,
    _debug: options.DebugOption = False,
) -> None:
    """Have recordings heard, in real time, by many callers at once.

    Examples:

        voice bench stt --stage prod

        voice bench stt --concurrency 1,8,32,64 --duration 120 --price-per-hour 1.13

        voice bench stt --local --concurrency 1,2 --duration 20

        voice bench stt --recordings calls/ --chunk-bytes 2048 --json > small-chunks.json
    """

    def plan() -> "BenchPlan":
        from voice_client.bench.plan import BenchPlan, Place, parse_concurrency  # noqa: PLC0415 - slow to load

        return BenchPlan(
            kind="stt",
            place=Place(stage, endpoint, None, region, endpoint_url, _absolute(ca_bundle), model),
            concurrency=parse_concurrency(concurrency),
            duration=duration,
            warm_up=warm_up,
            ramp=ramp,
            arrivals="open" if open_loop else "closed",
            chunk_bytes=chunk_bytes,
            processes=processes,
            recordings=_absolute(recordings),
        )

    _bench(plan, output=output, price_per_hour=price_per_hour, as_json=as_json, local=local)


@app.command()
def tts(
    *,
    concurrency: Concurrency = "1,4,8,16",
    duration: Duration = 60.0,
    warm_up: WarmUp = 5.0,
    ramp: Ramp = 5.0,
    open_loop: Open = False,
    processes: Processes = None,
    texts: Annotated[
        Path | None,
        typer.Option(
            "--texts",
            metavar="FILE",
            help="Texts to be spoken, one a line. (default: eight of the package)",
            rich_help_panel=_LOAD,
        ),
    ] = None,
    voice: Annotated[str | None, typer.Option("--voice", help="Voice of the model, such as Vivian.")] = None,
    language: Annotated[str | None, typer.Option("--language", help="Name or code, such as English or en.")] = None,
    output: Output = DEFAULT_OUTPUT,
    price_per_hour: Price = None,
    as_json: JsonReport = False,
    local: Local = False,
    stage: options.StageOption = None,
    endpoint: options.EndpointOption = None,
    region: options.RegionOption = None,
    endpoint_url: options.EndpointUrlOption = None,
    ca_bundle: options.CaBundleOption = None,
    model: options.ModelOption = None,
    _debug: options.DebugOption = False,
) -> None:
    """Have texts spoken, one right after the other, by many callers at once.

    Examples:

        voice bench tts --stage prod

        voice bench tts --concurrency 1,2,4,8 --voice Ryan --texts prompts.txt

        voice bench tts --open --concurrency 4 --duration 300
    """

    def plan() -> "BenchPlan":
        from voice_client.bench.plan import BenchPlan, Place, parse_concurrency  # noqa: PLC0415 - slow to load

        return BenchPlan(
            kind="tts",
            place=Place(stage, endpoint, None, region, endpoint_url, _absolute(ca_bundle), model),
            concurrency=parse_concurrency(concurrency),
            duration=duration,
            warm_up=warm_up,
            ramp=ramp,
            arrivals="open" if open_loop else "closed",
            processes=processes,
            texts=_absolute(texts),
            voice=voice,
            language=language,
        )

    _bench(plan, output=output, price_per_hour=price_per_hour, as_json=as_json, local=local)


@app.command()
def talk(
    *,
    concurrency: Concurrency = "1,4,8,16",
    duration: Duration = 60.0,
    warm_up: WarmUp = 5.0,
    ramp: Ramp = 5.0,
    open_loop: Open = False,
    chunk_bytes: ChunkBytes = 4096,
    processes: Processes = None,
    recordings: Recordings = None,
    voice: Annotated[str | None, typer.Option("--voice", help="Voice of the model, such as Vivian.")] = None,
    language: Annotated[str | None, typer.Option("--language", help="Name or code, such as English or en.")] = None,
    output: Output = DEFAULT_OUTPUT,
    price_per_hour: Price = None,
    as_json: JsonReport = False,
    local: Local = False,
    stage: options.StageOption = None,
    endpoint: options.EndpointOption = None,
    speaking_endpoint: Annotated[
        str | None,
        typer.Option(
            "--speaking-endpoint", help="With --endpoint, which hears: the one that speaks.", rich_help_panel="Where"
        ),
    ] = None,
    region: options.RegionOption = None,
    endpoint_url: options.EndpointUrlOption = None,
    ca_bundle: options.CaBundleOption = None,
    _debug: options.DebugOption = False,
) -> None:
    """Speak a turn and have what was heard of it spoken back: from the end of a turn to the first sound of the answer.

    Examples:

        voice bench talk --stage prod --concurrency 1,4

        voice bench talk --local --concurrency 1 --duration 30
    """

    def plan() -> "BenchPlan":
        from voice_client.bench.plan import BenchPlan, Place, parse_concurrency  # noqa: PLC0415 - slow to load

        return BenchPlan(
            kind="talk",
            place=Place(stage, endpoint, speaking_endpoint, region, endpoint_url, _absolute(ca_bundle), None),
            concurrency=parse_concurrency(concurrency),
            duration=duration,
            warm_up=warm_up,
            ramp=ramp,
            arrivals="open" if open_loop else "closed",
            chunk_bytes=chunk_bytes,
            processes=processes,
            recordings=_absolute(recordings),
            voice=voice,
            language=language,
        )

    _bench(plan, output=output, price_per_hour=price_per_hour, as_json=as_json, local=local)


@app.command()
def compare(
    before: Annotated[Path, typer.Argument(metavar="A.json", help="Report of an earlier run.")],
    after: Annotated[Path, typer.Argument(metavar="B.json", help="Report of a later run.")],
    *,
    as_json: options.JsonOption = False,
    check: Annotated[
        bool, typer.Option("--check", help=f"End with exit code {WORSE} when something is worse.")
    ] = False,
    _debug: options.DebugOption = False,
) -> None:
    """Say what changed between two runs, and whether it is more than noise.

    Examples:

        voice bench compare bench-results/stt-20261129-101500.json bench-results/stt-20261129-104500.json

        voice bench compare before.json after.json --check
    """
    _need_extra()
    from rich.console import Console  # noqa: PLC0415

    from voice_client.bench.comparison import compare as compare_reports  # noqa: PLC0415
    from voice_client.bench.report import read_report  # noqa: PLC0415
    from voice_client.bench.table import WIDE, print_comparison  # noqa: PLC0415

    try:
        comparison = compare_reports(read_report(before), read_report(after))
    except VoiceError as error:
        raise typer.Exit(report(error)) from error
    if as_json:
        print(json.dumps(comparison.as_json(), indent=1, ensure_ascii=False))  # noqa: T201
    else:
        print_comparison(comparison, Console(width=None if sys.stdout.isatty() else WIDE))
    if check and comparison.worse:
        raise typer.Exit(WORSE)


def _bench(
    make_plan: "Callable[[], BenchPlan]", *, output: Path, price_per_hour: float | None, as_json: bool, local: bool
) -> None:
    """Measure, and write what was measured, also when it was broken off."""
    _need_extra()
    from voice_client.bench.measuring import prepared  # noqa: PLC0415 - slow to load

    try:
        plan = make_plan()
        _check(plan, price_per_hour, local=local)
        measured = prepared(plan)
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise typer.Exit(report(BadInputError(f"no folder {output}: {error.strerror or error}"))) from error
    except VoiceError as error:
        raise typer.Exit(report(error)) from error
    written = Written(output, price_per_hour, as_json=as_json, local=local)
    try:
        run(_run(measured, local=local))
    except (KeyboardInterrupt, typer.Exit) as end:
        if any(sample.measured for step in measured.steps for sample in step.samples):
            written.write(measured, interrupted=True)
        elif isinstance(end, KeyboardInterrupt):
            say("broken off before anything was measured: no report")
        if isinstance(end, KeyboardInterrupt):
            raise typer.Exit(130) from None
        raise
    written.write(measured, interrupted=False)
    if not any(sample.error is None for step in measured.steps for sample in step.samples if sample.measured):
        say("not one utterance went well")
        raise typer.Exit(4)


class Written:
    """Where the results of a run go: two files, and standard output.

    Args:
        folder: takes the files.
        price_per_hour: US dollars for all instances, when it was given.
        as_json: the document goes to standard output instead of the table.
        local: the run's own local cloud was measured.
    """

    def __init__(self, folder: Path, price_per_hour: float | None, *, as_json: bool, local: bool) -> None:
        self._folder = folder
        self._price = price_per_hour
        self._as_json = as_json
        self._local = local

    def write(self, measured: "Measured", *, interrupted: bool) -> None:
        """Write both files and print the result."""
        from rich.console import Console  # noqa: PLC0415

        from voice_client.bench.page import page  # noqa: PLC0415 - matplotlib is slow to load
        from voice_client.bench.report import make_report, to_text  # noqa: PLC0415
        from voice_client.bench.table import WIDE, print_report  # noqa: PLC0415

        made = make_report(measured, price_per_hour=self._price, local=self._local, interrupted=interrupted)
        text = to_text(made)
        name = f"{measured.plan.kind}-{datetime.now().astimezone():%Y%m%d-%H%M%S}"
        files = [self._folder / f"{name}.json"]
        write_whole(files[0], text)
        if made.steps:
            files.append(self._folder / f"{name}.html")
            write_whole(files[1], page(made))
        if self._as_json:
            print(text, end="")  # noqa: T201
        else:
            print_report(made, Console(width=None if sys.stdout.isatty() else WIDE))
        say(f"{'broken off; ' if interrupted else ''}report: {' '.join(map(str, files))}")


async def _run(measured: "Measured", *, local: bool) -> None:
    from voice_client.bench.local_cloud import local_cloud  # noqa: PLC0415 - slow to load
    from voice_client.bench.measuring import measure  # noqa: PLC0415
    from voice_client.cli.bench_progress import RunProgress  # noqa: PLC0415
    from voice_client.session.endpoint import DEFAULT_STAGE  # noqa: PLC0415

    async with AsyncExitStack() as stack:
        progress = stack.enter_context(RunProgress(measured.plan))
        environment = None
        if local:
            progress.note("starting a local cloud")
            stage = measured.plan.place.stage or DEFAULT_STAGE
            environment = await stack.enter_async_context(local_cloud(stage, on_line=progress.detail))
        progress.note("asking the endpoint")
        await measure(measured, environment, progress)
        if local:
            progress.note("ending the local cloud")


def _check(plan: "BenchPlan", price_per_hour: float | None, *, local: bool) -> None:
    place = plan.place
    problems = []
    if price_per_hour is not None and not price_per_hour >= 0:
        problems.append("a price is 0 or more dollars an hour")
    if local and any((place.endpoint, place.region, place.endpoint_url, place.ca_bundle)):
        problems.append("--local excludes --endpoint, --region, --endpoint-url and --ca-bundle")
    if place.ca_bundle is not None and not Path(place.ca_bundle).is_file():
        problems.append(f"--ca-bundle {place.ca_bundle} is no file")
    if problems:
        raise BadInputError("; ".join(problems))


def _need_extra() -> None:
    if missing := [name for name in _NEEDED if find_spec(name) is None]:
        say(f"`voice bench` needs {', '.join(missing)}: install sagemaker-voice[bench]")
        raise typer.Exit(2)


def _absolute(path: Path | None) -> str | None:
    return None if path is None else str(path.resolve())
