"""`voice doctor` on the local cloud: a good stage passes whole; each thing that is wrong is named by the right line."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stacks.settings import load_settings, read_context
from voice_local.docker_shim import write_wrapper
from voice_ops.assembly import read_assembly
from voice_ops.doctor import Check, Examination, Limits, Status, examine
from voice_ops.doctor.account import bootstrap
from voice_ops.doctor.images import inference_ami
from voice_ops.doctor.price import price
from voice_ops.doctor.quotas import demands, quota_checks
from voice_ops.doctor.stack_state import stack
from voice_ops.doctor.subject import Subject

PROJECT = Path(__file__).parents[2]
CLI = [sys.executable, "-m", "voice_ops.doctor"]
VOICE = "dev-voice-tts"
FITTING_AMI = "al2023-ami-sagemaker-inference-gpu-4-1"
OLD_AMI = "al2-ami-sagemaker-inference-gpu-3-1"
COMMIT = "0123456789abcdef0123456789abcdef01234567"
BOOTSTRAP = "/cdk-bootstrap/hnb659fds/version"

Client = Callable[[str], Any]


def doctor(limits: Limits | None = None, **overrides: str) -> Examination:
    context = {**read_context(PROJECT / "cdk.json"), **overrides}
    return examine(context, "dev", PROJECT, limits=limits)


def lines(examination: Examination) -> Mapping[str, Check]:
    found = {check.id: check for check in examination.checks}
    assert len(found) == len(examination.checks), "two lines have the same name"
    return found


def quota_code(client: Client, instance_type: str) -> str:
    pages = client("service-quotas").get_paginator("list_service_quotas").paginate(ServiceCode="sagemaker")
    codes = {quota["QuotaName"]: quota["QuotaCode"] for page in pages for quota in page["Quotas"]}
    return str(codes[f"{instance_type} for endpoint usage"])


def set_quota(client: Client, instance_type: str, value: int) -> None:
    client("service-quotas").request_service_quota_increase(
        ServiceCode="sagemaker", QuotaCode=quota_code(client, instance_type), DesiredValue=value
    )


def create_endpoint(client: Client, name: str, variant: Mapping[str, Any]) -> None:
    """Make an endpoint by hand, as somebody does beside the stacks; nothing here runs its image."""
    sagemaker = client("sagemaker")
    sagemaker.create_model(
        ModelName=name,
        ExecutionRoleArn="arn:aws:iam::123456789012:role/any",
        PrimaryContainer={"Image": "123456789012.dkr.ecr.us-east-1.amazonaws.com/vllm:omni-sagemaker-cuda-v1.5"},
    )
    whole = {"VariantName": "AllTraffic", "ModelName": name, "InitialInstanceCount": 1, **variant}
    sagemaker.create_endpoint_config(EndpointConfigName=name, ProductionVariants=[whole])
    sagemaker.create_endpoint(EndpointName=name, EndpointConfigName=name)


def delete_endpoint(client: Client, name: str) -> None:
    sagemaker = client("sagemaker")
    sagemaker.delete_endpoint(EndpointName=name)
    deadline = time.monotonic() + 60
    while any(endpoint["EndpointName"] == name for endpoint in sagemaker.list_endpoints()["Endpoints"]):
        assert time.monotonic() < deadline, f"{name} is still there"
        time.sleep(0.1)
    groups = client("logs").describe_log_groups(logGroupNamePrefix=f"/aws/sagemaker/Endpoints/{name}")["logGroups"]
    for group in groups:
        client("logs").delete_log_group(logGroupName=group["logGroupName"])
    sagemaker.delete_endpoint_config(EndpointConfigName=name)
    sagemaker.delete_model(ModelName=name)


@pytest.fixture
def bootstrapped(client: Client) -> Iterator[None]:
    """What `cdk bootstrap` leaves and a deploy reads: the version."""
    ssm = client("ssm")
    ssm.put_parameter(Name=BOOTSTRAP, Value="30", Type="String", Overwrite=True)
    yield
    ssm.delete_parameter(Name=BOOTSTRAP)


@pytest.mark.usefixtures("cloud", "bootstrapped")
def test_a_good_stage_passes_in_every_line() -> None:
    examination = doctor()

    assert {check.id: check.detail for check in examination.checks if check.status is not Status.PASS} == {}
    assert not examination.failed
    assert {"credentials", "bootstrap", "quota.ml.g6.xlarge", "model.tts", "image.stt", "ami.stt", "price"} <= set(
        lines(examination)
    )


@pytest.mark.usefixtures("cloud")
def test_everything_that_is_wrong_is_named_in_one_run_with_what_to_do(client: Client, services: Any) -> None:
    set_quota(client, "ml.g5.xlarge", 0)
    create_endpoint(
        client,
        VOICE,
        {"InferenceAmiVersion": OLD_AMI, "InstancePools": [{"InstanceType": "ml.g6.xlarge", "Priority": 1}]},
    )
    services.gated = {"Qwen/Qwen3-TTS-12Hz-1.7B-CustomVoice"}
    try:
        examination = doctor(
            Limits(disk_gb=1_000_000),
            **{
                "stt.base_image_cuda": "12.9",  # of an image that holds CUDA 13
                "tts.container_version": "v1.9",
                "tts.container_cuda": "13.0",
            },
        )
    finally:
        set_quota(client, "ml.g5.xlarge", 16)
        delete_endpoint(client, VOICE)

    found = lines(examination)
    failures = {name for name, check in found.items() if check.status is Status.FAIL}
    assert failures == {
        "settings",
        "disk",
        "bootstrap",
        "quota.ml.g5.xlarge",
        "stack.tts",
        "image.tts",
        "ami.stt",
        "ami.tts",
        "model.tts",
    }
    assert "free 999" in found["disk"].advice
    assert "npx cdk bootstrap aws://123456789012/us-east-1" in found["bootstrap"].advice
    assert found["quota.ml.g5.xlarge"].detail.startswith("0 allowed; 2 needed, 4 while an update runs")
    assert "--quota-code L-1928E07B --desired-value 4" in found["quota.ml.g5.xlarge"].advice
    assert "stt.instance_types and tts.instance_types" in found["quota.ml.g5.xlarge"].advice
    assert "leave stt.base_image_cuda out" in found["ami.stt"].advice
    assert OLD_AMI in found["ami.tts"].detail
    assert FITTING_AMI in found["ami.tts"].advice
    assert "omni-sagemaker-cuda-v1.9 does not exist" in found["image.tts"].detail
    assert "v1.5 is known to exist" in found["image.tts"].advice
    assert "gated" in found["model.tts"].detail
    assert f"tts.weights=staged and tts.revision={COMMIT}" in found["model.tts"].advice
    assert "staging.token_secret=hub-token" in found["model.tts"].advice
    assert "aws secretsmanager create-secret --name hub-token" in found["model.tts"].advice
    assert "delete-endpoint --endpoint-name dev-voice-tts" in found["stack.tts"].advice
    # What is right stays right beside all that.
    assert found["quota.ml.g6.xlarge"].status is Status.PASS
    assert found["model.stt"].status is Status.PASS


@pytest.mark.usefixtures("cloud")
def test_a_region_without_containers_is_named_with_the_ones_that_have_them() -> None:
    found = lines(doctor(region="ca-west-1"))

    assert found["region"].status is Status.FAIL
    assert "ca-west-1" in found["region"].detail
    assert "us-east-1" in found["region"].advice
    assert "ca-central-1" in found["region"].advice
    assert found["bootstrap"].status is Status.FAIL
    assert "aws://123456789012/ca-west-1" in found["bootstrap"].advice


@pytest.mark.usefixtures("cloud")
def test_expired_credentials_are_called_expired_and_nothing_else_is_guessed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "ASIAEXPIRED")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "any")

    examination = doctor()

    found = lines(examination)
    assert found["credentials"].status is Status.FAIL
    assert found["credentials"].detail.startswith("expired")
    assert "aws sso login" in found["credentials"].advice
    assert {found[name].status for name in ("bootstrap", "quota", "stack.stt", "image.tts")} == {Status.SKIP}
    assert "credentials" in found["quota"].detail
    # What needs no account was looked at all the same.
    assert {found[name].status for name in ("python", "image.stt", "model.stt", "price")} == {Status.PASS}


@pytest.mark.usefixtures("cloud")
def test_without_credentials_the_machine_and_the_models_are_examined(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")

    found = lines(doctor())

    assert found["credentials"].status is Status.FAIL
    assert "no AWS credentials were found" in found["credentials"].detail
    assert found["bootstrap"].status is Status.SKIP
    assert found["model.stt"].status is Status.PASS


@pytest.mark.usefixtures("cloud")
def test_credentials_of_another_account_stop_a_stage_that_names_its_own() -> None:
    found = lines(doctor(account="999999999999"))

    assert found["credentials"].status is Status.FAIL
    assert "999999999999" in found["credentials"].detail


@pytest.mark.usefixtures("cloud")
def test_no_region_is_one_line_with_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_REGION")
    monkeypatch.delenv("AWS_DEFAULT_REGION")

    found = lines(doctor())

    assert found["region"].status is Status.FAIL
    assert "AWS_REGION" in found["region"].advice
    assert found["quota"].status is Status.SKIP


@pytest.mark.usefixtures("cloud", "bootstrapped")
def test_for_scripts_it_prints_json_and_the_exit_code_tells(tmp_path: Path) -> None:
    # With the real stand-in for Docker, as `voice local env` names it.
    docker = write_wrapper(tmp_path / "cloud", tmp_path / "images")

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "CDK_DOCKER": str(docker)}
        return subprocess.run(
            [*CLI, *arguments], env=environment, capture_output=True, text=True, timeout=60, check=False
        )

    good, bad = run(), run("--json", "--disk-gb", "1000000")

    assert (good.returncode, bad.returncode) == (0, 3), good.stdout + good.stderr + bad.stderr
    assert "Nothing stands in the way of stage dev" in good.stdout
    assert "\x1b" not in good.stdout
    told = json.loads(bad.stdout)
    assert set(told) == {"checks"}
    assert all(set(check) == {"id", "status", "detail", "advice"} for check in told["checks"])
    assert [check["id"] for check in told["checks"] if check["status"] == "fail"] == ["disk"]
    secret = os.environ["AWS_SECRET_ACCESS_KEY"]
    assert all(secret not in text for text in (good.stdout, good.stderr, bad.stdout, bad.stderr))


@pytest.mark.usefixtures("cloud")
def test_an_ami_that_an_override_forces_into_the_template_is_found_before_it_is_deployed(
    subject: Subject, tmp_path: Path
) -> None:
    def checks(ami: str) -> Mapping[str, Check]:
        variant = {"VariantName": "AllTraffic", "InferenceAmiVersion": ami}
        config = {"Type": "AWS::SageMaker::EndpointConfig", "Properties": {"ProductionVariants": [variant]}}
        artifact = {"type": "aws:cloudformation:stack", "properties": {"templateFile": "voice.json"}}
        (tmp_path / "voice.json").write_text(json.dumps({"Resources": {"Config": config}}))
        (tmp_path / "manifest.json").write_text(json.dumps({"artifacts": {VOICE: artifact}}))
        assembled = replace(subject, assembly=read_assembly(tmp_path))
        return {check.id: check for check in (inference_ami(assembled, "stt"), inference_ami(assembled, "tts"))}

    forced, fitting = checks(OLD_AMI), checks(FITTING_AMI)

    assert {name: check.status for name, check in forced.items()} == {"ami.stt": Status.PASS, "ami.tts": Status.FAIL}
    assert OLD_AMI in forced["ami.tts"].detail
    assert "take away the override of InferenceAmiVersion" in forced["ami.tts"].advice
    assert fitting["ami.tts"].status is Status.PASS


def test_a_version_of_the_bootstrap_that_is_too_old_is_named(subject: Subject, client: Client) -> None:
    client("ssm").put_parameter(Name=BOOTSTRAP, Value="5", Type="String", Overwrite=True)
    try:
        found = bootstrap(subject)
    finally:
        client("ssm").delete_parameter(Name=BOOTSTRAP)

    assert found.status is Status.FAIL
    assert "version 5; 6 or newer is needed" in found.detail


def test_instances_of_other_endpoints_count_and_those_of_the_stage_do_not(subject: Subject, client: Client) -> None:
    create_endpoint(client, "somebody-elses", {"InstanceType": "ml.g6.xlarge", "InitialInstanceCount": 3})
    pools = [{"InstanceType": "ml.g6.xlarge", "Priority": 1}, {"InstanceType": "ml.g5.xlarge", "Priority": 2}]
    create_endpoint(client, VOICE, {"InstancePools": pools, "InferenceAmiVersion": FITTING_AMI})
    set_quota(client, "ml.g6.xlarge", 6)
    try:
        found = {check.id: check for check in quota_checks(subject)}
    finally:
        set_quota(client, "ml.g6.xlarge", 16)
        delete_endpoint(client, "somebody-elses")
        delete_endpoint(client, VOICE)

    # 3 of somebody else's and 1 for each voice, whether it runs already or not; an update needs 2 for each.
    assert found["quota.ml.g6.xlarge"].status is Status.WARN
    assert (
        found["quota.ml.g6.xlarge"].detail
        == "6 allowed; 5 needed, 7 while an update runs, 3 of them by other endpoints"
    )
    assert "--desired-value 7" in found["quota.ml.g6.xlarge"].advice
    assert found["quota.ml.g5.xlarge"].detail == "16 allowed; 2 needed, 4 while an update runs"


def test_what_a_stage_asks_for_follows_scaling_and_pause() -> None:
    context = read_context(PROJECT / "cdk.json")
    scaled = load_settings({**context, "stt.scaling.max_instances": "3", "tts.instance_types": "ml.g5.xlarge"}, "dev")
    paused = load_settings({**context, "paused": "true"}, "dev")

    asked = {demand.instance_type: (demand.instances, demand.endpoints) for demand in demands(scaled)}
    assert asked["ml.g6.xlarge"] == (3, ("dev-voice-stt",))
    assert asked["ml.g5.xlarge"] == (4, ("dev-voice-stt", "dev-voice-tts"))
    assert demands(paused) == ()
    assert price(paused, "us-east-1").status is Status.SKIP


@pytest.mark.usefixtures("cloud", "bootstrapped")
def test_a_caller_who_may_not_deploy_or_stream_is_told_what_is_missing(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    iam = client("iam")
    iam.create_user(UserName="streamer")
    allowed = {
        "Effect": "Allow",
        "Action": ["sagemaker:InvokeEndpointWithBidirectionalStream", "ssm:GetParametersByPath"],
        "Resource": ["arn:aws:sagemaker:us-east-1:123456789012:endpoint/dev-voice-stt", "arn:aws:ssm:*"],
    }
    policy = json.dumps({"Version": "2012-10-17", "Statement": [allowed]})
    iam.put_user_policy(UserName="streamer", PolicyName="stream", PolicyDocument=policy)
    key = iam.create_access_key(UserName="streamer")["AccessKey"]
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", key["AccessKeyId"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", key["SecretAccessKey"])

    found = lines(doctor())

    assert "user/streamer" in found["credentials"].detail
    assert found["permissions.deploy"].status is Status.FAIL
    assert "cdk-hnb659fds-deploy-role-123456789012-us-east-1" in found["permissions.deploy"].advice
    assert found["permissions.stream"].status is Status.FAIL
    assert "endpoint/dev-voice-tts" in found["permissions.stream"].advice
    assert "endpoint/dev-voice-stt" not in found["permissions.stream"].advice


def test_what_an_earlier_stack_left_is_found_before_it_fails_the_deploy(subject: Subject, client: Client) -> None:
    group = "/aws/sagemaker/Endpoints/dev-voice-stt"
    client("logs").create_log_group(logGroupName=group)
    try:
        found = {check.id: check for check in (stack(subject, "stt"), stack(subject, "tts"))}
    finally:
        client("logs").delete_log_group(logGroupName=group)

    assert found["stack.stt"].status is Status.FAIL
    assert f"aws logs delete-log-group --log-group-name {group} --region us-east-1" in found["stack.stt"].advice
    assert found["stack.tts"].status is Status.PASS
