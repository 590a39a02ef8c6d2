"""`voice status`: the endpoints of a stage, what they cost, who talks to them."""

import json
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from datetime import datetime
from typing import Annotated

import typer
from botocore.exceptions import ClientError
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from stacks.settings import DEFAULT_STAGE
from voice_ops.chosen_stage import chosen_stage, screen
from voice_ops.errors import OpsError
from voice_ops.prices import ESTIMATE, money, region_note
from voice_ops.session import AwsSession, UnreachableError
from voice_ops.status import EndpointStatus, age, stage_status

PROBLEM = 1
"""Exit code when something is wrong with an endpoint; one that is paused or not deployed is not wrong."""

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="rich")

_LEAST_OF_A_CONFIG = 24
"""Columns below which the name of a config is not worth showing."""

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
            console = screen()
            console.print(_page(stage, aws, found, console))
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
                console.print(_page(stage, aws, found, console))
            time.sleep(every)
            found = stage_status(stage, aws)
    with Live(_page(stage, aws, found, console), console=console, auto_refresh=False, screen=True) as live:
        looked = f"{_now()}, Ctrl-C ends"
        while True:
            time.sleep(every)
            try:
                found = stage_status(stage, aws)
                note = looked = f"{_now()}, Ctrl-C ends"
            except UnreachableError as error:  # a watch outlives a network that comes and goes
                note = f"As of {looked}. {_now()}: {error}"
            live.update(_page(stage, aws, found, console, note=note), refresh=True)


def _now() -> str:
    return f"{datetime.now().astimezone():%H:%M:%S}"


def _page(
    stage: str, aws: AwsSession, found: tuple[EndpointStatus, ...], console: Console, note: str = ""
) -> RenderableType:
    where = "the local cloud" if aws.is_local else aws.region
    parts: list[RenderableType] = [Text(f"Stage {stage}, {where}", style="italic"), _endpoints(found, console)]
    parts += [Text(f"✗ {problem}", style="red") for one in found for problem in one.problems]
    if any(one.instances for one in found):
        total = f"{money(sum(one.usd_per_hour or 0 for one in found))} $ an hour"
        cost = f"on AWS {total}" if aws.is_local else f"{total} until `make pause` or `make destroy`"
        parts.append(Text(f"{cost}; {ESTIMATE}", style="dim"))
        if remark := region_note(None if aws.is_local else aws.region):
            parts.append(Text(remark, style="yellow"))
    if note:
        parts.append(Text(note, style="dim"))
    return Group(*parts)


def _endpoints(found: tuple[EndpointStatus, ...], console: Console) -> RenderableType:
    """Return the endpoints as a table, without the config or as a list where it does not fit."""
    table = _table(found)
    needed = console.measure(table, options=console.options.update(max_width=sys.maxsize)).maximum
    if needed + _LEAST_OF_A_CONFIG <= console.width:
        return _table(found, with_config=True)
    if needed <= console.width:
        return table
    return Group(*(line for one in found for line in _lines(one)))


def _table(found: tuple[EndpointStatus, ...], *, with_config: bool = False) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), expand=with_config)
    for name in ("endpoint", "state", "instances"):
        table.add_column(name, no_wrap=True)
    for name in ("age", "$/h", "$ so far", "sessions"):
        table.add_column(name, justify="right", no_wrap=True)
    if with_config:
        table.add_column("config", style="dim", no_wrap=True, ratio=1)
    for one in found:
        cells = (
            one.endpoint,
            _state(one),
            _instances(one),
            age(one.age_seconds),
            money(one.usd_per_hour) if one.instances else "",
            money(one.usd_so_far) if one.instances else "",
            "" if one.sessions is None else str(one.sessions),
        )
        table.add_row(*cells, *([one.config or ""] if with_config else []))
    return table


def _lines(one: EndpointStatus) -> Iterator[Text]:
    yield Text.assemble(one.endpoint, " ", _state(one), f" {age(one.age_seconds)}")
    if one.instances:
        sessions = "" if one.sessions is None else f", sessions {one.sessions}"
        yield Text(f"  {_instances(one)}{sessions}")
        yield Text(f"  $ an hour {money(one.usd_per_hour)}, so far {money(one.usd_so_far)}")


def _state(one: EndpointStatus) -> Text:
    return Text(one.state, style=_STYLES.get(one.state, "yellow"))


def _instances(one: EndpointStatus) -> str:
    return ", ".join(f"{each.count} x {each.instance_type}" for each in one.instances)


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
