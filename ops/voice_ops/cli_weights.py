"""`voice weights`: bring a stage's weights to S3, and see whether they are there and right."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Annotated, Any

import typer
from botocore.exceptions import ClientError
from rich.console import Console
from rich.markup import escape

from stacks.settings import DEFAULT_STAGE
from voice_constructs.model_weights_job.weights_staging.copier import readable
from voice_ops.chosen_stage import chosen_stage, screen
from voice_ops.errors import OpsError
from voice_ops.prices import money
from voice_ops.session import AwsSession
from voice_ops.weights.build import StagingFailedError, follow, start_or_join
from voice_ops.weights.staged import StagedWeights, look, monthly_cost, staging_place, wanted_weights

INCOMPLETE = 1
"""Exit code when a file is missing or wrong."""
UNKNOWN = 2
"""Exit code when it could not be found out."""

app = typer.Typer(
    help="Weights that are staged in S3: copy them there, verify them (docs/weights.md).\n\n\b\n"
    "voice weights stage --stage dev\nvoice weights verify --stage dev --json",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)

Stage = Annotated[str, typer.Option(help="Stage of cdk.json.")]
Context = Annotated[
    list[str] | None, typer.Option("-c", "--context", metavar="KEY=VALUE", help="A setting, as for the CDK CLI.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]

_EXITS = "Exit: 0 complete, 1 not complete (the file is named), 2 it could not be found out, 130 Ctrl-C."


@app.command(epilog=_EXITS)
def stage(*, stage: Stage = DEFAULT_STAGE, context: Context = None, as_json: AsJson = False) -> None:
    """Copy what is missing from the hub to the stage's bucket, in a build of the account; follow its log.

    Ctrl-C ends the watching, not the build: the same command follows the build that runs.

    \b
    voice weights stage --stage dev
    voice weights stage --stage dev -c stt.weights=staged -c stt.revision=0a1b2c3d4e5f60718293a4b5c6d7e8f901234567
    """
    with _ends("stage"):
        settings = chosen_stage(stage, context or [])
        wanted = wanted_weights(settings)
        aws = AwsSession(settings.region)
        place = staging_place(stage, aws)
        console = screen(stderr=as_json)
        for one in wanted:
            build = start_or_join(one, place, aws)
            verb = "following" if build.joined else "started"
            console.print(f"{verb} build {escape(build.build_id)} for {escape(one.model)}@{one.revision[:12]}")
            try:
                _show(follow(build, aws), console)
            except KeyboardInterrupt:
                console.print("the build goes on; the same command follows it again")
                raise
        _tell([look(one, place.bucket, aws) for one in wanted], as_json=as_json)


@app.command(epilog=_EXITS)
def verify(
    *,
    stage: Stage = DEFAULT_STAGE,
    context: Context = None,
    deep: Annotated[bool, typer.Option("--deep", help="Read every byte and take its SHA-256: gigabytes.")] = False,
    as_json: AsJson = False,
) -> None:
    """Compare the stage's bucket with the manifest: files, sizes, and the checksums that S3 keeps.

    \b
    voice weights verify --stage dev
    voice weights verify --stage dev --deep      # reads everything
    """
    with _ends("verify"):
        settings = chosen_stage(stage, context or [])
        wanted = wanted_weights(settings)
        aws = AwsSession(settings.region)
        place = staging_place(stage, aws)
        found = []
        with _reading(quiet=as_json) as progress:
            found = [look(one, place.bucket, aws, deep=deep, progress=progress) for one in wanted]
        _tell(found, as_json=as_json)


def _show(lines: Iterator[str], console: Console) -> None:
    """Print lines; on a terminal, a file's progress stands on one line that changes."""
    if not console.is_terminal:
        for line in lines:
            console.print(f"  {escape(line)}", soft_wrap=True)
        return
    with console.status("waiting for the build to begin") as status:
        for line in lines:
            if " % " in line:
                status.update(escape(line))
            else:
                console.print(f"  [dim]{escape(line)}[/dim]", soft_wrap=True)


def _tell(found: list[StagedWeights], *, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps({"weights": [_as_json(one) for one in found]}, indent=1))
    else:
        console = screen()
        for one in found:
            _print(one, console)
    if any(one.problems for one in found):
        raise typer.Exit(INCOMPLETE)


def _as_json(found: StagedWeights) -> dict[str, Any]:
    manifest = asdict(found.manifest) if found.manifest is not None else None
    return {
        "service": found.service,
        "model": found.model,
        "revision": found.revision,
        "location": found.location,
        "complete": not found.problems,
        "problems": list(found.problems),
        "surplus": list(found.surplus),
        "manifest": manifest,
    }


def _print(found: StagedWeights, console: Console) -> None:
    mark = "[red]✗[/red]" if found.problems else "[green]✓[/green]"
    console.print(f"{mark} {found.service}  {escape(found.model)}@{found.revision[:12]}  {escape(found.location)}")
    for problem in found.problems:
        console.print(f"    [red]{escape(problem)}[/red]", soft_wrap=True)
    for path in found.surplus:
        console.print(f"    [yellow]{escape(path)} is not of the manifest, and the container sees it[/yellow]")
    if found.manifest is not None and not found.problems:
        for file in found.manifest.files:
            console.print(
                f"    [dim]{escape(file.path):<32} {readable(file.size):>9}  sha256 {file.sha256[:16]}…[/dim]"
            )
        size = found.manifest.size
        console.print(
            f"    {readable(size)} in {len(found.manifest.files)} files, about {money(monthly_cost(size))} $ a month"
        )
    elif found.problems:
        console.print("    bring what is missing: voice weights stage")


@contextmanager
def _reading(*, quiet: bool) -> Iterator[Any]:
    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield lambda _path, _bytes: None
        return
    read = 0
    with console.status("comparing") as status:

        def progress(path: str, more: int) -> None:
            nonlocal read
            read += more
            status.update(f"read {readable(read)}, now {escape(path)}")

        yield progress


@contextmanager
def _ends(command: str) -> Iterator[None]:
    """Turn errors into one line and an exit code."""
    try:
        yield
    except StagingFailedError as error:
        sys.stderr.write(f"voice weights {command}: {error}\n")
        raise typer.Exit(INCOMPLETE) from error
    except (OpsError, ClientError) as error:
        sys.stderr.write(f"voice weights {command}: {error}\n")
        raise typer.Exit(UNKNOWN) from error
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


if __name__ == "__main__":
    app()
