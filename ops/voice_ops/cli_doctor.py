"""`voice doctor`: what would stop a deploy, told before it begins."""

import json
import logging
import math
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from stacks.settings import DEFAULT_STAGE, read_context
from voice_ops.assembly import PROJECT, Assembly, read_assembly
from voice_ops.doctor.examination import Examination, examine
from voice_ops.doctor.report import show
from voice_ops.doctor.subject import Limits
from voice_ops.errors import OpsError

FAILED = 3
"""Exit code when at least one check failed."""

_WIDTH_OF_A_FILE = 120
"""Columns when the output is no terminal and COLUMNS does not say."""

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="rich")


@app.command(epilog="Exit: 0 nothing failed, 2 usage, 3 a check failed, 130 Ctrl-C.")
def doctor(
    *,
    stage: Annotated[str, typer.Option(help="Stage of cdk.json.")] = DEFAULT_STAGE,
    context: Annotated[
        list[str] | None, typer.Option("-c", "--context", metavar="KEY=VALUE", help="A setting, as for the CDK CLI.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help='Print {"checks": [{id, status, detail, advice}]}.')] = False,
    offline: Annotated[bool, typer.Option("--offline", help="Look at this machine and the settings alone.")] = False,
    templates: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Look at these templates too: a cdk.out that was synthesized.")
    ] = None,
    disk_gb: Annotated[
        float | None, typer.Option(metavar="GB", min=0, help="Free space the image build needs. (default: 60)")
    ] = None,
) -> None:
    """Tell what would stop a deploy of a stage: tools, account, quotas, images, models, price. Changes nothing.

    \b
    voice doctor                             # stage dev, credentials in use
    voice doctor --stage prod --json         # for scripts
    voice doctor -c tts.instance_types=ml.g6.xlarge,ml.g5.xlarge
    voice doctor --offline                   # no AWS account needed
    """
    if disk_gb is not None and not math.isfinite(disk_gb):
        raise typer.BadParameter("give a number of gigabytes", param_hint="--disk-gb")
    if os.environ.get("VOICE_DEBUG", "0") not in {"", "0"}:
        logging.basicConfig(stream=sys.stderr, level=logging.WARNING)
        logging.getLogger("voice_ops").setLevel(logging.DEBUG)
    try:
        settings = {**read_context(PROJECT / "cdk.json"), **_overrides(context or [])}
        assembly = read_assembly(templates) if templates is not None else None
    except (OSError, ValueError) as error:
        typer.echo(f"voice doctor: {PROJECT / 'cdk.json'} cannot be read: {error}", err=True)
        raise typer.Exit(2) from error
    except OpsError as error:
        typer.echo(f"voice doctor: {error}", err=True)
        raise typer.Exit(2) from error
    examination = _examine(settings, stage, Limits(disk_gb=disk_gb), assembly=assembly, offline=offline, quiet=as_json)
    if as_json:
        typer.echo(json.dumps(examination.as_json(), indent=1))
    else:
        show(examination, _console())
    if examination.failed:
        raise typer.Exit(FAILED)


def _examine(
    context: dict[str, Any], stage: str, limits: Limits, *, assembly: Assembly | None, offline: bool, quiet: bool
) -> Examination:
    screen = Console(stderr=True)
    if quiet or not screen.is_terminal:
        return examine(context, stage, PROJECT, limits=limits, assembly=assembly, offline=offline)
    with screen.status("looking") as status:

        def progress(done: int, known: int) -> None:
            status.update(f"looking: {done} of {known}")

        return examine(context, stage, PROJECT, limits=limits, assembly=assembly, offline=offline, progress=progress)


def _overrides(given: list[str]) -> dict[str, str]:
    problems = [item for item in given if not item.partition("=")[0] or "=" not in item]
    if problems:
        raise typer.BadParameter(f"{', '.join(problems)}: write key=value", param_hint="-c")
    return dict(item.split("=", 1) for item in given)


def _console() -> Console:
    console = Console(highlight=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        return Console(highlight=False, width=_WIDTH_OF_A_FILE)
    return console


if __name__ == "__main__":
    app()
