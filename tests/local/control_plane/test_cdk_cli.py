"""The runner of the CDK CLI: what it makes of the CLI's output, and one whole cycle with the real CLI."""

import json
import os
import threading
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from voice_local.cdk_cli import (
    CdkCancelledError,
    CdkCli,
    CdkCommandError,
    CdkNotInstalledError,
    CdkStep,
    CdkTimeoutError,
    parse_event,
)
from voice_local.docker_shim import write_wrapper
from voice_local.isolation import isolated_environment
from voice_local.leftovers import Inventory

PROJECT = Path(__file__).parents[3]

FAILED = (
    "dev-voice-stt | 3/9 | 4:44:03 PM | CREATE_FAILED        | AWS::SageMaker::Endpoint    "
    "| Voice/Endpoint (VoiceEndpoint0BB5F1EF) did not stabilize: no | pipe"
)


@pytest.mark.parametrize(
    ("line", "step"),
    [
        (
            FAILED,
            CdkStep(
                "dev-voice-stt",
                "CREATE_FAILED",
                "AWS::SageMaker::Endpoint",
                "Voice/Endpoint",
                "did not stabilize: no | pipe",
            ),
        ),
        (
            "CDKToolkit |  2/15 | 5:02:29 PM | CREATE_IN_PROGRESS      | AWS::IAM::Role             | LookupRole ",
            CdkStep("CDKToolkit", "CREATE_IN_PROGRESS", "AWS::IAM::Role", "LookupRole", ""),
        ),
        (
            "S |   0 | 17:02:29 | DELETE_COMPLETE | AWS::CDK::Metadata | CDKMetadata",
            CdkStep("S", "DELETE_COMPLETE", "AWS::CDK::Metadata", "CDKMetadata", ""),
        ),
        ("Synthesis time: 0.03s", None),
        ("a | b | c", None),
    ],
)
def test_events_are_read_out_of_the_output(line: str, step: CdkStep | None) -> None:
    assert parse_event(line) == step


def fake_project(tmp_path: Path, script: str) -> Path:
    """Return a project whose CLI is a shell script: for what the real one cannot be made to do in a test."""
    cdk = tmp_path / "project" / "node_modules" / ".bin" / "cdk"
    cdk.parent.mkdir(parents=True)
    cdk.write_text("#!/bin/sh\n" + script)
    cdk.chmod(0o755)
    return tmp_path / "project"


def test_a_failure_names_the_resource_its_reason_and_the_log(tmp_path: Path) -> None:
    project = fake_project(tmp_path, f"echo '{FAILED}'\necho noise\nexit 1\n")
    log = tmp_path / "logs" / "cdk.log"
    steps: list[CdkStep] = []
    with pytest.raises(CdkCommandError) as failed:
        CdkCli(project, os.environ, log).deploy(on_step=steps.append)
    assert failed.value.exit_code == 1
    assert failed.value.reasons == (
        "dev-voice-stt AWS::SageMaker::Endpoint Voice/Endpoint: did not stabilize: no | pipe",
    )
    assert str(log) in str(failed.value)
    assert [step.status for step in steps] == ["CREATE_FAILED"]
    assert "noise" in log.read_text()


def test_without_a_failed_resource_the_last_words_are_the_reason(tmp_path: Path) -> None:
    project = fake_project(tmp_path, "echo 'Need to bootstrap first' >&2\nexit 1\n")
    with pytest.raises(CdkCommandError, match="Need to bootstrap first"):
        CdkCli(project, os.environ, tmp_path / "log").destroy()


def test_without_a_cli_it_says_what_to_run(tmp_path: Path) -> None:
    with pytest.raises(CdkNotInstalledError, match="npm ci"):
        CdkCli(tmp_path, os.environ, tmp_path / "log").deploy()


SLEEPER = "echo started\nsleep 300 &\nwait\n"


def children() -> list[psutil.Process]:
    return [child for child in psutil.Process().children(recursive=True) if child.name() in {"sleep", "cdk", "sh"}]


def test_a_command_that_takes_too_long_is_ended_with_its_children(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("voice_local.cdk_cli.DEPLOY_SECONDS", 0.5)
    began = time.monotonic()
    with pytest.raises(CdkTimeoutError, match=r"ended after 0\.5 s"):
        CdkCli(fake_project(tmp_path, SLEEPER), os.environ, tmp_path / "log").deploy()
    assert time.monotonic() - began < 10
    assert children() == []


def test_an_interrupt_ends_the_cli_and_its_children(tmp_path: Path) -> None:
    def interrupt(_step: CdkStep) -> None:
        raise KeyboardInterrupt

    project = fake_project(tmp_path, f"echo '{FAILED}'\n{SLEEPER}")
    with pytest.raises(KeyboardInterrupt):
        CdkCli(project, os.environ, tmp_path / "log").deploy(on_step=interrupt)
    assert children() == []


def test_another_thread_can_cancel_and_nothing_starts_after(tmp_path: Path) -> None:
    project = fake_project(tmp_path, f"echo '{FAILED}'\n{SLEEPER}")
    cli = CdkCli(project, os.environ, tmp_path / "log")

    def cancel(_step: CdkStep) -> None:
        threading.Thread(target=cli.cancel).start()

    with pytest.raises(CdkCancelledError):
        cli.deploy(on_step=cancel)
    with pytest.raises(CdkCancelledError):
        cli.destroy()
    assert children() == []


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


@pytest.mark.e2e
@pytest.mark.timeout(300)
def test_the_real_cli_bootstraps_deploys_fails_with_a_reason_and_destroys(
    plane, host, identity, images_dir, tmp_path, *, template
) -> None:
    context = tmp_path / "context"
    context.mkdir()
    (context / "Dockerfile").write_text("FROM base\nLABEL a=b\n")
    environment = isolated_environment(os.environ, identity=identity, control_plane_url=plane.url)
    docker = write_wrapper(tmp_path / "docker", images_dir)

    def cli(name: str, wanted: Any) -> CdkCli:
        app = write_app(tmp_path / name, wanted, context)
        return CdkCli(PROJECT, environment, tmp_path / "cdk.log", docker=docker, app=app)

    good = cli("good", template(image=IMAGE))
    steps: list[CdkStep] = []
    good.bootstrap(identity.account_id, identity.region)
    good.deploy(on_step=steps.append)
    assert [step.status for step in steps if step.resource_type == "AWS::SageMaker::Endpoint"] == [
        "CREATE_IN_PROGRESS",
        "CREATE_COMPLETE",
    ]
    assert [container.spec.image for container in host.running()] == [IMAGE]
    inventory = Inventory(identity, plane.url)
    assert f"{IMAGE.partition('/')[2]}" in {r.name for r in inventory.left_over() if r.kind == "image"}
    assert not good.diff()

    bad = cli("bad", template(image=IMAGE, mode="broken"))
    assert bad.diff()
    with pytest.raises(CdkCommandError) as failed:
        bad.deploy()
    assert any("CUDA error: no kernel image is available" in reason for reason in failed.value.reasons)
    assert len(host.running()) == 1

    good.destroy()
    assert host.running() == []
    inventory.delete_assets()
    assert inventory.left_over() == []
    assert threading.active_count() < 50
