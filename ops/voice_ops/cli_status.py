"""`voice status`: the endpoints of a stage, what they cost, who talks to them."""

import json
import sys
import time
from dataclasses import asdict
from datetime import datetime
from typing import Annotated

import typer
from botocore.exceptions import ClientError
from rich.console import Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from stacks.settings import DEFAULT_STAGE
from voice_ops.chosen_stage import chosen_stage, screen
from voice_ops.errors import OpsError
from voice_ops.prices import ESTIMATE, money, region_note
from voice_ops.session import AwsSession
from voice_ops.status import EndpointStatus, age, stage_status

PROBLEM = 1
"""Exit code when something is wrong with an endpoint; one that is paused or not deployed is not wrong."""

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="rich")

_STYLES = {"InService": "green", "Failed": "bold red", "Missing": "bold red", "Paused": "dim", "NotDeployed": "dim"}


@app.command(epilog="Exit: 0 nothing is wrong, 1 something is, 2 AWS could not be asked, 130 Ctrl-C.")
def status(
    *,
    stage: Annotated[str, typer.Option(help="Stage of cdk.json.")] = DEFAULT_STAGE,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Look again and again until Ctrl-C.")] = False,
    every: Annotated[float, typer.Option(metavar="SECONDS", min=1, help="Between two looks of --watch.")] = 5,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object (with --watch, one a line).")] = False,
) -> None:
    """Show state, instances, age, cost so far and open sessions of a stage's endpoints.

    \b
    voice status
    voice status --stage prod --watch
    voice status --json
    """
    try:
        aws = AwsSession(chosen_stage(stage).region)
        found = stage_status(stage, aws)
        if watch:
            _watch(stage, aws, every, found, as_json=as_json)
        elif as_json:
            typer.echo(json.dumps(_as_json(stage, aws, found), indent=1))
        else:
            screen().print(_page(stage, aws, found))
    except (OpsError, ClientError) as error:
        sys.stderr.write(f"voice status: {error}\n")
        raise typer.Exit(2) from error
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    if any(one.problems for one in found):
        raise typer.Exit(PROBLEM)


def _watch(stage: str, aws: AwsSession, every: float, found: tuple[EndpointStatus, ...], *, as_json: bool) -> None:
    console = screen()
    if as_json or not console.is_terminal:
        while True:
            if as_json:
                typer.echo(json.dumps(_as_json(stage, aws, found)))
            else:
                console.print(_page(stage, aws, found))
            time.sleep(every)
            found = stage_status(stage, aws)
    with Live(_page(stage, aws, found), console=console, auto_refresh=False, screen=True) as live:
        while True:
            time.sleep(every)
            found = stage_status(stage, aws)
            live.update(
                _page(stage, aws, found, note=f"{datetime.now().astimezone():%H:%M:%S}, Ctrl-C ends"), refresh=True
            )


def _page(stage: str, aws: AwsSession, found: tuple[EndpointStatus, ...], note: str = "") -> RenderableType:
    where = "the local cloud" if aws.is_local else aws.region
    table = Table(title=f"Stage {stage}, {where}", title_justify="left", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name, justify in (("endpoint", "left"), ("state", "left"), ("instances", "left"), ("age", "right")):
        table.add_column(name, justify=justify, no_wrap=True)  # type: ignore[arg-type]
    for name in ("$/h", "$ so far", "sessions"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("config", style="dim")
    for one in found:
        instances = ", ".join(f"{each.count} x {each.instance_type}" for each in one.instances)
        table.add_row(
            one.endpoint,
            Text(one.state, style=_STYLES.get(one.state, "yellow")),
            instances,
            age(one.age_seconds),
            money(one.usd_per_hour) if one.instances else "",
            money(one.usd_so_far) if one.instances else "",
            "" if one.sessions is None else str(one.sessions),
            one.config or "",
        )
    parts: list[RenderableType] = [table]
    parts += [Text(f"✗ {problem}", style="red") for one in found for problem in one.problems]
    if any(one.instances for one in found):
        total = sum(one.usd_per_hour or 0 for one in found)
        parts.append(Text(f"{money(total)} $ an hour until `make pause` or `make destroy`; {ESTIMATE}", style="dim"))
        if remark := region_note(None if aws.is_local else aws.region):
            parts.append(Text(remark, style="yellow"))
    if note:
        parts.append(Text(note, style="dim"))
    return Group(*parts)


def _as_json(stage: str, aws: AwsSession, found: tuple[EndpointStatus, ...]) -> dict[str, object]:
    return {
        "stage": stage,
        "region": aws.region,
        "local": aws.is_local,
        "endpoints": [asdict(one) for one in found],
        "prices": ESTIMATE,
    }


if __name__ == "__main__":
    app()
