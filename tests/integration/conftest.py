"""Where the suite runs: the local cloud, which it deploys and takes down itself, or a stage on AWS that is deployed.

make integration TARGET=local
make integration TARGET=aws STAGE=dev
"""

import json
import os
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import BotoCoreError

from tests.e2e.deployed_cloud import DEPLOY_SECONDS, ROOT, VOICE, first_line

HOURLY_DOLLARS = 2.25
"""Both voices on ml.g6.xlarge, us-east-1 (docs/costs.md)."""

COMMAND_SECONDS = 120


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--target", choices=("local", "aws"), default="local", help="where the stage is deployed")
    parser.addoption("--stage", default="dev", help="the stage to test")


@dataclass(frozen=True)
class DeployedStage:
    """A deployed stage, and the environment that reaches it."""

    stage: str
    environment: Mapping[str, str]
    client: Callable[[str], Any]
    """Returns a boto3 client of a service, in the account of the stage."""

    def voice(self, *arguments: str | Path) -> dict[str, Any]:
        done = subprocess.run(
            [VOICE, *arguments, "--stage", self.stage, "--json"],
            env=dict(self.environment),
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        result: dict[str, Any] = json.loads(done.stdout)
        return result


@pytest.fixture(scope="session")
def deployed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DeployedStage]:
    stage = request.config.getoption("--stage")
    if request.config.getoption("--target") == "local":
        yield from _local(stage, tmp_path_factory.mktemp("cloud"))
    else:
        yield _aws(stage)


def _aws(stage: str) -> DeployedStage:
    session = boto3.Session()
    try:
        found = session.get_credentials() is not None and session.region_name is not None
    except BotoCoreError as error:
        pytest.skip(
            f"no AWS credentials ({error}); a run keeps both voices busy for minutes, about ${HOURLY_DOLLARS}/h"
        )
    if not found:
        pytest.skip(f"no AWS credentials or region; a run keeps both voices busy, about ${HOURLY_DOLLARS}/h")
    return DeployedStage(stage, os.environ, session.client)


def _local(stage: str, folder: Path) -> Iterator[DeployedStage]:
    from voice_local.isolation import isolated_client
    from voice_local.running_cloud import CloudDescription

    log = folder / "cloud.log"
    command = [VOICE, "local", "up", "--deploy", "--stage", stage, "--data-port", "0", "--run-dir", folder / "run"]
    with log.open("wb") as stderr:
        process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=stderr, text=True
        )
    try:
        line = first_line(process, DEPLOY_SECONDS)
        assert line, f"no local cloud within {DEPLOY_SECONDS} s:\n{log.read_text()[-4000:]}"
        cloud = CloudDescription.model_validate_json(line)
        yield DeployedStage(
            stage,
            cloud.environment(os.environ),
            lambda service: isolated_client(service, identity=cloud.identity, endpoint_url=cloud.control_plane),
        )
    finally:
        process.terminate()
        process.wait(30)
        assert process.stdout is not None
        process.stdout.close()
