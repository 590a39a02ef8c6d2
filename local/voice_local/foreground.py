"""A local cloud in the foreground: what `voice local up` does."""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from voice_local.cdk_cli import CdkCliError
from voice_local.cloud import LocalCloud
from voice_local.control_plane.errors import ControlPlaneError
from voice_local.data_plane.errors import DataPlaneError
from voice_local.data_plane.faults import Fault
from voice_local.data_plane.settings import DEFAULT_PORT
from voice_local.deployment import DeploymentError, StageDeployment
from voice_local.display import Display
from voice_local.running_cloud import CloudDescription, CloudEndpoints, registered

FAILURES = (CdkCliError, ControlPlaneError, DataPlaneError, DeploymentError)
"""What can keep a cloud from coming up; each says what to do."""


async def serve(
    folder: Path,
    *,
    stage: str | None,
    control_port: int,
    data_port: int | None,
    until_stdin_closes: bool,
    faults: Sequence[str] = (),
    keep_state: bool = False,
) -> None:
    """Run a cloud, say on stdout how to reach it, and end with a signal.

    Args:
        folder: the cloud's run folder.
        stage: the stage of this folder's project to deploy before the cloud counts as ready; None deploys nothing.
        control_port: TCP port of the control plane; 0 takes a free one.
        data_port: TCP port of the data plane; None takes SageMaker's own when it is free, 0 takes a free one.
        until_stdin_closes: end with the end of standard input too.
        faults: what is to go wrong on the data plane from the start, in the text form of `Fault.parse`.
        keep_state: keep stacks and endpoints in the folder for the next cloud.

    Raises:
        One of `FAILURES`.
    """
    wanted_faults = [Fault.parse(text) for text in faults]
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, ended.set)
    if until_stdin_closes:
        loop.add_reader(sys.stdin.fileno(), _end_at_end_of_input, loop, ended)
    console = Console(stderr=True, highlight=False)
    async with _cloud(folder, control_port, data_port, keep_state=keep_state) as cloud:
        for fault in wanted_faults:
            cloud.faults.arm(fault)
        description = cloud.description
        if stage is not None:
            endpoints = await _deploy(cloud, stage, ended, Display(console))
            if endpoints is None:
                return
            description = description.model_copy(update={"endpoints": endpoints})
        with registered(description, starter=os.getppid() if until_stdin_closes else None):
            if sys.stdout.isatty():
                _say_ready(description, console)
            else:
                print(description.model_dump_json(), flush=True)  # noqa: T201 (the result, on stdout by contract)
            await ended.wait()


def _say_ready(cloud: CloudDescription, console: Console) -> None:
    """Tell a person how to go on; a program gets all of it, keys included."""
    console.print(
        f"[bold]The local cloud is up[/bold]: control plane {cloud.control_plane}, data plane {cloud.data_plane}",
        soft_wrap=True,
    )
    names = [name for name in (cloud.endpoints.stt, cloud.endpoints.tts) if name is not None]
    if names:
        console.print(f"In service: {escape(', '.join(names))}")
    console.print('In another shell: [bold]eval "$(voice local env)"[/bold]. Ctrl-C ends it.')


def _end_at_end_of_input(loop: asyncio.AbstractEventLoop, ended: asyncio.Event) -> None:
    if not os.read(sys.stdin.fileno(), 4096):
        loop.remove_reader(sys.stdin.fileno())
        ended.set()


@asynccontextmanager
async def _cloud(
    folder: Path, control_port: int, data_port: int | None, *, keep_state: bool
) -> AsyncIterator[LocalCloud]:
    """Run a cloud; without a port asked for, the data plane takes SageMaker's own when it is free."""
    wanted = (DEFAULT_PORT if _is_free(DEFAULT_PORT) else 0) if data_port is None else data_port
    async with LocalCloud(folder, control_port=control_port, data_port=wanted, keep_state=keep_state) as cloud:
        yield cloud


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


async def _deploy(cloud: LocalCloud, stage: str, ended: asyncio.Event, display: Display) -> CloudEndpoints | None:
    """Deploy the stage of this folder's project; None when the user ended it before it was done."""
    deployment = StageDeployment(
        Path.cwd(),
        stage,
        cloud.description,
        work_dir=cloud.run_dir / "deployment",
        base_environment=os.environ,
    )
    deploying = asyncio.create_task(asyncio.to_thread(deployment.everything, display))
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
