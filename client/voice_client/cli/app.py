"""Puts the commands together: those of the client, and those other packages bring."""

import typer

from voice_client.cli.plugins import PluginGroup
from voice_client.cli.speak import speak
from voice_client.cli.transcribe import transcribe

app = typer.Typer(
    name="voice",
    cls=PluginGroup,
    help="Real-time speech on Amazon SageMaker AI: hear with `transcribe`, speak with `speak`.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
app.command()(transcribe)
app.command()(speak)


@app.callback()
def _voice() -> None:
    """Without it, typer would make a group of one command into that command."""


def main() -> None:
    """Run the command line; the process ends with the exit code of the command."""
    app()
