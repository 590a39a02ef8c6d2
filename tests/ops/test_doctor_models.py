"""What `voice doctor` says of models, containers and weights in S3, and when a part of AWS does not answer."""

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from stacks.names import weights_parameter_name
from stacks.settings import StageSettings, load_settings, read_context
from voice_constructs.model_weights_job.weights_staging.manifest import Manifest, StagedFile, manifest_key, prefix_of
from voice_local.control_plane import ControlPlane
from voice_ops.doctor import Check, Limits, Status
from voice_ops.doctor.images import bridge_base_image
from voice_ops.doctor.model_hub import model_checks
from voice_ops.doctor.steps import Runner, Step
from voice_ops.doctor.subject import Places, Subject
from voice_ops.doctor.weights import weights_checks
from voice_ops.session import AwsSession, CredentialsExpiredError, NotPermittedError, local_endpoint, translated

PROJECT = Path(__file__).parents[2]
COMMIT = "0123456789abcdef0123456789abcdef01234567"
VOXTRAL = "mistralai/Voxtral-Mini-4B-Realtime-2602"
PATTERNS = ("*.json", "*.safetensors")

Client = Callable[[str], Any]


def settings(**overrides: str) -> StageSettings:
    return load_settings({**read_context(PROJECT / "cdk.json"), **overrides}, "dev")


def staged(**overrides: str) -> StageSettings:
    return settings(**{"stt.weights": "staged", "stt.revision": COMMIT, **overrides})


def ear(stage: StageSettings, places: Places, aws: AwsSession | None = None) -> Check:
    return {check.id: check for check in model_checks(stage, aws, places, Limits())}["model.stt"]


def weights(subject: Subject, stage: StageSettings) -> Check:
    checks = weights_checks(Subject(stage, subject.aws, subject.places, subject.limits))
    return {check.id: check for check in checks}["weights.stt"]


@pytest.fixture
def places(cloud: ControlPlane) -> Places:
    return Places.of(PROJECT, os.environ)


@pytest.mark.parametrize(
    ("overrides", "status", "said", "advice"),
    [
        ({}, Status.PASS, "at 0123456789ab, open to everybody", ""),
        ({"stt.revision": "v9"}, Status.FAIL, "has no revision v9", "stt.revision"),
        ({"stt.model": "mistralai/Voxtrall"}, Status.FAIL, "is not on the hub, unless it is private", "stt.model"),
        ({"stt.weights": "s3://weights/voxtral/"}, Status.SKIP, "the hub is not needed", ""),
    ],
)
def test_a_model_is_looked_for_on_the_hub(
    places: Places, overrides: Mapping[str, str], status: Status, said: str, advice: str
) -> None:
    found = ear(settings(**overrides), places)

    assert found.status is status, found
    assert said in found.detail
    assert advice in found.advice


def test_a_gated_model_wants_its_weights_staged_with_a_token(places: Places, services: Any) -> None:
    services.gated = {VOXTRAL}

    found = ear(settings(), places)

    assert found.status is Status.FAIL
    assert all(
        part in found.advice for part in ("stt.weights=staged", f"stt.revision={COMMIT}", "staging.token_secret")
    )


@pytest.mark.parametrize(
    ("secret", "status_and_words"),
    [
        (None, (Status.FAIL, "there is no secret hub-token")),
        ("", (Status.FAIL, "holds no token")),
        ("hf_of_somebody_else", (Status.FAIL, "the token's owner is not let in")),
        ("hf_of_somebody_who_was_let_in", (Status.PASS, "the token's owner is let in")),
    ],
)
def test_the_token_of_a_gated_model_is_tried_and_goes_to_the_hub_alone(
    places: Places, services: Any, client: Client, secret: str | None, status_and_words: tuple[Status, str]
) -> None:
    services.gated = {VOXTRAL}
    if secret is not None:
        # Secrets Manager takes no empty text.
        client("secretsmanager").create_secret(Name="hub-token", SecretString=secret or " ")
    try:
        found = ear(staged(**{"staging.token_secret": "hub-token"}), places, AwsSession())
    finally:
        if secret is not None:
            client("secretsmanager").delete_secret(SecretId="hub-token", ForceDeleteWithoutRecovery=True)

    status, said = status_and_words
    assert found.status is status, found
    assert said in found.detail
    assert services.token_sent_to == [], "the token followed a redirect"
    assert not secret or secret not in found.detail + found.advice


def test_without_a_network_the_hub_and_the_registry_are_skipped_not_failed(services: Any, cloud: ControlPlane) -> None:
    nowhere = Places.of(PROJECT, {**os.environ, "HF_ENDPOINT": "http://127.0.0.1:9", "VOICE_PUBLIC_REGISTRY_URL": "x"})
    services.down = True

    unreachable = [ear(settings(), nowhere), bridge_base_image(settings(), nowhere, Limits())]
    broken = [ear(settings(), Places.of(PROJECT, os.environ))]
    broken.append(bridge_base_image(settings(), Places.of(PROJECT, os.environ), Limits()))

    assert {check.status for check in unreachable + broken} == {Status.SKIP}
    assert "no answer from 127.0.0.1" in unreachable[0].detail
    assert all("503" in check.detail for check in broken)


def test_with_a_local_cloud_nothing_beyond_this_machine_is_asked_unless_it_is_named() -> None:
    local = Places.of(PROJECT, {"AWS_ENDPOINT_URL": "http://127.0.0.1:4566"})
    remote = Places.of(PROJECT, {"AWS_ENDPOINT_URL": "https://vpce.example.amazonaws.com"})

    assert (local.hub, local.public_registry) == (None, None)
    assert ear(staged(**{"staging.hub": "https://mirror.example.com"}), local).status is Status.SKIP
    assert remote.hub is not None
    assert local_endpoint({"AWS_ENDPOINT_URL": "http://127.0.0.1.example.com:80"}) is None


def test_a_base_image_that_does_not_exist_is_named(places: Places, services: Any) -> None:
    services.tags = set()

    found = bridge_base_image(settings(), places, Limits())

    assert found.status is Status.FAIL
    assert "server-sagemaker-cuda-v2.3 is known to exist" in found.advice


WHOLE = {
    "config.json": "{}",
    "model.safetensors.index.json": json.dumps(
        {"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}
    ),
    "model-1.safetensors": "x" * 10,
    "model-2.safetensors": "x" * 10,
}


@pytest.mark.parametrize(
    ("files", "status", "said"),
    [
        (WHOLE, Status.PASS, "4 files"),
        ({**WHOLE, "model-2.safetensors": None}, Status.FAIL, "model-2.safetensors is missing"),
        ({**WHOLE, "model-1.safetensors": ""}, Status.FAIL, "model-1.safetensors is empty"),
        ({"params.json": "{}", "consolidated.safetensors": "x"}, Status.PASS, "2 files"),
        ({"consolidated.safetensors": "x"}, Status.FAIL, "neither config.json nor params.json"),
        ({}, Status.FAIL, "nothing is there"),
    ],
)
def test_weights_in_s3_must_be_whole(
    subject: Subject, client: Client, files: Mapping[str, str | None], status: Status, said: str
) -> None:
    s3 = client("s3")
    s3.create_bucket(Bucket="my-weights")
    present = {name: text for name, text in files.items() if text is not None}
    for name, text in present.items():
        s3.put_object(Bucket="my-weights", Key=f"voxtral/{name}", Body=text.encode())
    try:
        found = weights(subject, settings(**{"stt.weights": "s3://my-weights/voxtral/"}))
    finally:
        for name in present:
            s3.delete_object(Bucket="my-weights", Key=f"voxtral/{name}")
        s3.delete_bucket(Bucket="my-weights")

    assert found.status is status, found
    assert said in found.detail


def test_a_bucket_that_is_not_there_is_named(subject: Subject) -> None:
    stage = settings(**{"stt.weights": "s3://nobodys-bucket/voxtral/"})

    found = {check.id: check for check in weights_checks(Subject(stage, subject.aws, subject.places, subject.limits))}[
        "weights.stt"
    ]

    assert found.status is Status.FAIL
    assert "nobodys-bucket" in found.detail


def staged_bucket(client: Client, *, missing: str | None = None, spoilt: str | None = None) -> str:
    """Stage two files as the staging job does, by its own writer of manifests; then lose one, or change it."""
    contents = {"config.json": b"{}", "model.safetensors": b"weights"}
    s3, ssm = client("s3"), client("ssm")
    s3.create_bucket(Bucket="stage-weights")
    files = []
    for path, content in contents.items():
        key = f"{prefix_of(VOXTRAL, COMMIT)}{path}"
        s3.put_object(Bucket="stage-weights", Key=key, Body=content, ChecksumAlgorithm="SHA256")
        head = s3.head_object(Bucket="stage-weights", Key=key, ChecksumMode="ENABLED")
        digest = hashlib.sha256(content).hexdigest()
        files.append(StagedFile(path, len(content), digest, head.get("ChecksumSHA256")))
        if path == missing:
            s3.delete_object(Bucket="stage-weights", Key=key)
        if path == spoilt:
            s3.put_object(Bucket="stage-weights", Key=key, Body=content[::-1], ChecksumAlgorithm="SHA256")
    whole = Manifest(VOXTRAL, COMMIT, PATTERNS, tuple(files))
    s3.put_object(Bucket="stage-weights", Key=manifest_key(VOXTRAL, COMMIT), Body=whole.to_json().encode())
    for key, value in (("bucket", "stage-weights"), ("project", "stage-weights-build")):
        ssm.put_parameter(Name=weights_parameter_name("dev", key), Value=value, Type="String", Overwrite=True)
    return "stage-weights"


def remove_staged(client: Client) -> None:
    s3 = client("s3")
    for entry in s3.list_objects_v2(Bucket="stage-weights").get("Contents", []):
        s3.delete_object(Bucket="stage-weights", Key=entry["Key"])
    s3.delete_bucket(Bucket="stage-weights")
    for key in ("bucket", "project"):
        client("ssm").delete_parameter(Name=weights_parameter_name("dev", key))


def test_weights_that_no_deploy_has_staged_yet_are_no_fault(subject: Subject) -> None:
    found = weights(subject, staged(**{"stt.weights_files": ",".join(PATTERNS)}))

    assert found.status is Status.PASS
    assert "not staged yet: the first deploy copies it" in found.detail


@pytest.mark.parametrize(
    ("fault", "status", "said"),
    [
        ({}, Status.PASS, "complete, 2 files"),
        ({"missing": "model.safetensors"}, Status.FAIL, "model.safetensors"),
        ({"spoilt": "model.safetensors"}, Status.FAIL, "model.safetensors was replaced"),
    ],
)
def test_staged_weights_must_be_what_the_manifest_says(
    subject: Subject, client: Client, fault: dict[str, str], status: Status, said: str
) -> None:
    staged_bucket(client, **fault)
    try:
        found = weights(subject, staged(**{"stt.weights_files": ",".join(PATTERNS)}))
    finally:
        remove_staged(client)

    assert found.status is status, found
    assert said in found.detail
    assert status is Status.PASS or "voice weights stage --stage dev" in found.advice


def refused(code: str) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": "no"}, "ResponseMetadata": {}}, "ListServiceQuotas")


@pytest.mark.parametrize(
    ("raised", "status", "said"),
    [
        (refused("AccessDeniedException"), Status.WARN, "not permitted, listing quotas"),
        (refused("ThrottlingException"), Status.WARN, "ListServiceQuotas was answered with ThrottlingException"),
        (refused("ExpiredTokenException"), Status.SKIP, "have expired"),
        (EndpointConnectionError(endpoint_url="https://x"), Status.WARN, "no answer, listing quotas"),
        (ZeroDivisionError("division"), Status.FAIL, "the check itself failed: ZeroDivisionError"),
    ],
)
def test_a_check_that_cannot_be_made_says_why_and_hides_no_other(raised: Exception, status: Status, said: str) -> None:
    def run() -> Any:
        yield Check("first", Status.PASS, "looked at")
        with translated("listing quotas"):
            raise raised

    runner = Runner(Limits())
    runner.run([Step(("first", "second.*"), run)])

    found = runner.lines()
    assert [(check.id, check.status) for check in found] == [("first", Status.PASS), ("second", status)]
    assert said in found[1].detail


def test_errors_are_told_apart_by_what_can_be_done_about_them() -> None:
    with pytest.raises(CredentialsExpiredError, match="log in again"), translated("asking"):
        raise refused("ExpiredToken")
    with pytest.raises(NotPermittedError, match="not permitted, asking"), translated("asking"):
        raise refused("AccessDenied")
    with pytest.raises(ClientError), translated("asking"):
        raise refused("ParameterNotFound")
