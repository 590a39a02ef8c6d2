"""A stage broken on purpose makes the right test of the integration suite fail, with a message that names the cause.

The suite runs as it does against AWS (`--target aws`), led by the environment to a local cloud that stays up.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.e2e.deployed_cloud import ROOT, deployed_cloud
from voice_local.isolation import IsolatedClients
from voice_local.running_cloud import CloudDescription

pytestmark = [pytest.mark.soak, pytest.mark.timeout(600)]

SUITE_SECONDS = 240
"""A few tests of the suite, `cdk destroy` among them, on a busy machine."""

IMAGES = "123456789012.dkr.ecr.us-east-1.amazonaws.com/cdk-hnb659fds-container-assets-123456789012-us-east-1"
EAR, VOICE = "dev-voice-stt", "dev-voice-tts"


@dataclass(frozen=True)
class BrokenStage:
    """A deployed stage, and how to break it through SageMaker's own API."""

    cloud: CloudDescription
    folder: Path
    client: Callable[[str], Any]

    def run(self, *selection: str) -> subprocess.CompletedProcess[str]:
        """Run tests of the suite as against AWS."""
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *selection, "--target", "aws"]
        command += ["--stage", "dev", "--patience", "3", "--results", str(self.folder)]
        return subprocess.run(
            command,
            cwd=ROOT,
            env=self.cloud.environment(os.environ),
            capture_output=True,
            text=True,
            timeout=SUITE_SECONDS,
            check=False,
        )

    def suite(self, *selection: str) -> dict[str, str]:
        """Run tests of the suite; return the message of each that failed, by its name."""
        junit = self.folder / "junit.xml"
        done = self.run(*selection, f"--junitxml={junit}")
        assert done.returncode in {pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED}, done.stdout + done.stderr
        cases = ElementTree.parse(junit).getroot().iter("testcase")  # noqa: S314 (our own file)
        messages = {
            str(case.get("name")): f"{problem.get('message')}\n{problem.text}"
            for case in cases
            for problem in [*case.iter("failure"), *case.iter("error")]
        }
        assert bool(messages) == (done.returncode == pytest.ExitCode.TESTS_FAILED), done.stdout
        return messages

    def config(self, endpoint: str) -> str:
        return str(self.client("sagemaker").describe_endpoint(EndpointName=endpoint)["EndpointConfigName"])

    def copied_config(self, endpoint: str, name: str, change: Callable[[dict[str, Any]], Any]) -> str:
        """Create a config like the one that serves, with one change of its variant."""
        sagemaker = self.client("sagemaker")
        [variant] = sagemaker.describe_endpoint_config(EndpointConfigName=self.config(endpoint))["ProductionVariants"]
        for pool in variant["InstancePools"]:
            pool.pop("ModelNameOverride", None)
        change(variant)
        sagemaker.create_endpoint_config(EndpointConfigName=name, ProductionVariants=[variant])
        return name

    def begin_move(self, endpoint: str, config: str) -> None:
        self.client("sagemaker").update_endpoint(EndpointName=endpoint, EndpointConfigName=config)

    def await_in_service(self, endpoint: str) -> None:
        """Wait until an endpoint serves, from whichever config."""
        waiter = self.client("sagemaker").get_waiter("endpoint_in_service")
        waiter.wait(EndpointName=endpoint, WaiterConfig={"Delay": 1, "MaxAttempts": 120})

    def move(self, endpoint: str, config: str) -> None:
        self.begin_move(endpoint, config)
        self.await_in_service(endpoint)

    def model(self, name: str, image: str, **environment: str) -> str:
        self.client("sagemaker").create_model(
            ModelName=name,
            ExecutionRoleArn="arn:aws:iam::123456789012:role/voice",
            PrimaryContainer={"Image": image, "Environment": environment},
        )
        return name

    def image(self, endpoint: str) -> str:
        sagemaker = self.client("sagemaker")
        [variant] = sagemaker.describe_endpoint_config(EndpointConfigName=self.config(endpoint))["ProductionVariants"]
        return str(sagemaker.describe_model(ModelName=variant["ModelName"])["PrimaryContainer"]["Image"])


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokenStage]:
    with pytest.MonkeyPatch.context() as environment:
        # What is said does not matter here; these engines start at once.
        environment.setenv("VOICE_LOCAL_STT_ENGINE", "deterministic")
        environment.setenv("VOICE_LOCAL_TTS_ENGINE", "deterministic")
        folder = tmp_path_factory.mktemp("suite")
        with deployed_cloud(folder, home=tmp_path_factory.mktemp("home")) as running:
            cloud = CloudDescription.model_validate(running.description)
            yield BrokenStage(cloud, folder, IsolatedClients(cloud.identity, cloud.control_plane).of)


ENDPOINTS = "tests/integration/test_endpoints.py"


def test_a_stage_that_was_there_before_is_destroyed_by_nobody_who_was_not_told_to(stage: BrokenStage) -> None:
    for options in ([], ["--deploy"]):
        done = stage.run("tests/integration/test_destroy.py", *options)
        assert done.returncode == pytest.ExitCode.NO_TESTS_COLLECTED, done.stdout + done.stderr
    assert stage.config(EAR)
    assert stage.config(VOICE)


def test_an_endpoint_on_an_old_config_is_named_with_both_configs(stage: BrokenStage) -> None:
    wanted = stage.config(EAR)
    stage.move(EAR, stage.copied_config(EAR, "old-config", lambda variant: None))
    failed = stage.suite(ENDPOINTS)
    stage.move(EAR, wanted)

    assert list(failed) == ["test_it_is_in_service_on_the_newest_config[stt]"], "and nothing else"
    [message] = failed.values()
    assert f"endpoint {EAR} serves from the config old-config, but its stack holds {wanted}" in message
    assert "deploy again" in message


def test_a_wrong_ami_is_named_whether_it_is_missing_or_has_another_driver(stage: BrokenStage) -> None:
    # The voice: its container never starts on that driver, which takes a while to be found out, and is rolled back.
    old = {"InferenceAmiVersion": "al2-ami-sagemaker-inference-gpu-3-1"}
    stage.begin_move(VOICE, stage.copied_config(VOICE, "old-ami", lambda variant: variant.update(old)))
    # The ear, meanwhile: its endpoint is in service, and its streams hang.
    wanted = stage.config(EAR)
    stage.move(EAR, stage.copied_config(EAR, "no-ami", lambda variant: variant.pop("InferenceAmiVersion")))
    ami = f"{ENDPOINTS}::test_its_inference_ami_has_the_sidecar_and_the_driver_that_its_image_needs"
    stream = "tests/integration/test_hearing.py::test_both_invocation_paths_lead_to_the_model[v1/realtime]"
    missing = stage.suite(ami, stream)
    stage.await_in_service(VOICE)
    unfit = stage.suite(f"{ENDPOINTS}::test_it_is_in_service_on_the_newest_config[tts]")
    stage.begin_move(VOICE, stage.copied_config(VOICE, "repaired", lambda variant: None))
    stage.move(EAR, wanted)
    stage.await_in_service(VOICE)

    assert sorted(missing) == [
        "test_both_invocation_paths_lead_to_the_model[v1/realtime]",
        "test_its_inference_ami_has_the_sidecar_and_the_driver_that_its_image_needs[stt]",
    ]
    cause = f"variant AllTraffic of endpoint {EAR} names no InferenceAmiVersion"
    assert all(cause in message for message in missing.values()), missing
    hung = missing["test_both_invocation_paths_lead_to_the_model[v1/realtime]"]
    assert "no answer within" in hung, "the failure is a real one: the stream was never answered"
    [message] = unfit.values()
    assert "its last update failed" in message
    assert "use InferenceAmiVersion al2023-ami-sagemaker-inference-gpu-4-1" in message


def test_a_wrong_voice_model_is_named_with_the_one_that_clients_ask_for(stage: BrokenStage) -> None:
    base = "Qwen/Qwen3-TTS-12Hz-1.7B-Base"
    model = stage.model("base-model", stage.image(VOICE), SM_VLLM_MODEL=base)
    stage.move(VOICE, stage.copied_config(VOICE, "wrong-model", lambda variant: variant.update(ModelName=model)))
    smoke = "tests/integration/test_speaking.py::test_the_voice_speaks_and_the_ear_reads_it_back"
    failed = stage.suite(f"{ENDPOINTS}::test_it_serves_the_model_that_its_stage_published", smoke)

    assert sorted(failed) == [
        "test_it_serves_the_model_that_its_stage_published[tts]",
        "test_the_voice_speaks_and_the_ear_reads_it_back",
    ]
    for message in failed.values():
        assert f"serves the model {base}" in message
        assert "the stage published Qwen/Qwen3-TTS-12Hz-1.7B-CustomVoice" in message


def test_a_container_that_never_answers_ping_is_named_with_its_last_words(stage: BrokenStage) -> None:
    asset = stage.folder / "mute"
    asset.mkdir()
    (asset / "mute.py").write_text("import time\nprint('loading weights for ever', flush=True)\ntime.sleep(3600)\n")
    (asset / "Dockerfile").write_text('FROM python:3.12\nCOPY mute.py /mute.py\nENTRYPOINT ["python", "/mute.py"]\n')
    environment = stage.cloud.environment(os.environ) | {"BUILDX_NO_DEFAULT_ATTESTATIONS": "1"}
    for command in (["build", "--tag", f"{IMAGES}:mute", str(asset)], ["push", f"{IMAGES}:mute"]):
        subprocess.run([str(stage.cloud.docker), *command], env=environment, check=True, timeout=60)
    model = stage.model("mute-model", f"{IMAGES}:mute")
    config = stage.copied_config(VOICE, "mute", lambda variant: variant.update(ModelName=model))
    sagemaker = stage.client("sagemaker")
    sagemaker.delete_endpoint(EndpointName=VOICE)
    sagemaker.get_waiter("endpoint_deleted").wait(EndpointName=VOICE, WaiterConfig={"Delay": 1, "MaxAttempts": 60})
    sagemaker.create_endpoint(EndpointName=VOICE, EndpointConfigName=config)
    failed = stage.suite(f"{ENDPOINTS}::test_it_is_in_service_on_the_newest_config")

    assert list(failed) == ["test_it_is_in_service_on_the_newest_config[tts]"]
    [message] = failed.values()
    assert f"endpoint {VOICE} is Creating and its container has not answered GET /ping" in message
    assert "loading weights for ever" in message


def test_a_leftover_planted_after_the_destroy_is_found(stage: BrokenStage) -> None:
    tags = [{"Key": "project", "Value": "sagemaker-voice"}, {"Key": "stage", "Value": "dev"}]
    stage.client("sagemaker").create_model(
        ModelName="forgotten",
        ExecutionRoleArn="arn:aws:iam::123456789012:role/voice",
        PrimaryContainer={"Image": "somebody/elses:1"},
        Tags=tags,
    )
    failed = stage.suite("tests/integration/test_destroy.py", "--destroy")

    assert list(failed) == ["test_nothing_is_left_of_the_stage"], "clients are told that the stage is gone"
    [message] = failed.values()
    assert "left of stage dev" in message
    assert "sagemaker model forgotten: aws sagemaker delete-model --model-name forgotten" in message
