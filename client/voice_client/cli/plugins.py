"""Finds the commands that other packages bring (entry-point group `voice.commands`) and loads each when it is used."""

import ast
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from voice_client.cli.failure import debugging, say

GROUP = "voice.commands"


class PluginGroup(TyperGroup):
    """A group of commands that grows by what is installed.

    A package whose import fails, most often because an extra is not installed, takes only its own command with it.
    The list of commands in `voice --help` loads none: one of them may take seconds to import.
    """

    _listing = False

    def list_commands(self, ctx: typer.Context) -> list[str]:  # type: ignore[override]
        """Return the client's own commands, then the others by name."""
        own = list(super().list_commands(ctx))
        return own + sorted(_plugins().keys() - set(own))

    def get_command(self, ctx: typer.Context, cmd_name: str) -> Any:  # type: ignore[override]
        """Return a command; one of another package is loaded now, unless it is only to be listed."""
        if (own := super().get_command(ctx, cmd_name)) is not None:
            return own
        plugin = _plugins().get(cmd_name)
        if plugin is None:
            return None
        return _listed(plugin) if self._listing else _load(plugin)

    def format_help(self, ctx: typer.Context, formatter: Any) -> None:  # type: ignore[override]
        """Write the help text."""
        self._listing = True
        try:
            super().format_help(ctx, formatter)
        finally:
            self._listing = False


def _plugins() -> dict[str, EntryPoint]:
    return {plugin.name: plugin for plugin in entry_points(group=GROUP)}


def _listed(plugin: EntryPoint) -> Any:
    return TyperCommand(plugin.name, help=_summary(plugin) or f"See `voice {plugin.name} --help`.")


def _summary(plugin: EntryPoint) -> str:
    """Return what the plug-in's module says of its command, "`voice NAME`: what it does.", read and not imported."""
    try:
        spec = find_spec(plugin.module)
        source = Path(spec.origin).read_text() if spec is not None and spec.origin is not None else ""
        docstring = ast.get_docstring(ast.parse(source)) or ""
    except (ImportError, OSError, SyntaxError, UnicodeDecodeError):
        return ""  # using the command says why
    first_sentence = " ".join(docstring.partition("\n\n")[0].split()).partition(". ")[0].removesuffix(".") + "."
    command, colon, summary = first_sentence.partition(": ")
    return summary[:1].upper() + summary[1:] if colon and command == f"`voice {plugin.name}`" else ""


def _load(plugin: EntryPoint) -> Any:
    try:
        loaded = plugin.load()
    except Exception as error:
        if debugging():
            raise
        return _unavailable(plugin, error)
    if not isinstance(loaded, typer.Typer):
        return _unavailable(plugin, TypeError(f"{plugin.value} is no typer.Typer"))
    command = typer.main.get_command(loaded)
    command.name = plugin.name
    return command


def _unavailable(plugin: EntryPoint, error: Exception) -> Any:
    """Return a command that says in one sentence why it cannot run."""
    unavailable = typer.Typer(add_completion=False)
    missing = isinstance(error, ImportError) and error.name is not None and not _ours(plugin, error.name)
    distribution = plugin.dist.name if plugin.dist is not None else plugin.value
    if missing:
        why = (
            f"`voice {plugin.name}` needs the Python package {getattr(error, 'name', '')}, which is not installed: "
            f"install {distribution}[{plugin.name}]"
        )
    else:
        why = f"`voice {plugin.name}` cannot be loaded: {type(error).__name__}: {error} (VOICE_DEBUG=1 shows where)"

    @unavailable.command(
        name=plugin.name,
        help=f"Not available: {why}",
        short_help="(not available here)",
        context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []},
    )
    def _(context: typer.Context) -> None:
        say(why)
        raise typer.Exit(1)

    return typer.main.get_command(unavailable)


def _ours(plugin: EntryPoint, module: str) -> bool:
    """Whether the module that is missing is one of the plug-in's own package, which no extra would bring."""
    return module.split(".", maxsplit=1)[0] == plugin.module.split(".")[0]
