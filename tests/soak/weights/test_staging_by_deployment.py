"""Weights staged by a deployment: the real CDK CLI, the stack's own function and build, a hub that corrupts a file."""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.local.control_plane.conftest import PingHost
from tests.ops.weights.hub_server import HubServer
from voice_local.cdk_cli import CdkCli, CdkCommandError
from voice_local.control_plane import ControlPlane
from voice_local.docker_shim import write_wrapper
from voice_local.identity import LocalIdentity
from voice_local.isolation import IsolatedClients, isolated_environment

pytestmark = [pytest.mark.soak, pytest.mark.timeout(600)]

PROJECT = Path(__file__).parents[3]
MODEL = "mistralai/Voxtral-Mini-4B-Realtime-2602"
FILES = {
    "consolidated.safetensors": os.urandom(3_000_000),
    "params.json": b"{}",
    "tekken.json": os.urandom(1_500_000),
    "README.md": b"# not needed",
}
NEEDED = {"consolidated.safetensors", "params.json", "tekken.json"}
STACKS = ("dev-voice-weights", "dev-voice-stt")


@dataclass(frozen=True)
class Cloud:
    """A control plane in this process, a hub, and the project's app for them."""

    hub: HubServer
    identity: LocalIdentity
    url: str
    cli: CdkCli

    def client(self, service: str) -> Any:
        return IsolatedClients(self.identity, self.url).of(service)

    def objects(self) -> set[str]:
        bucket = self.bucket()
        return {item["Key"] for item in self.client("s3").list_objects_v2(Bucket=bucket).get("Contents", ())}

    def bucket(self) -> str:
        name = "/sagemaker-voice-weights/dev/bucket"
        return str(self.client("ssm").get_parameter(Name=name)["Parameter"]["Value"])

    def builds(self) -> list[dict[str, Any]]:
        codebuild = self.client("codebuild")
        ids = codebuild.list_builds()["ids"]
        return list(codebuild.batch_get_builds(ids=ids)["builds"]) if ids else []

    def build_log(self) -> str:
        build = self.builds()[-1]
        logs = self.client("logs").get_log_events(
            logGroupName=build["logs"]["groupName"], logStreamName=build["logs"]["streamName"], startFromHead=True
        )
        return "\n".join(event["message"] for event in logs["events"])


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[Cloud]:
    identity, host = LocalIdentity(), PingHost(tmp_path)
    images = tmp_path / "images"
    try:
        with (
            HubServer(MODEL, FILES) as hub,
            ControlPlane(host, identity, images_dir=images) as plane,
        ):
            environment = isolated_environment(
                {**os.environ, "NODE_NO_WARNINGS": "1"}, identity=identity, control_plane_url=plane.url
            )
            context = {
                "stage": "dev",
                "stt.weights": "staged",
                "stt.revision": hub.commit,
                "staging.hub": hub.url,
            }
            log = tmp_path / "cdk.log"
            CdkCli(PROJECT, environment, log, context=context).synth(tmp_path / "cdk.out")
            cli = CdkCli(
                PROJECT, environment, log, docker=write_wrapper(tmp_path / "docker", images), app=tmp_path / "cdk.out"
            )
            yield Cloud(hub, identity, plane.url, cli)
    finally:
        for container in host.running():
            container.stop()


def test_a_deployment_stages_what_is_missing_refuses_what_is_wrong_and_copies_nothing_twice(cloud: Cloud) -> None:
    cloud.cli.bootstrap(cloud.identity.account_id, cloud.identity.region)
    folder = f"models/{MODEL}/{cloud.hub.commit}"

    cloud.hub.faults.corrupt["tekken.json"] = 100
    with pytest.raises(CdkCommandError) as failed:
        cloud.cli.deploy(*STACKS)
    reason = "\n".join(failed.value.reasons)
    assert f"The weights of {MODEL}@{cloud.hub.commit} are not complete" in reason
    assert "tekken.json: its sha256 is" in reason
    assert cloud.client("sagemaker").list_models()["Models"] == []
    # What was right stays, and no manifest says that all is there.
    assert cloud.objects() == {f"{folder}/consolidated.safetensors", f"{folder}/params.json"}
    assert cloud.builds()[-1]["buildStatus"] == "FAILED"
    assert "failed: tekken.json" in cloud.build_log()

    cloud.client("cloudformation").delete_stack(StackName="dev-voice-stt")
    cloud.hub.faults.corrupt.clear()
    cloud.hub.faults.cut_after["tekken.json"] = [1_000_000, 0]
    asked = len(cloud.hub.asked)
    cloud.cli.deploy(*STACKS)
    assert {path for path, _ in cloud.hub.asked[asked:]} == {"tekken.json"}
    assert cloud.objects() == {*(f"{folder}/{name}" for name in NEEDED), f"{folder}.manifest.json"}
    endpoint = cloud.client("sagemaker").describe_endpoint(EndpointName="dev-voice-stt")
    assert endpoint["EndpointStatus"] == "InService"
    (model, *_) = cloud.client("sagemaker").list_models()["Models"]
    container = cloud.client("sagemaker").describe_model(ModelName=model["ModelName"])["PrimaryContainer"]
    assert container["ModelDataSource"]["S3DataSource"]["S3Uri"] == f"s3://{cloud.bucket()}/{folder}/"

    # The endpoint goes, the weights stay; when it comes back, nothing is copied and nothing is built.
    cloud.cli.destroy("dev-voice-stt")
    assert f"{folder}.manifest.json" in cloud.objects()
    asked, builds = len(cloud.hub.asked), len(cloud.builds())
    cloud.cli.deploy(*STACKS)
    assert cloud.client("sagemaker").describe_endpoint(EndpointName="dev-voice-stt")["EndpointStatus"] == "InService"
    assert (len(cloud.hub.asked), len(cloud.builds())) == (asked, builds)

    # Nobody's token, and nothing of the answer's signed URL, in what a build shows.
    shown = json.dumps(cloud.builds(), default=str) + cloud.build_log()
    assert "X-Amz-Signature" not in shown
    # The bucket outlives its stack.
    cloud.cli.destroy("dev-voice-stt", "dev-voice-weights")
    assert any("weights" in bucket["Name"] for bucket in cloud.client("s3").list_buckets()["Buckets"])
