"""`make deploy` and `make destroy` as a user has them after `eval "$(voice local env)"`: done, proven, nothing left."""

import json
import os
import selectors
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.soak, pytest.mark.timeout(900)]

ROOT = Path(__file__).resolve().parents[3]
VOICE = Path(sys.executable).parent / "voice"
READY_SECONDS = 180
COMMAND_SECONDS = 400
"""A deploy with its proof takes 40 s on an idle machine, and 90 s on a busy one."""


class Shell:
    """A shell that talks to a local cloud."""

    def __init__(self, environment: dict[str, str]) -> None:
        self._environment = environment

    def run(self, *words: str, expect: int = 0) -> subprocess.CompletedProcess[str]:
        line = 'eval "$("$0" local env)" && exec "$@"'
        done = subprocess.run(
            ["bash", "-c", line, str(VOICE), sys.executable, "-m", *words],
            cwd=ROOT,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS,
            check=False,
        )
        assert done.returncode == expect, done.stderr[-4000:] + done.stdout[-2000:]
        return done

    def told(self, *words: str) -> dict[str, Any]:
        return dict(json.loads(self.run(*words, "--json").stdout))


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    tmp_path = tmp_path_factory.mktemp("cloud")
    (tmp_path / "home").mkdir()
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "CDK_"))},
        "HOME": str(tmp_path / "home"),
        "XDG_STATE_HOME": str(tmp_path / "home" / "state"),
        "CDK_HOME": str(tmp_path / "cdk-home"),
    }
    log = tmp_path / "cloud.log"
    with log.open("wb") as stderr:
        process = subprocess.Popen(
            [VOICE, "local", "up", "--data-port", "0", "--run-dir", tmp_path / "run"],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        )
    assert process.stdout is not None
    try:
        with selectors.DefaultSelector() as ready:
            ready.register(process.stdout, selectors.EVENT_READ)
            assert ready.select(READY_SECONDS), log.read_text()[-4000:]
        assert process.stdout.readline(), log.read_text()[-4000:]
        yield Shell(environment)
    finally:
        process.terminate()
        process.wait(60)
        process.stdout.close()


def test_a_stage_is_deployed_proven_watched_paused_and_destroyed_without_a_trace(shell: Shell) -> None:
    deployed = shell.told("voice_ops.deployment", "--stage", "dev")
    assert {one["endpoint"]: one["state"] for one in deployed["endpoints"]} == {
        "dev-voice-stt": "InService",
        "dev-voice-tts": "InService",
    }
    assert deployed["smoke_test"]["audio_seconds"] > 2
    assert deployed["smoke_test"]["heard"] > 0.5
    assert Path(deployed["smoke_test"]["spoken"]).is_file()

    status = shell.told("voice_ops.cli_status", "--stage", "dev")
    assert [one["instances"][0]["instance_type"] for one in status["endpoints"]] == ["ml.g6.xlarge"] * 2
    assert "session closed" in shell.run("voice_ops.cli_logs", "stt", "--since", "1h").stdout

    paused = shell.told("voice_ops.deployment", "--stage", "dev", "-c", "paused=true")
    assert {one["state"] for one in paused["endpoints"]} == {"Paused"}
    assert paused["smoke_test"] is None

    destroyed = shell.told("voice_ops.deployment", "--stage", "dev", "--destroy")
    assert (destroyed["left"], destroyed["kept"]) == ([], [])
    assert {one["state"] for one in shell.told("voice_ops.cli_status", "--stage", "dev")["endpoints"]} == {
        "NotDeployed"
    }


def test_what_the_doctor_finds_stops_the_deploy_before_anything_is_made(shell: Shell) -> None:
    wrong = shell.run(
        "voice_ops.deployment", "--stage", "dev", "-c", "stt.weights=s3://no-such-bucket/voxtral/", expect=3
    )
    assert "no-such-bucket" in wrong.stdout
    assert "FORCE=1" in wrong.stderr
