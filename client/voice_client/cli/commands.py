"""Puts the commands together: those of the client, and those other packages bring."""

import gc
import sys
from importlib.metadata import version
from typing import Annotated

import typer

from voice_client.cli.bench import app as bench
from voice_client.cli.failure import debugging, report
from voice_client.cli.plugins import PluginGroup
from voice_client.cli.speak import speak
from voice_client.cli.start_up import interrupt_at_ctrl_c
from voice_client.cli.transcribe import transcribe
from voice_client.cli.voices import voices

app = typer.Typer(
    name="voice",
    cls=PluginGroup,
    help="Real-time speech on Amazon SageMaker AI: hear with `transcribe`, speak with `speak`.",
    epilog="Exit: 0 done, 1 unexpected, 2 usage or input, 3 credentials or endpoint, 4 stream or model, 130 Ctrl-C.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
app.command()(transcribe)
app.command()(speak)
app.command()(voices)
app.add_typer(bench, name="bench")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"sagemaker-voice {version('sagemaker-voice')}")
        raise typer.Exit


@app.callback()
def _voice(
    *,
    _: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Options of the group itself; called before the command."""
    interrupt_at_ctrl_c()


def run_command_line() -> None:
    """Run the command that the process was started with; it ends with the command's exit code."""
    try:
        app()
    except Exception as error:  # from the command of another package; ours report their own
        if debugging():
            raise
        sys.exit(report(error))
    finally:
        # The interpreter would search all that was loaded for cycles before it ends: 0.15 s with the SDK, seconds with
        # Gradio. The process ends anyway.
        gc.freeze()
