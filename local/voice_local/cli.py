"""`voice local`: run the local cloud, reach it from a shell, end it."""

import asyncio
import contextlib
import json
import logging
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import psutil
import typer

from voice_local.engines.interfaces import EngineUnavailableError
from voice_local.engines.own_models import own_models
from voice_local.isolation import leading_elsewhere
from voice_local.running_cloud import RunningCloud, running_clouds

STOP_SECONDS = 20.0
"""How long `voice local down` waits for a cloud to end in order before it kills it."""

KILLED, SEVERAL_RUN, NONE_RUNS = 1, 2, 3
"""Exit codes of the commands that look for a cloud that runs."""

_Process = Annotated[
    int | None,
    typer.Option("--process", metavar="PID", help="The cloud of this process; `voice local status` lists all."),
]

app = typer.Typer(
    help="The local cloud: the real CDK CLI deploys to it, the real SDK streams to it. No AWS account.",
    no_args_is_help=True,
    add_completion=False,
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
        int | None, typer.Option(help="Port of the data plane; SageMaker's own 8443 unless it is taken; 0: a free one.")
    ] = None,
    run_dir: Annotated[
        Path | None, typer.Option(help="Keep images, logs and the CA here; default: a temporary folder.")
    ] = None,
    state: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Keep stacks and endpoints, and all that --run-dir keeps, in this folder: the next cloud begins with "
            "them (docs/control-plane.md).",
        ),
    ] = None,
    fault: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KIND[,FIELD=VALUE]...",
            help="Make streams fail, e.g. reset-stream,after=5 or refuse,status=429,times=every; docs/data-plane.md "
            "has them all. May be given several times.",
        ),
    ] = None,
    whisper_model: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            envvar="VOICE_LOCAL_WHISPER_MODEL",
            help="Hear with a CTranslate2 Whisper model of your own (docs/engines.md).",
        ),
    ] = None,
    piper_voice: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            envvar="VOICE_LOCAL_PIPER_VOICE",
            help="Speak with a Piper voice of your own: its .onnx, the .onnx.json beside it.",
        ),
    ] = None,
    until_stdin_closes: Annotated[bool, typer.Option("--until-stdin-closes", hidden=True)] = False,
) -> None:
    """Run a local cloud in the foreground until Ctrl-C.

    When it is ready, one JSON line on stdout says how to reach it (a terminal gets it in words); everything else goes
    to stderr.

    \b
    voice local up                   # then, in another shell:
    eval "$(voice local env)"
    voice local up --deploy          # ready when both endpoints are in service
    voice local up --state ~/.voice-cloud   # again what it held when it ended
    voice local up --fault reset-stream,random=5..50,times=every
    voice local up --deploy --whisper-model ~/models/whisper-small-ct2
    """
    # The cloud's parts take seconds to import; the other commands do without them.
    from voice_local import foreground  # noqa: PLC0415

    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    if state is not None and run_dir is not None:
        raise typer.BadParameter(
            "give --state or --run-dir: the state's folder is the run folder", param_hint="--state"
        )
    try:
        os.environ.update(own_models(whisper_model, piper_voice))
    except EngineUnavailableError as error:
        raise typer.BadParameter(str(error), param_hint="--whisper-model / --piper-voice") from error
    with _run_folder(state or run_dir) as folder:
        try:
            asyncio.run(
                foreground.serve(
                    folder,
                    stage=stage if deploy else None,
                    control_port=control_port,
                    data_port=data_port,
                    until_stdin_closes=until_stdin_closes,
                    faults=fault or (),
                    keep_state=state is not None,
                )
            )
        except foreground.FAILURES as error:
            typer.echo(f"voice local up: {error}", err=True)
            raise typer.Exit(1) from error


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
def env(
    *,
    process: _Process = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON line with all that `voice local up` tells, keys included.")
    ] = False,
) -> None:
    """Print the variables that make this shell talk to the running local cloud, and to nothing else.

    Of several, the newest of your own; a cloud that a demo or a test runs for itself is not taken unless it is named.

    \b
    eval "$(voice local env)"
    eval "$(voice local env --process 4711)"   # voice local status lists them
    """
    cloud = _chosen(process).cloud
    if as_json:
        print(cloud.model_dump_json())  # noqa: T201 (the result)
        return
    for name in leading_elsewhere(os.environ):
        print(f"unset {name}")  # noqa: T201 (for the shell)
    for name, value in cloud.variables().items():
        print(f"export {name}={shlex.quote(value)}")  # noqa: T201 (for the shell)


@app.command()
def fault(
    faults: Annotated[
        list[str] | None,
        typer.Argument(metavar="[KIND[,FIELD=VALUE]...]...", help="What to make go wrong; without any, list what is."),
    ] = None,
    *,
    clear: Annotated[bool, typer.Option("--clear", help="Disarm everything first.")] = False,
    process: _Process = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON line: what is armed, what happened.")] = False,
) -> None:
    """Make streams of the running local cloud fail; docs/data-plane.md has every kind and place.

    \b
    voice local fault reset-stream,after=5          # the next stream, after its 5th message
    voice local fault kill-connection               # now, on a stream that is open
    voice local fault --clear
    """
    # The data plane takes a while to import; the other commands do without it.
    from voice_local.data_plane.admin_client import AdminClient, AdminRouteError  # noqa: PLC0415

    cloud = _chosen(process).cloud
    admin = AdminClient(cloud.faults, cloud.admin_token)
    try:
        if clear:
            admin.clear()
        for text in faults or ():
            admin.arm(text)
        state = admin.state()
    except AdminRouteError as error:
        typer.echo(f"voice local fault: {error}", err=True)
        raise typer.Exit(1) from error
    if as_json:
        print(json.dumps(state))  # noqa: T201 (the result)
        return
    for each in state["armed"]:
        typer.echo(f"armed     {each['number']:3}  {json.dumps(each['fault'])}")
    for each in state["fired"]:
        place = f"after {each['to_client']} messages to the client, {each['to_container']} to the container"
        typer.echo(f"happened  {each['number']:3}  {each['fault']['kind']} {place}, request {each['request_id']}")


@app.command("run-container")
def run_container(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="The folder that `docker build` would be given.", show_default=False)
    ],
    *,
    dockerfile: Annotated[
        Path | None, typer.Option("--file", "-f", help="The Dockerfile; default: DIR/Dockerfile.")
    ] = None,
    build_arg: Annotated[
        list[str] | None, typer.Option("--build-arg", metavar="NAME=VALUE", help="Value of an ARG; may be repeated.")
    ] = None,
    env: Annotated[
        list[str] | None,
        typer.Option("--env", "-e", metavar="NAME=VALUE", help="Variable of the SageMaker model; may be repeated."),
    ] = None,
    port: Annotated[
        int | None, typer.Option(help="Port on 127.0.0.1; default: 8080 unless it is taken; 0: a free one.")
    ] = None,
    healthy_within: Annotated[
        float, typer.Option(min=1, help="Seconds until /ping must answer 200; SageMaker allows 60 to 3600.")
    ] = 60.0,
    until_healthy: Annotated[
        bool, typer.Option("--until-healthy", help="Stop as soon as it is healthy: a check for CI.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON line an event, on stdout.")] = False,
) -> None:
    """Run a container image of your own as plain processes, without Docker, until Ctrl-C.

    Starts the Dockerfile's ENTRYPOINT with the argument `serve`, as SageMaker does.

    Shows its output and what SageMaker would see: /ping, label, WebSocket.

    RUN is not carried out; docs/engines.md says what else differs.

    Exit code 1 when it ends by itself or is not healthy in time.

    \b
    voice local run-container container_assets/voxtral_bridge -e SM_VLLM_MODEL=any
    voice local run-container my_image -e MODEL=small --port 9000
    voice local run-container my_image --until-healthy --json   # for CI
    """
    from voice_local import container_command  # noqa: PLC0415 (it takes a while to import)

    raise typer.Exit(
        container_command.run(
            directory,
            dockerfile=dockerfile,
            build_args=build_arg or (),
            variables=env or (),
            port=port,
            healthy_within=healthy_within,
            until_healthy=until_healthy,
            as_json=as_json,
        )
    )


@app.command()
def status(
    as_json: Annotated[bool, typer.Option("--json", help="One JSON line a cloud, without its keys.")] = False,
) -> None:
    """List the local clouds that run on this machine, newest first.

    \b
    voice local status
    voice local status --json | jq .cloud.control_plane
    """
    clouds = running_clouds()
    if not clouds:
        typer.echo("No local cloud runs on this machine: start one with `voice local up`.", err=True)
    for running in clouds:
        cloud = running.cloud
        if as_json:
            keys = {"cloud": {"access_key", "secret_key", "admin_token"}}
            print(running.model_dump_json(exclude=keys))  # noqa: T201 (the result)
        else:
            whose = f" (of process {running.starter}, which ends it)" if running.starter is not None else ""
            typer.echo(
                f"process {running.pid}: control plane {cloud.control_plane}, data plane {cloud.data_plane}{whose}"
            )


@app.command()
def down(
    *,
    process: _Process = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Every local cloud, those that demos and tests run for themselves too.")
    ] = False,
) -> None:
    """End the running local cloud, with its endpoints and containers.

    Exit code 0 when it ended in order, 1 when one had to be killed, 2 when several run and none is named, 3 when none
    runs.

    \b
    voice local down
    voice local down --process 4711   # voice local status lists them
    voice local down --all
    """
    chosen = running_clouds() if everything else [_chosen(process, alone=True)]
    if not chosen:
        raise _none_runs()
    processes = [found for running in chosen if (found := running.process()) is not None]
    names = ", ".join(str(found.pid) for found in processes)
    typer.echo(f"ending the local cloud of process {names}, {STOP_SECONDS:.0f} s at most", err=True)
    for found in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            found.terminate()
    ended, alive = psutil.wait_procs(processes, STOP_SECONDS)
    for found in alive:
        with contextlib.suppress(psutil.NoSuchProcess):
            found.kill()
    for found in ended:
        typer.echo(f"ended the local cloud of process {found.pid}", err=True)
    for found in alive:
        typer.echo(
            f"process {found.pid} did not end within {STOP_SECONDS:.0f} s and was killed: its containers end by "
            "themselves; a state that it kept (--state) may lack its last seconds",
            err=True,
        )
    if alive:
        raise typer.Exit(KILLED)


def _chosen(pid: int | None, *, alone: bool = False) -> RunningCloud:
    """Return the cloud of a process, else the newest of the user's own; `alone` refuses to choose among several."""
    clouds = running_clouds()
    if pid is not None:
        for running in clouds:
            if running.pid == pid:
                return running
        typer.echo(f"No local cloud is process {pid}; `voice local status` lists those that run.", err=True)
        raise typer.Exit(NONE_RUNS)
    own = [running for running in clouds if running.starter is None]
    if not own:
        raise _none_runs(clouds)
    if len(own) > 1:
        listed = ", ".join(str(running.pid) for running in own)
        if alone:
            typer.echo(
                f"{len(own)} local clouds run, in the processes {listed}: say which by --process, or --all.", err=True
            )
            raise typer.Exit(SEVERAL_RUN)
        typer.echo(
            f"{len(own)} local clouds run, in the processes {listed}; this is the newest, {own[0].pid}. --process "
            "chooses another.",
            err=True,
        )
    return own[0]


def _none_runs(others: Sequence[RunningCloud] = ()) -> typer.Exit:
    """Say that there is no cloud to take; return what ends the command."""
    if others:
        listed = ", ".join(str(running.pid) for running in others)
        typer.echo(
            f"No local cloud of yours runs: start one with `voice local up`. A demo or a test runs one for itself "
            f"(process {listed}); --process takes that one.",
            err=True,
        )
    else:
        typer.echo("No local cloud runs on this machine: start one with `voice local up`.", err=True)
    return typer.Exit(NONE_RUNS)
