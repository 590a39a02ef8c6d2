"""`voice bench`: how many callers an endpoint serves, how late, how wrong, at what price."""

import json
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from voice_client.cli import options
from voice_client.cli.bench_options import (
    ChunkBytes,
    Language,
    Load,
    Recordings,
    Result,
    SpeakingEndpoint,
    Target,
    Texts,
    Voice,
    grouped,
)
from voice_client.cli.failure import report, say
from voice_client.errors import BadInputError, VoiceError

if TYPE_CHECKING:
    from voice_client.bench.plan import Kind

WORSE = 5
"""Exit code of `compare --check` when something became worse."""

_NEEDED = ("jiwer", "matplotlib", "jsonschema")

app = typer.Typer(
    help="Measure an endpoint under load: how many callers, how late, how wrong, at what price.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)


@app.command()
@grouped
def stt(
    *,
    load: Load,
    chunk_bytes: ChunkBytes = 4096,
    recordings: Recordings = None,
    result: Result,
    target: Target,
    model: options.ModelOption = None,
) -> None:
    """Have recordings heard, in real time, by many callers at once.

    Examples:

        voice bench stt --stage prod

        voice bench stt --concurrency 1,8,32,64 --duration 120 --price-per-hour 1.13

        voice bench stt --local --concurrency 1,2 --duration 20

        voice bench stt --recordings calls/ --chunk-bytes 2048 --json > small-chunks.json
    """
    _bench("stt", load, result, target, model=model, chunk_bytes=chunk_bytes, recordings=_absolute(recordings))


@app.command()
@grouped
def tts(
    *,
    load: Load,
    texts: Texts = None,
    voice: Voice = None,
    language: Language = None,
    result: Result,
    target: Target,
    model: options.ModelOption = None,
) -> None:
    """Have texts spoken, one right after the other, by many callers at once.

    Examples:

        voice bench tts --stage prod

        voice bench tts --concurrency 1,2,4,8 --voice Ryan --texts prompts.txt

        voice bench tts --open --concurrency 4 --duration 300
    """
    _bench("tts", load, result, target, model=model, texts=_absolute(texts), voice=voice, language=language)


@app.command()
@grouped
def talk(
    *,
    load: Load,
    chunk_bytes: ChunkBytes = 4096,
    recordings: Recordings = None,
    voice: Voice = None,
    language: Language = None,
    result: Result,
    target: Target,
    speaking_endpoint: SpeakingEndpoint = None,
) -> None:
    """Speak a turn and have what was heard of it spoken back: from the end of a turn to the first sound of the answer.

    Examples:

        voice bench talk --stage prod --concurrency 1,4

        voice bench talk --local --concurrency 1 --duration 30
    """
    _bench(
        *("talk", load, result, target),
        speaking_endpoint=speaking_endpoint,
        chunk_bytes=chunk_bytes,
        recordings=_absolute(recordings),
        voice=voice,
        language=language,
    )


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
    from voice_client.bench.comparison import compare as compare_reports  # noqa: PLC0415 - slow to load
    from voice_client.bench.report import read_report  # noqa: PLC0415
    from voice_client.bench.table import print_comparison, rendered  # noqa: PLC0415

    try:
        comparison = compare_reports(read_report(before), read_report(after))
        if as_json:
            shown = json.dumps(comparison.as_json(), indent=1, ensure_ascii=False) + "\n"
        else:
            shown = rendered(lambda console: print_comparison(comparison, console))
        print(shown, end="", flush=True)  # noqa: T201
    except (VoiceError, OSError) as error:
        raise typer.Exit(report(error)) from error
    if check and comparison.worse:
        raise typer.Exit(WORSE)


def _bench(
    kind: "Kind",
    load: Load,
    result: Result,
    target: Target,
    *,
    speaking_endpoint: str | None = None,
    model: str | None = None,
    **of_kind: Any,
) -> None:
    """Check what was asked for, and measure it; `of_kind` are fields of `BenchPlan` that not every kind has."""
    _need_extra()
    from voice_client.bench.plan import BenchPlan, Place, parse_concurrency  # noqa: PLC0415 - slow to load
    from voice_client.cli.bench_run import measure_and_write  # noqa: PLC0415

    try:
        _check(result, target)
        plan = BenchPlan(
            kind=kind,
            place=Place(
                stage=target.stage,
                endpoint=target.endpoint,
                speaking_endpoint=speaking_endpoint,
                region=target.region,
                endpoint_url=target.endpoint_url,
                ca_bundle=_absolute(target.ca_bundle),
                model=model,
            ),
            concurrency=parse_concurrency(load.concurrency),
            duration=load.duration,
            warm_up=load.warm_up,
            ramp=load.ramp,
            arrivals="open" if load.open_loop else "closed",
            processes=load.processes,
            **of_kind,
        )
    except VoiceError as error:
        raise typer.Exit(report(error)) from error
    measure_and_write(plan, result, local=target.local)


def _check(result: Result, target: Target) -> None:
    problems = []
    if result.price_per_hour is not None and not 0 <= result.price_per_hour < float("inf"):
        problems.append("a price is 0 or more dollars an hour")
    if target.local and any((target.endpoint, target.region, target.endpoint_url, target.ca_bundle)):
        problems.append("--local excludes --endpoint, --region, --endpoint-url and --ca-bundle")
    if target.ca_bundle is not None and not target.ca_bundle.is_file():
        problems.append(f"--ca-bundle {target.ca_bundle} is no file")
    if problems:
        raise BadInputError("; ".join(problems))


def _need_extra() -> None:
    if missing := [name for name in _NEEDED if find_spec(name) is None]:
        say(f"`voice bench` needs {', '.join(missing)}: install sagemaker-voice[bench]")
        raise typer.Exit(2)


def _absolute(path: Path | None) -> str | None:
    return None if path is None else str(path.resolve())
