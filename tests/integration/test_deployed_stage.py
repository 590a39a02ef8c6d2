"""What a team checks after every deploy, on the local cloud and on AWS alike."""

import json
import wave
from pathlib import Path

import pytest

from tests.integration.conftest import DeployedStage
from voice_local.demo.sentence import spoken_sentences
from voice_local.word_error_rate import word_error_rate

pytestmark = pytest.mark.timeout(400)

ROOT = Path(__file__).parents[2]
RECORDINGS = ROOT / "tests" / "recordings"
VALIDATION_OUTPUT = ROOT / "validation-output.wav"


@pytest.mark.parametrize("voice", ["stt", "tts"])
def test_the_endpoint_is_in_service_on_the_config_its_stack_made(deployed: DeployedStage, voice: str) -> None:
    stack = f"{deployed.stage}-voice-{voice}"
    resources = deployed.client("cloudformation").describe_stack_resources(StackName=stack)["StackResources"]
    config = next(r for r in resources if r["ResourceType"] == "AWS::SageMaker::EndpointConfig")

    endpoint = deployed.client("sagemaker").describe_endpoint(EndpointName=f"{deployed.stage}-voice-{voice}")

    assert endpoint["EndpointStatus"] == "InService"
    # CloudFormation's id of a config is its ARN or its name; AWS rolls a failed update back and calls it a success.
    assert endpoint["EndpointConfigName"] == config["PhysicalResourceId"].rpartition("/")[2]


def test_the_voice_speaks_and_the_ear_reads_it_back(deployed: DeployedStage) -> None:
    sentence = spoken_sentences()

    said = deployed.voice("speak", sentence, "-o", VALIDATION_OUTPUT)

    assert said["metrics"]["frames"] > 1, "more than one audio frame: the voice streams"
    with wave.open(str(VALIDATION_OUTPUT)) as wav:
        assert (wav.getframerate(), wav.getnchannels(), wav.getsampwidth()) == (24_000, 1, 2)
        assert 1.0 < wav.getnframes() / wav.getframerate() < 30.0
    heard = deployed.voice("transcribe", VALIDATION_OUTPUT)
    assert word_error_rate(sentence, heard["text"]) <= 0.15, (sentence, heard["text"])


def test_human_recordings_are_understood(deployed: DeployedStage) -> None:
    transcripts = json.loads((RECORDINGS / "transcripts.json").read_text(encoding="utf-8"))

    heard = [deployed.voice("transcribe", RECORDINGS / name)["text"] for name in transcripts]

    assert word_error_rate(" ".join(transcripts.values()), " ".join(heard)) <= 0.12, heard
