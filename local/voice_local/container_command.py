"""`voice local run-container`: a container in the foreground, its output and its health as lines on the terminal."""

import asyncio
import json
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import typer

from voice_local.containers.run_container import ContainerEvent, ContainerRun, RunContainerError, run_container


def run(
    directory: Path,
    *,
    dockerfile: Path | None,
    build_args: Sequence[str],
    variables: Sequence[str],
    port: int | None,
    healthy_within: float,
    until_healthy: bool,
    as_json: bool,
) -> int:
    """Run the container until Ctrl-C, SIGTERM or its end; return the exit code of the command.

    The container's own output goes to stdout, what happens to it to stderr; with `as_json` both are JSON lines on
    stdout.

    Raises:
        typer.BadParameter: an argument is not of the form NAME=VALUE.
    """
    wanted = ContainerRun(
        context=directory,
        dockerfile=dockerfile,
        build_args=_pairs(build_args, "--build-arg"),
        environment=_pairs(variables, "--env"),
        port=port,
        healthy_within=healthy_within,
        until_healthy=until_healthy,
    )
    try:
        with tempfile.TemporaryDirectory(prefix="voice-container-", ignore_cleanup_errors=True) as folder:
            asyncio.run(_run(wanted, Path(folder), as_json=as_json))
    except RunContainerError as error:
        typer.echo(f"voice local run-container: {error}", err=True)
        return 1
    return 0


async def _run(wanted: ContainerRun, folder: Path, *, as_json: bool) -> None:
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, ended.set)
    await run_container(wanted, folder, ended, _print_json if as_json else _print)


def _print(event: ContainerEvent) -> None:
    if event.kind == "log":
        print(event.text, flush=True)  # noqa: T201 (the container's output)
    else:
        bad = event.kind == "ended" or event.fields.get("healthy") is False or event.fields.get("accepted") is False
        # Colour only where a person looks on; typer leaves it out of files and pipes.
        typer.secho(f"--- {event.text}", err=True, fg="red" if bad else "green" if sys.stderr.isatty() else None)
        if event.kind == "started" and sys.stderr.isatty():
            typer.echo("--- Ctrl-C ends it", err=True)


def _print_json(event: ContainerEvent) -> None:
    print(json.dumps({"event": event.kind, **event.fields}), flush=True)  # noqa: T201 (the result)


def _pairs(texts: Sequence[str], option: str) -> dict[str, str]:
    wrong = [text for text in texts if not text.partition("=")[0] or "=" not in text]
    if wrong:
        raise typer.BadParameter(f"not of the form NAME=VALUE: {', '.join(wrong)}", param_hint=option)
    return {name: value for name, _, value in (text.partition("=") for text in texts)}
