"""`voice local`: run the local cloud, reach it from a shell, end it."""

import asyncio
import logging
import os
import shlex
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Annotated

import psutil
import typer

from voice_local.cdk_cli import CdkCliError
from voice_local.cloud import LocalCloud
from voice_local.control_plane.errors import ControlPlaneError
from voice_local.data_plane.errors import DataPlaneError
from voice_local.data_plane.settings import DEFAULT_PORT
from voice_local.deployment import DeploymentError, StageDeployment
from voice_local.identity import LocalIdentity
from voice_local.isolation import connection_variables, leading_elsewhere
from voice_local.running_cloud import CloudEndpoints, RunningCloud, registered, running_clouds

STOP_SECONDS = 20.0
"""How long `voice local down` waits for a cloud to end in order before it kills it."""

app = typer.Typer(
    help="The local cloud: the real CDK CLI deploys to it, the real SDK streams to it. No AWS account.",
    no_args_is_help=True,
)


@app.command()
def up(
    *,
    deploy: Annotated[
        bool, typer.Option("--deploy", help="Deploy both voices with the real CDK CLI, from this folder's project.")
    ] = False,
    stage: Annotated[str, typer.Option(help="The stage to deploy.")] = "dev",
    control_port: Annotated[int, typer.Option(help="Port of the control plane; 0 takes a free one.")] = 0,
    data_port: Annotated[
        int | None, typer.Option(help=f"Port of the data plane; {DEFAULT_PORT} unless it is taken; 0: a free one.")
    ] = None,
    run_dir: Annotated[
        Path | None, typer.Option(help="Keep images, logs and the CA here; default: a temporary folder.")
    ] = None,
    until_stdin_closes: Annotated[bool, typer.Option("--until-stdin-closes", hidden=True)] = False,
) -> None:
    """Run a local cloud in the foreground until Ctrl-C.

    When it is ready, one JSON line on stdout says how to reach it; everything else goes to stderr.

    \b
    voice local up                   # then, in another shell: eval "$(voice local env)"
    voice local up --deploy          # ready when both endpoints are in service
    """
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    with _run_folder(run_dir) as folder:
        try:
            asyncio.run(_serve(folder, stage if deploy else None, control_port, data_port, until_stdin_closes))
        except (CdkCliError, ControlPlaneError, DataPlaneError, DeploymentError) as error:
            typer.echo(f"voice local up: {error}", err=True)
            raise typer.Exit(1) from error


async def _serve(
    folder: Path, stage: str | None, control_port: int, data_port: int | None, until_stdin_closes: bool
) -> None:
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, ended.set)
    if until_stdin_closes:
        loop.add_reader(sys.stdin.fileno(), _end_at_end_of_input, loop, ended)
    async with _cloud(folder, control_port, data_port) as cloud:
        description = cloud.description
        if stage is not None:
            endpoints = await _deploy(cloud, stage, ended)
            if endpoints is None:
                return
            description = description.model_copy(update={"endpoints": endpoints})
        with registered(description):
            print(description.model_dump_json(), flush=True)  # noqa: T201 (the result, on stdout by contract)
            if sys.stderr.isatty():
                typer.echo("The local cloud is up; Ctrl-C ends it.", err=True)
            await ended.wait()


def _end_at_end_of_input(loop: asyncio.AbstractEventLoop, ended: asyncio.Event) -> None:
    if not os.read(sys.stdin.fileno(), 4096):
        loop.remove_reader(sys.stdin.fileno())
        ended.set()


@asynccontextmanager
async def _cloud(folder: Path, control_port: int, data_port: int | None) -> AsyncIterator[LocalCloud]:
    """Run a cloud; without a port asked for, the data plane takes SageMaker's own when it is free."""
    wanted = (DEFAULT_PORT if _is_free(DEFAULT_PORT) else 0) if data_port is None else data_port
    async with LocalCloud(folder, control_port=control_port, data_port=wanted) as cloud:
        yield cloud


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


async def _deploy(cloud: LocalCloud, stage: str, ended: asyncio.Event) -> CloudEndpoints | None:
    """Deploy the stage of this folder's project; None when the user ended it before it was done."""
    deployment = StageDeployment(
        Path.cwd(),
        stage,
        cloud.description,
        images_dir=cloud.images_dir,
        work_dir=cloud.run_dir / "deployment",
        base_environment=dict(os.environ),
    )
    deploying = asyncio.create_task(asyncio.to_thread(deployment.everything, lambda line: typer.echo(line, err=True)))
    ending = asyncio.create_task(ended.wait())
    try:
        await asyncio.wait({deploying, ending}, return_when=asyncio.FIRST_COMPLETED)
        if deploying.done():
            return await deploying
        deployment.cancel()
        await asyncio.gather(deploying, return_exceptions=True)
        return None
    finally:
        ending.cancel()


@contextmanager
def _run_folder(run_dir: Path | None) -> Iterator[Path]:
    """Yield the folder asked for, or a temporary one that is kept when the cloud fails."""
    if run_dir is not None:
        run_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        yield run_dir.resolve()
        return
    folder = Path(tempfile.mkdtemp(prefix="voice-local-"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@app.command()
def env() -> None:
    """Print the variables that make this shell talk to the running local cloud, and to nothing else.

    \b
    eval "$(voice local env)"
    """
    cloud = _newest().cloud
    for name in leading_elsewhere(os.environ):
        print(f"unset {name}")  # noqa: T201 (for the shell)
    identity = LocalIdentity(region=cloud.region, access_key_id=cloud.access_key, secret_access_key=cloud.secret_key)
    variables = connection_variables(
        identity=identity,
        control_plane_url=cloud.control_plane,
        data_plane_url=cloud.data_plane,
        ca_bundle=cloud.ca_bundle,
    )
    for name, value in variables.items():
        print(f"export {name}={shlex.quote(value)}")  # noqa: T201 (for the shell)


@app.command()
def status(
    as_json: Annotated[bool, typer.Option("--json", help="One JSON line a cloud, without its keys.")] = False,
) -> None:
    """List the local clouds that run on this machine."""
    for running in running_clouds():
        cloud = running.cloud
        if as_json:
            keys = {"cloud": {"access_key", "secret_key"}}
            print(running.model_dump_json(exclude=keys))  # noqa: T201 (the result)
        else:
            typer.echo(f"process {running.pid}: control plane {cloud.control_plane}, data plane {cloud.data_plane}")


@app.command()
def down(
    everything: Annotated[bool, typer.Option("--all", help="Every local cloud, not only the newest.")] = False,
) -> None:
    """End the running local cloud, with its endpoints and containers."""
    for running in running_clouds() if everything else [_newest()]:
        process = running.process()
        if process is None:
            continue
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except psutil.TimeoutExpired:
            process.kill()
            typer.echo(f"process {running.pid} did not end within {STOP_SECONDS:.0f} s and was killed", err=True)
        else:
            typer.echo(f"ended the local cloud of process {running.pid}", err=True)


def _newest() -> RunningCloud:
    clouds = running_clouds()
    if not clouds:
        typer.echo("No local cloud runs on this machine: start one with `voice local up`.", err=True)
        raise typer.Exit(3)
    return clouds[0]
