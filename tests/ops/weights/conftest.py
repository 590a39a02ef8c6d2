"""S3 behind real HTTP, a hub, and variables that lead to them and to nothing else."""

import os
import uuid
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from moto.server import ThreadedMotoServer

from tests.ops.weights.copying import FILES, MODEL, Copy
from tests.ops.weights.hub_server import HubServer
from voice_constructs.model_weights_job.weights_staging.__main__ import main


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


@pytest.fixture
def copy(hub: HubServer, bucket: str, in_this_process: dict[str, str], capsys: pytest.CaptureFixture[str]) -> Copy:
    """Run the copier here; return its exit code and all that it said."""

    def run(files: str = "tekken.json", **more: str) -> tuple[int, str]:
        told = {"WEIGHTS_BUCKET": bucket, "MODEL": MODEL, "REVISION": hub.commit, "FILES": files, "HUB_URL": hub.url}
        code = main({**in_this_process, **told, **more})
        shown = capsys.readouterr().out
        assert "the copier itself failed" not in shown
        return code, shown

    return run
