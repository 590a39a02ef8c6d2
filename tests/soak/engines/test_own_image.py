"""An image of one's own as an endpoint of the local cloud: built and pushed as the CDK CLI does, reached by the SDK."""

import asyncio
import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests.local.data_plane.sdk_client import open_stream, sdk_client
from voice_local.cloud import LocalCloud
from voice_local.isolation import IsolatedClients

pytestmark = pytest.mark.soak

OWN_IMAGE = Path(__file__).parents[2] / "local" / "containers" / "own_image"
IN_SERVICE_SECONDS = 60.0


async def test_an_image_of_ones_own_serves_streams(tmp_path: Path) -> None:
    async with LocalCloud(tmp_path) as cloud:
        description, identity = cloud.description, cloud.identity
        image = f"{identity.account_id}.dkr.ecr.{identity.region}.amazonaws.com/own:1"
        assert description.docker is not None
        for command in (["build", "--tag", "own", str(OWN_IMAGE)], ["tag", "own", image], ["push", image]):
            await asyncio.to_thread(docker, description.docker, *command)
        sagemaker = IsolatedClients(identity, description.control_plane).of("sagemaker")
        await asyncio.to_thread(create_endpoint, sagemaker, image, f"arn:aws:iam::{identity.account_id}:role/own")
        async with sdk_client(
            description.data_plane,
            description.ca_bundle,
            identity.access_key_id,
            identity.secret_access_key,
            identity.region,
        ) as client:
            stream = await (await open_stream(client, "own")).opened()
            await stream.send(b"was ich sage", data_type="UTF8")
            event = await stream.receive()
            assert event.value.bytes_ == b"was ich sage"
            await stream.end_input()
            assert await stream.receive() is None
        (log,) = (tmp_path / "containers").glob("*.log")
        assert "greeting from the model" in log.read_text(encoding="utf-8")


def docker(executable: Path, *arguments: str) -> None:
    """Run one command of the stand-in for Docker, with the variable that the CDK CLI sets."""
    environment = {**os.environ, "BUILDX_NO_DEFAULT_ATTESTATIONS": "1"}
    subprocess.run([str(executable), *arguments], env=environment, check=True, timeout=60)


def create_endpoint(sagemaker: Any, image: str, role: str) -> None:
    """Create model, config and endpoint `own` and wait until it is in service."""

    container = {"Image": image, "Environment": {"GREETING": "from the model"}}
    sagemaker.create_model(ModelName="own", PrimaryContainer=container, ExecutionRoleArn=role)
    variant = {
        "VariantName": "main",
        "ModelName": "own",
        "InstanceType": "ml.g6.xlarge",
        "InitialInstanceCount": 1,
        "InferenceAmiVersion": "al2-ami-sagemaker-inference-gpu-3-1",
    }
    sagemaker.create_endpoint_config(EndpointConfigName="own", ProductionVariants=[variant])
    sagemaker.create_endpoint(EndpointName="own", EndpointConfigName="own")
    deadline = time.monotonic() + IN_SERVICE_SECONDS
    while (state := sagemaker.describe_endpoint(EndpointName="own"))["EndpointStatus"] == "Creating":
        assert time.monotonic() < deadline, state
        time.sleep(0.2)
    assert state["EndpointStatus"] == "InService", state.get("FailureReason")
