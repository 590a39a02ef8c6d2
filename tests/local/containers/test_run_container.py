"""An image of one's own as plain processes: what `voice local run-container` shows, and how it ends."""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from websockets.sync.client import connect

from voice_local.containers.run_container import ContainerEvent, ContainerRun, RunContainerError, run_container

OWN_IMAGE = Path(__file__).parent / "own_image"
VOICE = Path(sys.executable).with_name("voice")
DEADLINE = 60.0


async def events_of(run: ContainerRun, work_dir: Path) -> list[ContainerEvent]:
    events: list[ContainerEvent] = []
    async with asyncio.timeout(DEADLINE):
        await run_container(run, work_dir, asyncio.Event(), events.append)
    return events


async def test_a_healthy_image_is_shown_and_stopped(tmp_path: Path) -> None:
    run = ContainerRun(OWN_IMAGE, environment={"GREETING": "hello"}, port=0, until_healthy=True)
    events = await events_of(run, tmp_path)
    kinds = [event.kind for event in events]
    assert [kind for kind in kinds if kind != "log"] == ["started", "ping", "stream", "stopped"]
    by_kind = {event.kind: event.fields for event in events}
    assert by_kind["started"]["bidirectional"] is True
    assert by_kind["ping"]["healthy"] is True
    assert by_kind["stream"]["accepted"] is True
    assert by_kind["stopped"]["exit_code"] == 0
    log = [event.text for event in events if event.kind == "log"]
    assert log[0].endswith(f"port {by_kind['started']['port']}, greeting hello")
    assert log[-1] == "good bye", "output written while it stops is shown too"


async def test_a_container_that_never_answers_ping_is_a_failure(tmp_path: Path) -> None:
    run = ContainerRun(OWN_IMAGE, environment={"SICK": "1"}, port=0, healthy_within=1.0)
    with pytest.raises(RunContainerError, match=r"did not answer 200 within 1 s \(--healthy-within\)$"):
        await events_of(run, tmp_path)


async def test_a_container_on_another_port_is_told_which_it_should_take(tmp_path: Path, free_port: int) -> None:
    run = ContainerRun(OWN_IMAGE, environment={"PORT_ANYWAY": str(free_port)}, port=0, healthy_within=1.5)
    with pytest.raises(RunContainerError, match=rf"listens on {free_port}, not on .*SAGEMAKER_BIND_TO_PORT"):
        await events_of(run, tmp_path)


async def test_a_container_that_ends_by_itself_is_a_failure_with_its_code(tmp_path: Path) -> None:
    context = tmp_path / "image"
    context.mkdir()
    (context / "Dockerfile").write_text(
        'FROM x\nENTRYPOINT ["python3", "-c", "import sys; print(sys.argv); sys.exit(7)"]\n', encoding="utf-8"
    )
    with pytest.raises(RunContainerError, match="exit code 7"):
        await events_of(ContainerRun(context, port=0), tmp_path / "work")
    with pytest.raises(RunContainerError, match="TMPDIR"):
        await events_of(ContainerRun(context, port=0), context / "work")


async def test_an_image_without_an_entrypoint_runs_its_program_serve(tmp_path: Path) -> None:
    """SageMaker's older images have a program `serve` on the PATH, and `docker run IMAGE serve` finds it."""
    context = tmp_path / "image"
    context.mkdir()
    shutil.copy(OWN_IMAGE / "serve.py", context / "server.py")
    (context / "serve").write_text("#!/bin/sh\nexec helper serve\n", encoding="utf-8")
    (context / "helper").write_text('#!/bin/sh\nexec python3 "$HOME_OF_PROGRAM/server.py" "$@"\n', encoding="utf-8")
    for name in ("serve", "helper"):
        (context / name).chmod(0o755)
    (context / "Dockerfile").write_text(
        'FROM x\nCOPY . /opt/program\nENV PATH="/opt/program:${PATH}" HOME_OF_PROGRAM=/opt/program\n', encoding="utf-8"
    )
    events = await events_of(ContainerRun(context, port=0, until_healthy=True), tmp_path / "work")
    started = next(event for event in events if event.kind == "started")
    assert started.fields["bidirectional"] is False
    assert "never open a stream" in started.text
    assert [event.kind for event in events if event.kind != "log"] == ["started", "ping", "stopped"]


@pytest.mark.parametrize(
    ("dockerfile", "message"),
    [
        (None, "There is no .*Dockerfile"),
        ("RUN true\n", "no FROM"),
        ("FROM x\nENTRYPOINT start\n", "exec form"),
        ("FROM x\nCOPY a /\n", "no program named serve"),
    ],
)
async def test_what_cannot_be_run_is_said(tmp_path: Path, dockerfile: str | None, message: str) -> None:
    context = tmp_path / "image"
    context.mkdir()
    if dockerfile is not None:
        (context / "Dockerfile").write_text(dockerfile, encoding="utf-8")
    with pytest.raises(RunContainerError, match=message):
        await events_of(ContainerRun(context, port=0), tmp_path / "work")


def test_the_command_streams_until_ctrl_c() -> None:
    command = [str(VOICE), "local", "run-container", str(OWN_IMAGE), "--port", "0", "-e", "GREETING=you", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            events = []
            while not events or events[-1]["event"] != "stream":
                events.append(json.loads(process.stdout.readline()))
            with connect(f"ws://127.0.0.1:{events[0]['port']}/invocations-bidirectional-stream") as stream:
                stream.send("what I say")
                assert stream.recv(5) == "what I say"
            os.kill(process.pid, signal.SIGINT)
            rest, errors = process.communicate(timeout=DEADLINE)
        finally:
            process.kill()
    assert process.returncode == 0, errors
    assert json.loads(rest.splitlines()[-1]) == {"event": "stopped", "exit_code": 0}
    assert "what I say" not in rest + errors + json.dumps(events)


def test_a_wrong_variable_is_named() -> None:
    command = [str(VOICE), "local", "run-container", str(OWN_IMAGE), "-e", "GREETING", "-e", "=x"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE, check=False)
    assert done.returncode == 2
    assert "GREETING, =x" in " ".join(done.stderr.replace("│", " ").split())
