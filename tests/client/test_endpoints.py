"""Finding a stage's endpoint: parameters in a real (local) SSM API, and every way it can fail."""

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import boto3
import pytest
from moto.server import ThreadedMotoServer

from voice_client.endpoints import ResolvedEndpoint, resolve_endpoint
from voice_client.errors import (
    BadInputError,
    ConnectError,
    CredentialsError,
    DeadlineError,
    EndpointNotFoundError,
    InternalFailureError,
    ProtocolError,
    ThrottledError,
    VoiceError,
)


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing of the developer's AWS configuration; credentials that are good for nothing; no way to AWS."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "example")


@pytest.fixture(scope="module")
def ssm_url() -> Iterator[str]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    url = f"http://{host}:{port}"
    session = boto3.Session("AKIAEXAMPLE", "example", region_name="eu-west-1")
    ssm = session.client("ssm", endpoint_url=url)
    published = {
        "dev/stt/endpoint-name": "dev-voice-stt",
        "dev/stt/model": "mistralai/Voxtral-Mini-4B-Realtime-2602",
        "dev/stt/max-model-len": "45000",
        "dev/tts/endpoint-name": "dev-voice-tts",
        "dev/tts/model": "Qwen/Qwen3-TTS-12Hz-1.7B-CustomVoice",
        "odd/stt/endpoint-name": "odd-voice-stt",
        "odd/stt/max-model-len": "many",
        "half/stt/model": "a-model-without-an-endpoint",
    }
    for name, value in published.items():
        ssm.put_parameter(Name=f"/sagemaker-voice/{name}", Value=value, Type="String")
    yield url
    server.stop()


async def test_a_stages_endpoints_are_found(ssm_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", ssm_url)
    assert await resolve_endpoint("stt", stage="dev", region="eu-west-1") == ResolvedEndpoint(
        "dev-voice-stt", "eu-west-1", "mistralai/Voxtral-Mini-4B-Realtime-2602", 45000
    )
    assert await resolve_endpoint("tts", stage="dev", region="eu-west-1") == ResolvedEndpoint(
        "dev-voice-tts", "eu-west-1", "Qwen/Qwen3-TTS-12Hz-1.7B-CustomVoice", None
    )


@pytest.mark.parametrize(("stage", "region"), [("prod", "eu-west-1"), ("dev", "us-east-1"), ("half", "eu-west-1")])
async def test_a_stage_that_is_not_deployed_here(
    ssm_url: str, monkeypatch: pytest.MonkeyPatch, stage: str, region: str
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", ssm_url)
    with pytest.raises(EndpointNotFoundError) as told:
        await resolve_endpoint("stt", stage=stage, region=region)
    assert f"/sagemaker-voice/{stage}/stt/endpoint-name" in str(told.value)
    assert region in str(told.value)
    assert f"make deploy STAGE={stage}" in told.value.advice
    assert told.value.exit_code == 3


async def test_a_parameter_that_makes_no_sense(ssm_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", ssm_url)
    with pytest.raises(ProtocolError, match="max-model-len is 'many'"):
        await resolve_endpoint("stt", stage="odd", region="eu-west-1")


async def test_a_named_endpoint_needs_no_service_and_no_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    found = await resolve_endpoint("stt", endpoint_name="my-ear", region="eu-west-1")
    assert found == ResolvedEndpoint("my-ear", "eu-west-1")


async def test_the_order_of_regions(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async def region(given: str | None = None) -> str:
        return (await resolve_endpoint("stt", endpoint_name="ear", region=given)).region

    with pytest.raises(CredentialsError, match="no AWS region") as told:
        await region()
    assert "AWS_REGION" in told.value.advice
    (tmp_path / "config").write_text("[profile voices]\nregion = sa-east-1\n")
    monkeypatch.setenv("AWS_PROFILE", "voices")
    assert await region() == "sa-east-1"
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    assert await region() == "eu-central-1"
    monkeypatch.setenv("AWS_REGION", "ap-south-1")
    assert await region() == "ap-south-1"
    assert await region("us-west-2") == "us-west-2"


async def test_a_profile_that_does_not_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    with pytest.raises(CredentialsError, match="nobody"):
        await resolve_endpoint("stt", stage="dev", region="eu-west-1")


async def test_no_credentials(ssm_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", ssm_url)
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with pytest.raises(CredentialsError, match="credentials") as told:
        await resolve_endpoint("stt", stage="dev", region="eu-west-1")
    assert "aws" in told.value.advice


@pytest.mark.parametrize(
    ("status", "code", "expected", "said"),
    [
        (400, "UnrecognizedClientException", CredentialsError, "access key"),
        (400, "InvalidSignatureException", CredentialsError, "signature"),
        (400, "ExpiredTokenException", CredentialsError, "expired"),
        (400, "AccessDeniedException", CredentialsError, "ssm:GetParametersByPath"),
        (400, "ThrottlingException", ThrottledError, "throttled"),
        (500, "InternalServerError", InternalFailureError, "InternalServerError"),
        (400, "SomethingElse", ProtocolError, "SomethingElse"),
    ],
)
async def test_what_the_service_refuses(
    monkeypatch: pytest.MonkeyPatch, status: int, code: str, expected: type[VoiceError], said: str
) -> None:
    class Refuse(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            body = f'{{"__type": "com.amazonaws.ssm#{code}", "message": "because"}}'.encode()
            self.send_response(status)
            self.send_header("x-amzn-RequestId", "r-1")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Refuse) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.server_port}")
        with pytest.raises(expected, match="because") as told:
            await resolve_endpoint("stt", stage="dev", region="eu-west-1")
        server.shutdown()
    assert said in str(told.value)
    assert told.value.request_id == "r-1"


@pytest.mark.parametrize(
    ("url", "advice"), [("http://127.0.0.1:1", "voice local up"), ("http://no-such-host.invalid", "network")]
)
async def test_a_service_that_cannot_be_reached(monkeypatch: pytest.MonkeyPatch, url: str, advice: str) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", url)
    with pytest.raises(ConnectError, match="SSM") as told:
        await resolve_endpoint("stt", stage="dev", region="eu-west-1")
    assert advice in told.value.advice


async def test_a_service_that_never_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{silent.getsockname()[1]}")
        started = time.monotonic()
        with pytest.raises(DeadlineError, match="looking the endpoint up"):
            await resolve_endpoint("stt", stage="dev", region="eu-west-1", deadline_seconds=0.5)
        assert time.monotonic() - started < 4.5  # a request's own time-out is 5 s, and there are two tries


@pytest.mark.parametrize(
    ("stage", "endpoint_name"),
    [(None, None), ("dev", "ear"), ("no/slash", None), ("", None), (None, "arn:aws:sagemaker:x"), (None, "-ear")],
)
async def test_names_that_cannot_be(stage: str | None, endpoint_name: str | None) -> None:
    with pytest.raises(BadInputError):
        await resolve_endpoint("stt", stage=stage, endpoint_name=endpoint_name, region="eu-west-1")


def test_importing_the_client_is_quick_and_light() -> None:
    script = (
        "import sys, time; started = time.perf_counter(); import voice_client, voice_client.endpoints;"
        "print(time.perf_counter() - started, *{'boto3', 'botocore', 'awscrt', 'aws_cdk', 'moto', 'numpy',"
        " 'aws_sdk_sagemaker_runtime_http2'} & set(sys.modules))"
    )
    times = []
    for _ in range(3):  # the best of three: the machine may be busy with other things
        seconds, *loaded = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=True
        ).stdout.split()
        assert not loaded
        times.append(float(seconds))
        if times[-1] < 0.5:
            break
    assert min(times) < 0.5


async def test_a_region_that_cannot_be() -> None:
    with pytest.raises(BadInputError, match="no region"):
        await resolve_endpoint("stt", stage="dev", region="no region")
