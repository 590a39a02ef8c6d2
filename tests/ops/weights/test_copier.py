"""The copier as the build runs it: a process of its own, a hub that misbehaves, S3 behind real HTTP."""

import json
import os
import random
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto.server import ThreadedMotoServer

from tests.ops.weights.hub_server import HubServer
from voice_constructs.model_weights_job.weights_staging.__main__ import main

JOB = Path(__file__).parents[3] / "constructs" / "voice_constructs" / "model_weights_job"
MODEL = "mistralai/Voxtral-Mini-4B-Realtime-2602"
WEIGHTS = "consolidated.safetensors"
NEEDED = f"{WEIGHTS},params.json,tekken.json"
TOKEN = "hf_" + "secret" * 5

_random = random.Random(7)  # noqa: S311 (content, no secret)
FILES = {
    # More than a part of a multipart upload (16 MiB).
    WEIGHTS: _random.randbytes(1 << 20) * 17 + b"the end",
    "params.json": b'{"dim": 3072}',
    "tekken.json": _random.randbytes(1_200_000),
    # Not needed by vLLM when it has the others.
    "model.safetensors": _random.randbytes(2_000_000),
    "README.md": b"# Voxtral",
}


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def environment(endpoint: str) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "AWS_EC2_METADATA_DISABLED": "true",
        "HUB_FIRST_PAUSE_SECONDS": "0.01",
        "HUB_LONGEST_PAUSE_SECONDS": "0.05",
        "HUB_TOKEN_SECRET": "",
    }


@pytest.fixture
def in_this_process(environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    return environment


@pytest.fixture
def client(endpoint: str) -> Any:
    def make(service: str) -> Any:
        return boto3.client(
            service,
            endpoint_url=endpoint,
            region_name="us-east-1",
            aws_access_key_id="testing",
            aws_secret_access_key="testing",
        )

    return make


@pytest.fixture
def s3(client: Any) -> Any:
    return client("s3")


@pytest.fixture
def bucket(s3: Any) -> str:
    name = f"weights-{uuid.uuid4().hex}"
    s3.create_bucket(Bucket=name)
    s3.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": "Enabled"})
    return name


@pytest.fixture
def hub() -> Iterator[HubServer]:
    with HubServer(MODEL, FILES) as server:
        yield server


def stage(hub: HubServer, bucket: str, environment: dict[str, str], **more: str) -> subprocess.CompletedProcess[str]:
    told = {"WEIGHTS_BUCKET": bucket, "MODEL": MODEL, "REVISION": hub.commit, "FILES": NEEDED, "HUB_URL": hub.url}
    return subprocess.run(
        [sys.executable, "-m", "weights_staging"],
        cwd=JOB,
        env={**environment, **told, **more},
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )


def keys(s3: Any, bucket: str) -> set[str]:
    return {item["Key"] for item in s3.list_objects_v2(Bucket=bucket).get("Contents", ())}


def manifest(s3: Any, bucket: str, hub: HubServer) -> dict[str, Any]:
    body = s3.get_object(Bucket=bucket, Key=f"models/{MODEL}/{hub.commit}.manifest.json")["Body"].read()
    return dict(json.loads(body))


def test_whatever_happens_to_the_connection_all_is_there_and_right_and_a_second_run_copies_nothing(
    hub: HubServer, bucket: str, s3: Any, environment: dict[str, str]
) -> None:
    hub.faults.cut_after = {WEIGHTS: [0, 1_000_000, 7_000_001, 5], "params.json": [4]}
    hub.faults.corrupt["tekken.json"] = 1
    hub.faults.unavailable["params.json"] = 2

    done = stage(hub, bucket, environment)

    assert done.returncode == 0, done.stdout + done.stderr
    folder = f"models/{MODEL}/{hub.commit}/"
    assert keys(s3, bucket) == {*(folder + name for name in NEEDED.split(",")), folder[:-1] + ".manifest.json"}
    for name in NEEDED.split(","):
        assert s3.get_object(Bucket=bucket, Key=folder + name)["Body"].read() == FILES[name], name
    # Never from the beginning again where ranges go on.
    ranges = [asked for path, asked in hub.asked if path == WEIGHTS]
    assert ranges == ["", "", "bytes=1000000-", "bytes=8000001-", "bytes=8000006-"]
    assert "tekken.json: its sha256 is" in done.stdout
    written = manifest(s3, bucket, hub)
    assert (written["model"], written["revision"]) == (MODEL, hub.commit)
    assert {file["path"]: file["size"] for file in written["files"]} == {n: len(FILES[n]) for n in NEEDED.split(",")}
    assert all(len(file["sha256"]) == 64 and file["checksum"] for file in written["files"])

    before, versions = len(hub.asked), len(s3.list_object_versions(Bucket=bucket)["Versions"])
    again = stage(hub, bucket, environment)

    assert again.returncode == 0, again.stdout + again.stderr
    assert "3 are there and right" in again.stdout
    assert len(hub.asked) == before
    assert len(s3.list_object_versions(Bucket=bucket)["Versions"]) == versions


def test_a_file_that_is_wrong_each_time_fails_by_name_and_leaves_no_manifest_and_what_was_right(
    hub: HubServer, bucket: str, s3: Any, environment: dict[str, str]
) -> None:
    hub.faults.corrupt["tekken.json"] = 100

    done = stage(hub, bucket, environment, STAGING_REQUEST="request-1")

    assert done.returncode == 1
    last = done.stdout.splitlines()[-1]
    assert last.startswith("failed: tekken.json: its sha256 is")
    assert "nothing of it was uploaded" in last
    folder = f"models/{MODEL}/{hub.commit}/"
    assert keys(s3, bucket) == {folder + WEIGHTS, folder + "params.json", "requests/request-1.reason"}
    assert "tekken.json" in s3.get_object(Bucket=bucket, Key="requests/request-1.reason")["Body"].read().decode()

    # The next run brings just that file.
    hub.faults.corrupt.clear()
    before = len(hub.asked)
    assert stage(hub, bucket, environment).returncode == 0
    assert [path for path, _ in hub.asked[before:]] == ["tekken.json"]


def test_a_copy_that_was_replaced_in_the_bucket_is_brought_again(
    hub: HubServer, bucket: str, s3: Any, environment: dict[str, str]
) -> None:
    assert stage(hub, bucket, environment, FILES="params.json").returncode == 0
    s3.put_object(Bucket=bucket, Key=f"models/{MODEL}/{hub.commit}/params.json", Body=b'{"dim": 9999}')

    assert stage(hub, bucket, environment, FILES="params.json").returncode == 0

    found = s3.get_object(Bucket=bucket, Key=f"models/{MODEL}/{hub.commit}/params.json")["Body"].read()
    assert found == FILES["params.json"]


def test_storage_without_ranges_is_read_from_the_beginning(
    hub: HubServer, bucket: str, s3: Any, environment: dict[str, str]
) -> None:
    hub.faults.no_ranges = True
    hub.faults.cut_after = {"tekken.json": [700_000]}

    done = stage(hub, bucket, environment, FILES="tekken.json")

    assert done.returncode == 0, done.stdout
    found = s3.get_object(Bucket=bucket, Key=f"models/{MODEL}/{hub.commit}/tekken.json")["Body"].read()
    assert found == FILES["tekken.json"]


def test_a_gated_model_needs_its_token_which_nobody_but_the_hub_sees(
    bucket: str, s3: Any, client: Any, environment: dict[str, str]
) -> None:
    client("secretsmanager").create_secret(Name="hub-token", SecretString=TOKEN)
    with HubServer(MODEL, FILES, token=TOKEN) as hub:
        without = stage(hub, bucket, environment, FILES="params.json")
        done = stage(hub, bucket, environment, FILES="params.json", HUB_TOKEN_SECRET="hub-token")
        missing = stage(hub, bucket, environment, FILES="params.json", HUB_TOKEN_SECRET="no-such-secret")

    assert without.returncode == 1
    assert "staging.token_secret" in without.stdout.splitlines()[-1]
    assert done.returncode == 0, done.stdout
    assert hub.asked
    assert hub.tokens_at_storage == []
    assert TOKEN not in done.stdout + done.stderr
    assert missing.returncode == 1
    assert "ResourceNotFound" in missing.stdout


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"REVISION": "main"}, "pin that commit"),
        ({"REVISION": "0" * 40}, "no such model, revision or file"),
        ({"FILES": "params.json,weights-*.bin"}, "no file like weights-*.bin"),
        ({"FILES": "", "MODEL": ""}, "lacks MODEL, FILES"),
        ({"WEIGHTS_BUCKET": "there-is-no-such-bucket"}, "there-is-no-such-bucket"),
    ],
    ids=["a branch", "unknown commit", "missing file", "settings", "bucket"],
)
def test_what_cannot_be_staged_ends_with_what_to_change(
    hub: HubServer,
    bucket: str,
    s3: Any,
    in_this_process: dict[str, str],
    capsys: pytest.CaptureFixture[str],
    *,
    changed: dict[str, str],
    said: str,
) -> None:
    told = {"WEIGHTS_BUCKET": bucket, "MODEL": MODEL, "REVISION": hub.commit, "FILES": "params.json"}

    assert main({**in_this_process, **told, "HUB_URL": hub.url, **changed}) == 1

    assert said in capsys.readouterr().out.splitlines()[-1]
    assert keys(s3, bucket) == set()
