"""What an account is promised of staged weights: private, pinned, no token in sight, nothing that can delete them."""

import json
from typing import Any

import pytest
from aws_cdk.assertions import Template

COMMIT = "0a1b2c3d4e5f60718293a4b5c6d7e8f901234567"

# Types of the fixtures; importlib mode does not let a test import its conftest.
SynthesizedStage = Any


@pytest.fixture(scope="module")
def staged(synthesize: Any) -> SynthesizedStage:
    return synthesize(
        "dev",
        scanned=True,
        stt__weights="staged",
        stt__revision=COMMIT,
        staging__token_secret="hub-token",
    )


@pytest.fixture(scope="module")
def store(staged: SynthesizedStage) -> dict[str, Any]:
    return dict(staged.assembly.get_stack_by_name("dev-voice-weights").template)


def test_the_bucket_is_private_versioned_and_outlives_the_stack(store: dict[str, Any]) -> None:
    (bucket,) = (resource for resource in store["Resources"].values() if resource["Type"] == "AWS::S3::Bucket")
    assert (bucket["DeletionPolicy"], bucket["UpdateReplacePolicy"]) == ("Retain", "Retain")
    properties = bucket["Properties"]
    assert set(properties["PublicAccessBlockConfiguration"].values()) == {True}
    assert properties["VersioningConfiguration"] == {"Status": "Enabled"}
    assert "BucketName" not in properties


def test_nobody_can_delete_weights_and_the_token_is_read_by_the_build_alone(store: dict[str, Any]) -> None:
    allowed: dict[str, list[Any]] = {}
    for name, resource in store["Resources"].items():
        if resource["Type"] == "AWS::IAM::Policy":
            for statement in resource["Properties"]["PolicyDocument"]["Statement"]:
                actions = statement["Action"] if isinstance(statement["Action"], list) else [statement["Action"]]
                assert not any("*" in action for action in actions)
                for action in actions:
                    allowed.setdefault(action, []).append((name, json.dumps(statement["Resource"])))
    ((_, where),) = allowed["s3:DeleteObject"]
    assert "/requests/*" in where
    ((reader, secret),) = allowed["secretsmanager:GetSecretValue"]
    assert "BuildRole" in reader
    assert "secret:hub-token-??????" in secret
    assert "*" not in {where for places in allowed.values() for _, where in places}


def test_the_build_is_told_where_the_token_is_and_never_the_token(store: dict[str, Any]) -> None:
    (project,) = (resource for resource in store["Resources"].values() if resource["Type"] == "AWS::CodeBuild::Project")
    variables = {item["Name"]: item for item in project["Properties"]["Environment"]["EnvironmentVariables"]}
    assert variables["HUB_TOKEN_SECRET"]["Value"] == "hub-token"
    # The type SECRETS_MANAGER would put the token itself into the process's environment.
    assert all(item.get("Type", "PLAINTEXT") == "PLAINTEXT" for item in variables.values())
    assert "python3 -m weights_staging" in project["Properties"]["Source"]["BuildSpec"]
    # With a limit of its own CodeBuild refuses a build that would else wait in its queue.
    assert "ConcurrentBuildLimit" not in project["Properties"]
    assert project["Properties"]["QueuedTimeoutInMinutes"] == 30


def test_build_and_function_run_the_same_job(store: dict[str, Any]) -> None:
    (project,) = (resource for resource in store["Resources"].values() if resource["Type"] == "AWS::CodeBuild::Project")
    (function,) = (resource for resource in store["Resources"].values() if resource["Type"] == "AWS::Lambda::Function")
    key = function["Properties"]["Code"]["S3Key"]
    assert project["Properties"]["Source"]["Location"]["Fn::Join"][1][-1] == f"/{key}"


def test_the_ear_waits_for_its_weights_and_the_voice_does_not(staged: SynthesizedStage) -> None:
    ear, voice = (Template.from_json(stack.template) for stack in staged.both)
    ear.has_resource_properties(
        "Custom::StagedWeights",
        {"Model": "mistralai/Voxtral-Mini-4B-Realtime-2602", "Revision": COMMIT, "ServiceTimeout": "3600"},
    )
    voice.resource_count_is("Custom::StagedWeights", 0)
    # No export locks the stacks together: parameters, read when the stack is deployed.
    assert "Fn::ImportValue" not in json.dumps(staged.stt.template)
    published = {body["Default"] for body in staged.stt.template["Parameters"].values()}
    assert published == {"/sagemaker-voice-weights/dev/bucket", "/sagemaker-voice-weights/dev/function"}


def test_a_stage_that_stages_nothing_has_no_such_stack(dev: SynthesizedStage) -> None:
    assert {stack.stack_name for stack in dev.assembly.stacks} == {"dev-voice-stt", "dev-voice-tts"}
