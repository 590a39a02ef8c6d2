"""The life of a production stage, as docs/operations.md tells it: the real CDK CLI, deploying to a local cloud."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import pytest

from tests.soak.user_shell import UserShell, user_shell

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1500)]

OLD_POOLS = ["ml.g6.xlarge", "ml.g6e.xlarge", "ml.g5.xlarge", "ml.g4dn.xlarge"]
NEW_POOLS = ["ml.g5.xlarge", "ml.g6.xlarge"]


@dataclass(frozen=True)
class ProductionStage:
    """The stage prod, as the CDK CLI makes it and as AWS's APIs show it."""

    shell: UserShell
    folder: Path

    def cdk(self, command: str, *arguments: str) -> None:
        """Run the project's CDK CLI."""
        words = [command, *arguments, "--output", str(self.folder / "cdk.out"), "--ci", "--no-color", "--no-notices"]
        self.shell.run("node_modules/.bin/cdk", *words)

    def deploy(self, *context: str) -> None:
        """Deploy prod with settings on the command line."""
        settings = [word for setting in ("stage=prod", *context) for word in ("-c", setting)]
        self.cdk("deploy", "--all", "--require-approval", "never", "--method=direct", *settings)

    def client(self, service: str) -> Any:
        return boto3.client(
            service,
            endpoint_url=self.shell.description["control_plane"],
            region_name=self.shell.description["region"],
            aws_access_key_id=self.shell.description["access_key"],
            aws_secret_access_key=self.shell.description["secret_key"],
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
def stage(tmp_path: Path) -> Iterator[ProductionStage]:
    with user_shell(tmp_path) as shell:
        yield ProductionStage(shell, tmp_path)


def test_deploy_change_pause_come_back_destroy(stage: ProductionStage) -> None:
    stage.cdk("bootstrap")
    stage.deploy()
    assert stage.live() == {
        "prod-voice-stt": ("InService", OLD_POOLS),
        "prod-voice-tts": ("InService", OLD_POOLS),
    }
    whole = stage.counts()
    assert whole == {
        "endpoints": 2,
        "configs": 2,
        "models": 4,
        "alarms": 8,
        "dashboards": 1,
        "scalable targets": 2,
        "topics": 2,
    }

    stage.deploy(f"tts.instance_types={','.join(NEW_POOLS)}")
    assert stage.live() == {
        "prod-voice-stt": ("InService", OLD_POOLS),
        "prod-voice-tts": ("InService", NEW_POOLS),
    }
    assert stage.counts() == {**whole, "models": 3}, "the old config and the T4's model are gone"

    stage.deploy("paused=true")
    assert stage.live() == {}
    paused = stage.counts()
    assert (paused["models"], paused["configs"]) == (4, 2), "what bills nothing stays"
    assert (paused["alarms"], paused["scalable targets"]) == (0, 0)

    stage.deploy()
    assert stage.live() == {
        "prod-voice-stt": ("InService", OLD_POOLS),
        "prod-voice-tts": ("InService", OLD_POOLS),
    }
    assert stage.counts() == whole

    stage.deploy("termination_protection=false", "retain_logs=false")
    stage.cdk("destroy", "--all", "--force", "-c", "stage=prod")
    assert stage.counts() == dict.fromkeys(whole, 0)
    assert stage.client("logs").describe_log_groups()["logGroups"] == []
    parameters = stage.client("ssm").describe_parameters()["Parameters"]
    assert [found["Name"] for found in parameters if not found["Name"].startswith("/cdk-bootstrap/")] == []
