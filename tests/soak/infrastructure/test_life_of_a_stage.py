"""The life of a production stage, as docs/operations.md tells it: the real CDK CLI, deploying to a local cloud."""

import json
import os
import selectors
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import pytest

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1500)]

ROOT = Path(__file__).resolve().parents[3]
VOICE = Path(sys.executable).parent / "voice"

READY_SECONDS = 180
COMMAND_SECONDS = 400
"""A deploy takes 20 s on an idle machine."""

OLD_POOLS = ["ml.g6.xlarge", "ml.g6e.xlarge", "ml.g5.xlarge", "ml.g4dn.xlarge"]
NEW_POOLS = ["ml.g5.xlarge", "ml.g6.xlarge"]


@dataclass(frozen=True)
class Shell:
    """What a user has after `eval "$(voice local env)"`."""

    environment: dict[str, str]
    folder: Path
    description: dict[str, Any]

    def cdk(self, command: str, *arguments: str) -> str:
        """Run the project's CDK CLI; return its output."""
        line = 'eval "$("$0" local env)" && exec node_modules/.bin/cdk "$@"'
        words = [command, *arguments, "--output", str(self.folder / "cdk.out"), "--ci", "--no-color", "--no-notices"]
        done = subprocess.run(
            ["bash", "-c", line, str(VOICE), *words],
            cwd=ROOT,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=COMMAND_SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-4000:]
        return done.stdout

    def deploy(self, *context: str) -> str:
        """Deploy prod with settings on the command line."""
        settings = [word for setting in ("stage=prod", *context) for word in ("-c", setting)]
        return self.cdk("deploy", "--all", "--require-approval", "never", "--method=direct", *settings)

    def client(self, service: str) -> Any:
        return boto3.client(
            service,
            endpoint_url=self.description["control_plane"],
            region_name=self.description["region"],
            aws_access_key_id=self.description["access_key"],
            aws_secret_access_key=self.description["secret_key"],
        )

    def live(self) -> dict[str, tuple[str, list[str]]]:
        """Return endpoint -> status and pools of the config it runs on."""
        sagemaker = self.client("sagemaker")
        found = {}
        for listed in sagemaker.list_endpoints()["Endpoints"]:
            endpoint = sagemaker.describe_endpoint(EndpointName=listed["EndpointName"])
            config = sagemaker.describe_endpoint_config(EndpointConfigName=endpoint["EndpointConfigName"])
            pools = [pool["InstanceType"] for pool in config["ProductionVariants"][0]["InstancePools"]]
            found[endpoint["EndpointName"]] = (endpoint["EndpointStatus"], pools)
        return found

    def counts(self) -> dict[str, int]:
        sagemaker = self.client("sagemaker")
        targets = self.client("application-autoscaling").describe_scalable_targets(ServiceNamespace="sagemaker")
        return {
            "endpoints": len(sagemaker.list_endpoints()["Endpoints"]),
            "configs": len(sagemaker.list_endpoint_configs()["EndpointConfigs"]),
            "models": len(sagemaker.list_models()["Models"]),
            "alarms": len(self.client("cloudwatch").describe_alarms()["MetricAlarms"]),
            "dashboards": len(self.client("cloudwatch").list_dashboards()["DashboardEntries"]),
            "scalable targets": len(targets["ScalableTargets"]),
            "topics": len(self.client("sns").list_topics()["Topics"]),
        }


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "CDK_"))},
        "HOME": str(tmp_path / "home"),
        "XDG_STATE_HOME": str(tmp_path / "home" / "state"),
        "CDK_HOME": str(tmp_path / "cdk-home"),
        "NODE_NO_WARNINGS": "1",
    }
    (tmp_path / "home").mkdir()
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
        line = process.stdout.readline()
        assert line, log.read_text()[-4000:]
        yield Shell(environment, tmp_path, json.loads(line))
    finally:
        process.terminate()
        process.wait(60)
        process.stdout.close()


def test_deploy_change_pause_come_back_destroy(shell: Shell) -> None:
    shell.cdk("bootstrap")
    shell.deploy()
    assert shell.live() == {
        "prod-voice-stt": ("InService", OLD_POOLS),
        "prod-voice-tts": ("InService", OLD_POOLS),
    }
    whole = shell.counts()
    assert whole == {
        "endpoints": 2,
        "configs": 2,
        "models": 4,
        "alarms": 8,
        "dashboards": 1,
        "scalable targets": 2,
        "topics": 2,
    }

    shell.deploy(f"tts.instance_types={','.join(NEW_POOLS)}")
    assert shell.live() == {
        "prod-voice-stt": ("InService", OLD_POOLS),
        "prod-voice-tts": ("InService", NEW_POOLS),
    }
    assert shell.counts() == {**whole, "models": 3}, "the old config and the T4's model are gone"

    shell.deploy("paused=true")
    assert shell.live() == {}
    paused = shell.counts()
    assert (paused["models"], paused["configs"]) == (4, 2), "what bills nothing stays"
    assert (paused["alarms"], paused["scalable targets"]) == (0, 0)

    shell.deploy()
    assert shell.live() == {
        "prod-voice-stt": ("InService", OLD_POOLS),
        "prod-voice-tts": ("InService", OLD_POOLS),
    }
    assert shell.counts() == whole

    shell.deploy("termination_protection=false", "retain_logs=false")
    shell.cdk("destroy", "--all", "--force", "-c", "stage=prod")
    assert shell.counts() == dict.fromkeys(whole, 0)
    assert shell.client("logs").describe_log_groups()["logGroups"] == []
    parameters = shell.client("ssm").describe_parameters()["Parameters"]
    assert [found["Name"] for found in parameters if not found["Name"].startswith("/cdk-bootstrap/")] == []
