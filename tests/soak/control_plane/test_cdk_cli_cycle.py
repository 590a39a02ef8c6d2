"""Whole lives of a stack with the real CDK CLI, deployed directly and by change sets, as on AWS."""

import json
import os
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.local.control_plane.conftest import PingHost, voice_template
from voice_local.cdk_cli import CdkCli, CdkCommandError, CdkStep
from voice_local.control_plane import ControlPlane, ControlPlaneSettings
from voice_local.docker_shim import write_wrapper
from voice_local.identity import LocalIdentity
from voice_local.isolation import IsolatedClients, isolated_environment
from voice_local.leftovers import Inventory

pytestmark = [pytest.mark.soak, pytest.mark.timeout(900)]

PROJECT = Path(__file__).parents[3]
CDK = PROJECT / "node_modules" / ".bin" / "cdk"
COMMAND_SECONDS = 300


def write_app(directory: Path, template: Any, context: Path) -> Path:
    """Write a synthesized app: one stack with an image asset, as `cdk synth` lays it out."""
    directory.mkdir()
    roles = "arn:${AWS::Partition}:iam::${AWS::AccountId}:role/cdk-hnb659fds-"
    account = "123456789012-us-east-1"
    environment = "aws://123456789012/us-east-1"
    assets = {
        "version": "36.0.0",
        "files": {
            "t1": {
                "source": {"path": "stack.template.json", "packaging": "file"},
                "destinations": {
                    "here": {
                        "bucketName": f"cdk-hnb659fds-assets-{account}",
                        "objectKey": f"{directory.name}.json",
                        "region": "us-east-1",
                        "assumeRoleArn": f"{roles}file-publishing-role-{account}",
                    }
                },
            }
        },
        "dockerImages": {
            "i1": {
                "source": {"directory": str(context), "platform": "linux/amd64"},
                "destinations": {
                    "here": {
                        "repositoryName": f"cdk-hnb659fds-container-assets-{account}",
                        "imageTag": "i1",
                        "region": "us-east-1",
                        "assumeRoleArn": f"{roles}image-publishing-role-{account}",
                    }
                },
            }
        },
    }
    manifest = {
        "version": "36.0.0",
        "artifacts": {
            "stack.assets": {
                "type": "cdk:asset-manifest",
                "properties": {
                    "file": "stack.assets.json",
                    "requiresBootstrapStackVersion": 6,
                    "bootstrapStackVersionSsmParameter": "/cdk-bootstrap/hnb659fds/version",
                },
            },
            "stack": {
                "type": "aws:cloudformation:stack",
                "environment": environment,
                "dependencies": ["stack.assets"],
                "properties": {
                    "templateFile": "stack.template.json",
                    "stackName": "voice",
                    "assumeRoleArn": f"{roles}deploy-role-{account}",
                    "cloudFormationExecutionRoleArn": f"{roles}cfn-exec-role-{account}",
                    "stackTemplateAssetObjectUrl": f"s3://cdk-hnb659fds-assets-{account}/{directory.name}.json",
                    "requiresBootstrapStackVersion": 6,
                    "bootstrapStackVersionSsmParameter": "/cdk-bootstrap/hnb659fds/version",
                },
            },
        },
    }
    for name, content in [("manifest", manifest), ("stack.assets", assets), ("stack.template", template)]:
        (directory / f"{name}.json").write_text(json.dumps(content))
    return directory


IMAGE = "123456789012.dkr.ecr.us-east-1.amazonaws.com/cdk-hnb659fds-container-assets-123456789012-us-east-1:i1"


@dataclass(frozen=True)
class Cloud:
    """A control plane in this process, and what the CLI needs to reach it."""

    plane: ControlPlane
    host: PingHost
    identity: LocalIdentity
    environment: dict[str, str]
    docker: Path
    folder: Path

    def client(self, service: str) -> Any:
        return IsolatedClients(self.identity, self.plane.url).of(service)

    def app(self, name: str, **options: Any) -> Path:
        context = self.folder / "context"
        context.mkdir(exist_ok=True)
        (context / "Dockerfile").write_text("FROM base\nLABEL a=b\n")
        return write_app(self.folder / name, voice_template(image=IMAGE, **options), context)

    def runner(self, app: Path) -> CdkCli:
        return CdkCli(PROJECT, self.environment, self.folder / "cdk.log", docker=self.docker, app=app)

    def plain(self, command: str, app: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the CLI as a user does who sets nothing: change sets, previous parameters, its own progress."""
        return subprocess.run(
            [CDK, command, "--all", "--app", app, "--ci", "--no-color", *arguments],
            cwd=self.folder,
            env={**self.environment, "CDK_DOCKER": str(self.docker), "CDK_HOME": str(self.folder / "cdk-home")},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=COMMAND_SECONDS,
            check=False,
        )

    def stack(self) -> str:
        stacks = self.client("cloudformation").describe_stacks()["Stacks"]
        return next((str(stack["StackStatus"]) for stack in stacks if stack["StackName"] == "voice"), "GONE")


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[Cloud]:
    identity, host, images = LocalIdentity(), PingHost(tmp_path), tmp_path / "images"
    settings = ControlPlaneSettings(container_startup_seconds=120)
    with ControlPlane(host, identity, images_dir=images, settings=settings) as plane:
        environment = isolated_environment(os.environ, identity=identity, control_plane_url=plane.url)
        cloud = Cloud(plane, host, identity, environment, write_wrapper(tmp_path / "docker", images), tmp_path)
        cloud.runner(cloud.app("bootstrap")).bootstrap(identity.account_id, identity.region)
        yield cloud
    assert host.running() == []


def test_direct_deployments_fail_with_a_reason_and_leave_nothing(cloud: Cloud) -> None:
    good = cloud.runner(cloud.app("good"))
    steps: list[CdkStep] = []
    good.deploy(on_step=steps.append)
    assert [step.status for step in steps if step.resource_type == "AWS::SageMaker::Endpoint"] == [
        "CREATE_IN_PROGRESS",
        "CREATE_COMPLETE",
    ]
    assert [container.spec.image for container in cloud.host.running()] == [IMAGE]
    inventory = Inventory(cloud.identity, cloud.plane.url)
    assert f"{IMAGE.partition('/')[2]}" in {r.name for r in inventory.left_over() if r.kind == "image"}
    assert not good.diff()

    bad = cloud.runner(cloud.app("bad", mode="broken"))
    assert bad.diff()
    with pytest.raises(CdkCommandError) as failed:
        bad.deploy()
    assert any("CUDA error: no kernel image is available" in reason for reason in failed.value.reasons)
    assert len(cloud.host.running()) == 1

    good.destroy()
    assert cloud.host.running() == []
    inventory.delete_assets()
    assert inventory.left_over() == []
    assert threading.active_count() < 50


def test_a_plain_cdk_deploy_creates_rolls_back_repairs_updates_and_destroys_by_change_sets(cloud: Cloud) -> None:
    always = ("--require-approval", "never")
    failed = cloud.plain("deploy", cloud.app("bad", mode="broken"), *always)
    assert failed.returncode != 0
    assert "CUDA error: no kernel image is available" in failed.stdout
    assert cloud.stack() == "ROLLBACK_COMPLETE"
    assert cloud.client("sagemaker").list_models()["Models"] == []

    # As with AWS, the CLI removes what was rolled back, and creates anew.
    good = cloud.app("good")
    done = cloud.plain("deploy", good, *always)
    assert done.returncode == 0, done.stdout[-4000:]
    assert cloud.stack() == "CREATE_COMPLETE"
    again = cloud.plain("deploy", good, *always)
    assert again.returncode == 0, again.stdout[-4000:]
    assert "no changes" in again.stdout
    before = cloud.client("sagemaker").describe_endpoint(EndpointName="dev-voice-stt")

    broken = cloud.plain("deploy", cloud.app("worse", mode="broken"), *always)
    assert broken.returncode != 0
    assert cloud.stack() == "UPDATE_ROLLBACK_COMPLETE"
    after = cloud.client("sagemaker").describe_endpoint(EndpointName="dev-voice-stt")
    assert (after["EndpointStatus"], after["EndpointConfigName"]) == ("InService", before["EndpointConfigName"])

    changed = cloud.app("changed", mode="changed")
    assert "environment" in (difference := cloud.plain("diff", changed)).stdout.lower(), difference.stdout
    done = cloud.plain("deploy", changed, *always)
    assert done.returncode == 0, done.stdout[-4000:]
    moved = cloud.client("sagemaker").describe_endpoint(EndpointName="dev-voice-stt")
    assert moved["EndpointConfigName"] != before["EndpointConfigName"]
    assert [dict(c.spec.environment)["MODE"] for c in cloud.host.running()] == ["changed"]

    done = cloud.plain("destroy", changed, "--force")
    assert done.returncode == 0, done.stdout[-4000:]
    inventory = Inventory(cloud.identity, cloud.plane.url)
    inventory.delete_assets()
    assert inventory.left_over() == []
