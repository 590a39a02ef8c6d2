"""`make deploy` and `make destroy` as a user has them after `eval "$(voice local env)"`: done, proven, nothing left."""

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.soak.user_shell import UserShell, user_shell

pytestmark = [pytest.mark.soak, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[UserShell]:
    with user_shell(tmp_path_factory.mktemp("cloud")) as shell:
        yield shell


def module(name: str, *words: str) -> tuple[str, ...]:
    return (sys.executable, "-m", f"voice_ops.{name}", *words, "--stage", "dev")


def told(shell: UserShell, name: str, *words: str) -> dict[str, Any]:
    return dict(json.loads(shell.run(*module(name, *words, "--json")).stdout))


def test_a_cancelled_deploy_ends_the_cdk_cli_with_it(shell: UserShell) -> None:
    deploying = shell.start(*module("deployment"))
    assert deploying.stdout is not None
    try:
        said = next(line for line in deploying.stdout if "cdk synth" in line)
        time.sleep(1.0)  # the CLI runs by now, or starts
        children = psutil.Process(deploying.pid).children(recursive=True)
        deploying.terminate()
        rest, _ = deploying.communicate(timeout=60)
    finally:
        deploying.kill()

    assert deploying.returncode == 130, said + rest
    assert "interrupted" in rest
    assert children, "there was nothing to end"
    assert psutil.wait_procs(children, timeout=30)[1] == []


def test_a_stage_is_deployed_proven_watched_paused_and_destroyed_without_a_trace(shell: UserShell) -> None:
    deployed = told(shell, "deployment")
    assert {one["endpoint"]: one["state"] for one in deployed["endpoints"]} == {
        "dev-voice-stt": "InService",
        "dev-voice-tts": "InService",
    }
    assert deployed["smoke_test"]["audio_seconds"] > 2
    assert deployed["smoke_test"]["heard"] > 0.5
    assert Path(deployed["smoke_test"]["spoken"]).is_file()

    status = told(shell, "cli_status")
    assert [one["instances"][0]["instance_type"] for one in status["endpoints"]] == ["ml.g6.xlarge"] * 2
    assert "session closed" in shell.run(*module("cli_logs", "stt", "--since", "1h")).stdout

    paused = told(shell, "deployment", "-c", "paused=true")
    assert {one["state"] for one in paused["endpoints"]} == {"Paused"}
    assert paused["smoke_test"] is None

    destroyed = told(shell, "deployment", "--destroy")
    assert (destroyed["left"], destroyed["kept"]) == ([], [])
    assert {one["state"] for one in told(shell, "cli_status")["endpoints"]} == {"NotDeployed"}


def test_what_the_doctor_finds_stops_the_deploy_before_anything_is_made(shell: UserShell) -> None:
    wrong = shell.run(*module("deployment", "-c", "stt.weights=s3://no-such-bucket/voxtral/"), expect=3)
    assert "no-such-bucket" in wrong.stdout
    assert "FORCE=1" in wrong.stderr
