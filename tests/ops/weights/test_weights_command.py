"""`voice weights`: a build of the account copies, its log is followed, and what is there is compared."""

import io
import json
import os
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import boto3
import pytest
from botocore.config import Config
from typer.testing import CliRunner, Result

from tests.local.control_plane.conftest import PingHost
from tests.ops.weights.hub_server import HubServer
from voice_local.control_plane import ControlPlane
from voice_local.identity import LocalIdentity
from voice_local.isolation import IsolatedClients, connection_variables, leading_elsewhere
from voice_ops.cli_weights import app
from voice_ops.session import AwsSession
from voice_ops.weights.build import RunningBuild, follow

JOB = Path(__file__).parents[3] / "constructs" / "voice_constructs" / "model_weights_job"
MODEL = "mistralai/Voxtral-Mini-4B-Realtime-2602"
BUCKET = "weights"
FILES = {"consolidated.safetensors": b"w" * 1_100_000, "params.json": b"{}", "tekken.json": b"[]", "README.md": b"#"}


@pytest.fixture(scope="module")
def hub() -> Iterator[HubServer]:
    with HubServer(MODEL, FILES) as server:
        yield server


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    folder, identity = tmp_path_factory.mktemp("plane"), LocalIdentity()
    with (
        ControlPlane(PingHost(folder), identity, images_dir=folder / "images") as plane,
        pytest.MonkeyPatch.context() as patch,
    ):
        for name in leading_elsewhere(os.environ):
            patch.delenv(name)
        for name, value in connection_variables(identity=identity, control_plane_url=plane.url).items():
            patch.setenv(name, value)
        yield IsolatedClients(identity, plane.url).of


@pytest.fixture(scope="module")
def store(client: Any, hub: HubServer) -> Any:
    """What the stack of the weights makes, without a stack: bucket, build, parameters."""
    job = io.BytesIO()
    with zipfile.ZipFile(job, "w") as archive:
        for module in (JOB / "weights_staging").glob("*.py"):
            archive.write(module, f"weights_staging/{module.name}")
    s3 = client("s3")
    s3.create_bucket(Bucket=BUCKET)
    s3.put_object(Bucket=BUCKET, Key="job.zip", Body=job.getvalue())
    variables = {"WEIGHTS_BUCKET": BUCKET, "HUB_URL": hub.url, "HUB_FIRST_PAUSE_SECONDS": "0.01"}
    client("codebuild").create_project(
        name="staging",
        source={
            "type": "S3",
            "location": f"{BUCKET}/job.zip",
            "buildspec": json.dumps({"phases": {"build": {"commands": ["python3 -m weights_staging"]}}}),
        },
        artifacts={"type": "NO_ARTIFACTS"},
        environment={
            "type": "LINUX_CONTAINER",
            "image": "any",
            "computeType": "BUILD_GENERAL1_SMALL",
            "environmentVariables": [{"name": name, "value": value} for name, value in variables.items()],
        },
        serviceRole="arn:aws:iam::123456789012:role/build",
    )
    for key, value in (("bucket", BUCKET), ("project", "staging")):
        client("ssm").put_parameter(Name=f"/sagemaker-voice-weights/dev/{key}", Value=value, Type="String")
    return s3


class LosesItsNetwork:
    """A session with the plane that is led nowhere the first time it is asked."""

    def __init__(self) -> None:
        self._session = AwsSession()
        self._asked = 0

    def client(self, service: str) -> Any:
        self._asked += 1
        if self._asked == 1:
            return boto3.client(
                service, endpoint_url="http://127.0.0.1:9", config=Config(retries={"total_max_attempts": 1})
            )
        return self._session.client(service)


def build_id(done: Result) -> str:
    found = re.search(r"build (staging:\S+)", done.output)
    assert found, done.output
    return found[1]


def voice_weights(command: str, hub: HubServer, *options: str) -> Result:
    staged = ["-c", "stt.weights=staged", "-c", f"stt.revision={hub.commit}"]
    return CliRunner().invoke(app, [command, *staged, *options])


def test_stage_copies_and_follows_and_verify_finds_what_was_changed_since(hub: HubServer, store: Any) -> None:
    before = voice_weights("verify", hub)
    assert before.exit_code == 1
    assert "there is no manifest" in before.output

    hub.faults.corrupt["tekken.json"] = 3
    failed = voice_weights("stage", hub)
    assert failed.exit_code == 1
    assert "tekken.json: its git blob is" in failed.output
    assert "consolidated.safetensors: copied" in failed.output

    done = voice_weights("stage", hub)
    assert done.exit_code == 0, done.output
    followed = list(follow(RunningBuild(build_id(done), joined=True), cast("AwsSession", LosesItsNetwork())))
    assert followed[-1].startswith("complete; manifest")
    assert "2 are there and right" in done.output
    assert "complete; manifest" in done.output

    told = json.loads(voice_weights("verify", hub, "--json").output)["weights"][0]
    assert (told["service"], told["complete"], told["problems"]) == ("stt", True, [])
    assert {file["path"] for file in told["manifest"]["files"]} == FILES.keys() - {"README.md"}
    assert voice_weights("verify", hub, "--deep").exit_code == 0

    folder = f"models/{MODEL}/{hub.commit}"
    store.put_object(Bucket=BUCKET, Key=f"{folder}/tekken.json", Body=b"{}", ChecksumAlgorithm="SHA256")
    store.put_object(Bucket=BUCKET, Key=f"{folder}/extra.bin", Body=b"?")
    store.delete_object(Bucket=BUCKET, Key=f"{folder}/params.json")
    for options in ((), ("--deep",)):
        wrong = voice_weights("verify", hub, *options)
        assert wrong.exit_code == 1
        assert "params.json is missing" in wrong.output
        assert "tekken.json " in wrong.output
        assert "extra.bin is not of the manifest" in wrong.output


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--stage", "dev"], "stages no weights"),
        (["--stage", "nowhere"], "nowhere"),
        (["--stage", "prod", "-c", "stt.weights=staged", "-c", f"stt.revision={'a' * 40}"], "npx cdk deploy prod-"),
        (["-c", "stt.weights"], "write key=value"),
    ],
    ids=["nothing to stage", "unknown stage", "no stack", "option"],
)
def test_what_cannot_be_found_out_ends_with_2_and_what_to_do(store: Any, options: list[str], said: str) -> None:
    for command in ("stage", "verify"):
        done = CliRunner().invoke(app, [command, *options])
        assert done.exit_code == 2
        assert said in done.output
