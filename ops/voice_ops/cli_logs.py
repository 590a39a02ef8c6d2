"""`voice logs`: what an endpoint's containers write."""

import json
import sys
from typing import Annotated

import typer
from botocore.exceptions import ClientError
from rich.console import Console
from rich.text import Text

from stacks.names import Service
from stacks.settings import DEFAULT_STAGE
from voice_ops.chosen_stage import chosen_stage, screen
from voice_ops.errors import OpsError
from voice_ops.logs import LogLine, log_lines, seconds_of
from voice_ops.session import AwsSession

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="rich")

_STYLES = {"info": "", "warning": "yellow", "error": "red", "critical": "bold red", "": "dim"}


@app.command(epilog="Exit: 0 done, 2 there is no such log or AWS could not be asked, 130 Ctrl-C.")
def logs(
    *,
    service: Annotated[Service, typer.Argument(metavar="stt|tts", help="The ear or the voice.")],
    stage: Annotated[str, typer.Option(help="Stage of cdk.json.")] = DEFAULT_STAGE,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until Ctrl-C.")] = False,
    since: Annotated[str, typer.Option(metavar="TIME", help="How far back: 30s, 10m, 2h, 1d.")] = "10m",
    raw: Annotated[bool, typer.Option("--raw", help="The lines as the container wrote them.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
) -> None:
    """Show the containers' log, the bridge's JSON lines in plain words (docs/bridge-log.md).

    \b
    voice logs stt                       # the last ten minutes
    voice logs stt --follow --stage prod
    voice logs tts --since 2h --raw
    """
    try:
        aws = AwsSession(chosen_stage(stage).region)
        console = screen()
        for line in log_lines(stage, service, aws, since_seconds=seconds_of(since), follow=follow):
            _show(line, console, raw=raw, as_json=as_json)
    except (OpsError, ClientError) as error:
        sys.stderr.write(f"voice logs: {error}\n")
        raise typer.Exit(2) from error
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


def _show(line: LogLine, console: Console, *, raw: bool, as_json: bool) -> None:
    if as_json:
        told = {"time": line.time.isoformat(timespec="milliseconds"), "instance": line.instance}
        typer.echo(json.dumps({**told, "level": line.level, "text": line.text, "message": line.message}))
        return
    if raw:
        typer.echo(line.message)
        return
    style = _STYLES.get(line.level, "")
    shown = Text.assemble((f"{line.time.astimezone():%H:%M:%S} ", "cyan"), (line.text, style))
    console.print(shown, soft_wrap=True)


if __name__ == "__main__":
    app()
