"""Endpoints over time: what their containers write, containers that die, images that do not fit their instances."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from voice_local.control_plane import ControlPlane, ControlPlaneSettings
from voice_local.control_plane.serving_cuda import cuda_of, mismatch
from voice_local.image_store import ImageStore, StoredImage
from voice_local.interfaces import EndpointStatus

CUDA_12 = "al2-ami-sagemaker-inference-gpu-3-1"
CUDA_13 = "al2023-ami-sagemaker-inference-gpu-4-1"
OMNI = "763104351884.dkr.ecr.us-east-1.amazonaws.com/vllm:omni-sagemaker-cuda-v1.5"
VLLM_2 = "vllm:server-sagemaker-cuda-v2.3"
VLLM_017 = "public.ecr.aws/x/vllm:0.17.1-gpu-py312-cu129-ubuntu22.04-sagemaker-v1.0-soci"


@pytest.fixture
def settings(startup_seconds: float) -> ControlPlaneSettings:
    return ControlPlaneSettings(
        container_startup_seconds=startup_seconds,
        stop_seconds=5,
        mismatch_seconds=0.5,
        watch_interval_seconds=0.05,
        restart_delay_seconds=0.05,
        longest_baking_seconds=0.2,
    )


def eventually(happened: Callable[[], Any], seconds: float = 60) -> Any:
    for _ in range(int(seconds / 0.05)):
        if value := happened():
            return value
        threading.Event().wait(0.05)
    raise TimeoutError


def create_endpoint(client: Any, image: str = "voice:1", ami: str = CUDA_13, **environment: str) -> Any:
    sagemaker = client("sagemaker")
    sagemaker.create_model(
        ModelName="model",
        ExecutionRoleArn="arn:aws:iam::123456789012:role/voice-execution",
        PrimaryContainer={"Image": image, "Environment": environment},
    )
    variant = {
        "VariantName": "main",
        "ModelName": "model",
        "InitialInstanceCount": 1,
        "InstanceType": "ml.g6.xlarge",
        "InferenceAmiVersion": ami,
    }
    sagemaker.create_endpoint_config(EndpointConfigName="config", ProductionVariants=[variant])
    sagemaker.create_endpoint(EndpointName="ear", EndpointConfigName="config")
    return sagemaker


def status(sagemaker: Any) -> str:
    return str(sagemaker.describe_endpoint(EndpointName="ear")["EndpointStatus"])


def logged(client: Any) -> list[str]:
    logs = client("logs")
    if not logs.describe_log_groups(logGroupNamePrefix="/aws/sagemaker/Endpoints/ear")["logGroups"]:
        return []
    events = logs.filter_log_events(logGroupName="/aws/sagemaker/Endpoints/ear")["events"]
    return [event["message"] for event in events]


def test_what_a_container_writes_is_in_cloudwatch_logs(client, host) -> None:
    sagemaker = create_endpoint(client, SAYS="ready to listen")
    assert eventually(lambda: logged(client)) == ["ready to listen"]
    streams = client("logs").describe_log_streams(logGroupName="/aws/sagemaker/Endpoints/ear")["logStreams"]
    assert [stream["logStreamName"].partition("/i-")[0] for stream in streams] == ["main"]
    sagemaker.delete_endpoint(EndpointName="ear")


def test_a_container_that_cannot_start_leaves_its_last_words_in_the_log(client) -> None:
    sagemaker = create_endpoint(client, MODE="broken")
    assert eventually(lambda: status(sagemaker) == "Failed")
    assert logged(client) == ["loading weights", "CUDA error: no kernel image is available"]


def test_a_log_group_deleted_with_its_stack_does_not_come_back(client, host) -> None:
    sagemaker = create_endpoint(client, SAYS="hello")
    eventually(lambda: logged(client))
    client("logs").delete_log_group(logGroupName="/aws/sagemaker/Endpoints/ear")
    sagemaker.delete_endpoint(EndpointName="ear")
    eventually(lambda: sagemaker.list_endpoints()["Endpoints"] == [])
    assert client("logs").describe_log_groups()["logGroups"] == []


def test_a_container_that_dies_is_started_again_while_the_endpoint_stays_in_service(
    client, host, plane: ControlPlane
) -> None:
    sagemaker = create_endpoint(client, SAYS="up")
    assert eventually(lambda: status(sagemaker) == "InService")
    for died in range(2):
        first = host.containers[died]
        first.process.kill()
        second = eventually(lambda: len(host.containers) == died + 2 and host.containers[died + 1])  # noqa: B023
        eventually(second.ping)
        view = plane.find("ear")
        assert view is not None
        assert view.status is EndpointStatus.IN_SERVICE
        eventually(lambda: [c.port for c in plane.find("ear").containers] == [second.port])  # noqa: B023
        assert status(sagemaker) == "InService"
    assert host.running() == [host.containers[2]]
    # Each has a name of its own, and all write into the instance's one stream.
    assert len({container.spec.name for container in host.containers}) == 3
    assert eventually(lambda: len(logged(client)) == 3)
    sagemaker.delete_endpoint(EndpointName="ear")
    eventually(lambda: plane.find("ear") is None)
    assert host.running() == []


def test_an_endpoint_deleted_while_its_container_is_started_again_leaves_none(client, host, plane) -> None:
    sagemaker = create_endpoint(client, DELAY="0.2")
    assert eventually(lambda: status(sagemaker) == "InService")
    host.containers[0].process.kill()
    eventually(lambda: len(host.containers) == 2)
    sagemaker.delete_endpoint(EndpointName="ear")
    eventually(lambda: plane.find("ear") is None)
    assert host.running() == []


@pytest.mark.parametrize(("image", "ami"), [(OMNI, CUDA_12), (VLLM_017, CUDA_13)])
def test_an_image_whose_cuda_does_not_fit_the_ami_stays_creating_without_logs_then_fails(
    client, host, *, image: str, ami: str
) -> None:
    sagemaker = create_endpoint(client, image=image, ami=ami)
    assert status(sagemaker) == "Creating"
    assert eventually(lambda: status(sagemaker) == "Failed")
    reason = sagemaker.describe_endpoint(EndpointName="ear")["FailureReason"]
    assert reason.startswith("The primary container for production variant main did not pass the ping health check.")
    assert f"use InferenceAmiVersion {CUDA_13 if ami == CUDA_12 else CUDA_12}" in reason
    assert host.containers == []
    assert logged(client) == []


@pytest.mark.parametrize(
    ("image", "release"),
    [
        (OMNI, (13, 0)),
        (f"public.ecr.aws/x/{VLLM_2}", (13, 0)),
        (f"{VLLM_2}-soci", (13, 0)),
        (VLLM_017, (12, 9)),
        ("vllm:omni-sagemaker-cuda-v1.50", None),
        ("123456789012.dkr.ecr.us-east-1.amazonaws.com/mine:1", None),
    ],
)
def test_the_cuda_of_awss_images_is_known_by_their_tags(image: str, release: tuple[int, int] | None) -> None:
    assert cuda_of(image) == release


def test_a_pushed_image_has_the_cuda_of_the_base_it_was_built_on(tmp_path: Path) -> None:
    store, uri = ImageStore(tmp_path / "images"), "123456789012.dkr.ecr.us-east-1.amazonaws.com/cdk:abc"
    context = tmp_path / "context"
    context.mkdir()
    (context / "Dockerfile").write_text(f"ARG BASE={VLLM_2}\nFROM ${{BASE}} AS base\nFROM base\nLABEL a=b\n")
    store.save(StoredImage(uri, context, context / "Dockerfile", {}, "linux/amd64", {}))
    assert mismatch(uri, CUDA_13, store) is None
    assert "holds CUDA 13.0" in str(mismatch(uri, CUDA_12, store))
    store.save(StoredImage(uri, context, context / "Dockerfile", {"BASE": VLLM_017}, "linux/amd64", {}))
    assert mismatch(uri, CUDA_12, store) is None
    assert "holds CUDA 12.9" in str(mismatch(uri, CUDA_13, store))
    # What is not known is not judged.
    assert mismatch(uri, None, store) is None
    assert mismatch("other:1", CUDA_12, store) is None


ALARM = {
    "AlarmName": "server-errors",
    "MetricName": "Invocation5XXErrors",
    "Namespace": "AWS/SageMaker",
    "Statistic": "Sum",
    "Period": 60,
    "EvaluationPeriods": 1,
    "Threshold": 1,
    "ComparisonOperator": "GreaterThanOrEqualToThreshold",
}
GUARDED = {
    "BlueGreenUpdatePolicy": {
        "TrafficRoutingConfiguration": {"Type": "ALL_AT_ONCE", "WaitIntervalInSeconds": 600},
        "TerminationWaitInSeconds": 1800,
    },
    "AutoRollbackConfiguration": {"Alarms": [{"AlarmName": "server-errors"}]},
}


def in_service_with_second_config(client: Any) -> Any:
    sagemaker = create_endpoint(client)
    assert eventually(lambda: status(sagemaker) == "InService")
    variants = sagemaker.describe_endpoint_config(EndpointConfigName="config")["ProductionVariants"]
    sagemaker.create_endpoint_config(EndpointConfigName="second", ProductionVariants=variants)
    return sagemaker


def test_a_guarded_update_keeps_the_old_container_for_its_streams(client, host, plane) -> None:
    sagemaker = in_service_with_second_config(client)
    with pytest.raises(sagemaker.exceptions.ClientError, match="alarms that do not exist: server-errors"):
        sagemaker.update_endpoint(EndpointName="ear", EndpointConfigName="second", DeploymentConfig=GUARDED)
    client("cloudwatch").put_metric_alarm(**ALARM)
    sagemaker.update_endpoint(EndpointName="ear", EndpointConfigName="second", DeploymentConfig=GUARDED)
    assert eventually(lambda: status(sagemaker) == "InService")
    assert sagemaker.describe_endpoint(EndpointName="ear")["EndpointConfigName"] == "second"
    old, new = host.containers
    assert [serving.port for serving in plane.find("ear").containers] == [new.port]
    assert host.running() == [old, new]
    # The deletion of the endpoint waits for neither.
    sagemaker.delete_endpoint(EndpointName="ear")
    eventually(lambda: plane.find("ear") is None)
    assert host.running() == []


def test_an_alarm_during_a_guarded_update_brings_the_old_container_back(client, host, plane) -> None:
    sagemaker = in_service_with_second_config(client)
    client("cloudwatch").put_metric_alarm(**ALARM)
    client("cloudwatch").set_alarm_state(AlarmName="server-errors", StateValue="ALARM", StateReason="a test")
    sagemaker.update_endpoint(EndpointName="ear", EndpointConfigName="second", DeploymentConfig=GUARDED)
    assert eventually(lambda: status(sagemaker) == "InService")
    described = sagemaker.describe_endpoint(EndpointName="ear")
    assert described["EndpointConfigName"] == "config"
    assert "server-errors in ALARM" in described["FailureReason"]
    eventually(lambda: host.running() == [host.containers[0]])
    assert [serving.port for serving in plane.find("ear").containers] == [host.containers[0].port]


def test_a_variant_without_an_inference_ami_serves_and_no_stream_reaches_it(client, plane: ControlPlane) -> None:
    sagemaker = client("sagemaker")
    create_endpoint(client)
    variant = {"VariantName": "main", "ModelName": "model", "InitialInstanceCount": 1, "InstanceType": "ml.g6.xlarge"}
    sagemaker.create_endpoint_config(EndpointConfigName="without", ProductionVariants=[variant])
    sagemaker.create_endpoint(EndpointName="deaf", EndpointConfigName="without")

    for name, sidecar in (("ear", True), ("deaf", False)):
        eventually(lambda: plane.find(name).status is EndpointStatus.IN_SERVICE)  # noqa: B023
        assert [container.sidecar for container in plane.find(name).containers] == [sidecar]
        sagemaker.delete_endpoint(EndpointName=name)


def test_an_endpoint_tells_which_pool_gave_the_instance(client, plane: ControlPlane) -> None:
    sagemaker = client("sagemaker")
    create_endpoint(client)
    pools = [{"InstanceType": "ml.g5.xlarge", "Priority": 2}, {"InstanceType": "ml.g6.xlarge", "Priority": 1}]
    variant = {"VariantName": "main", "ModelName": "model", "InitialInstanceCount": 1, "InstancePools": pools}
    sagemaker.create_endpoint_config(EndpointConfigName="pools", ProductionVariants=[variant])
    sagemaker.create_endpoint(EndpointName="pooled", EndpointConfigName="pools")

    described = sagemaker.describe_endpoint(EndpointName="pooled")["ProductionVariants"][0]["InstancePools"]

    assert described == [
        {"InstanceType": "ml.g5.xlarge", "CurrentInstanceCount": 0},
        {"InstanceType": "ml.g6.xlarge", "CurrentInstanceCount": 1},
    ]
