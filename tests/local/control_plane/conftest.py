"""A control plane with a small container host: real processes that answer `/ping`, without any speech in them."""

import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from voice_local.control_plane import ControlPlane, ControlPlaneSettings
from voice_local.identity import LocalIdentity
from voice_local.interfaces import ContainerSpec, ImageNotFoundError
from voice_local.isolation import IsolatedClients

ClientFactory = Callable[[str], Any]

_SERVER = """
import http.server, os, sys, time
mode = os.environ.get("MODE", "healthy")
if mode == "broken":
    print("loading weights"); print("CUDA error: no kernel image is available", flush=True); sys.exit(3)
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        ready = mode != "never" and time.monotonic() - started > float(os.environ.get("DELAY", "0"))
        self.send_response(200 if ready else 503); self.send_header("Content-Length", "0"); self.end_headers()
    def log_message(self, *args): pass
started = time.monotonic()
if "SAYS" in os.environ: print(os.environ["SAYS"], flush=True)
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


class PingContainer:
    """A process that answers /ping."""

    bidirectional = True

    def __init__(self, spec: ContainerSpec, log: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]
        self.spec = spec
        self.log_file = log
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-c", _SERVER, str(self.port)],
                env={k: v for k, v in spec.environment.items() if k in ("MODE", "DELAY", "SAYS")},
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def ping(self) -> bool:
        try:
            opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
            with opener.open(f"http://127.0.0.1:{self.port}/ping", timeout=2) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    def exit_code(self) -> int | None:
        return self.process.poll()

    def output_tail(self, lines: int = 20) -> str:
        return "\n".join(self.log_file.read_text().splitlines()[-lines:])

    def stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(5)


class PingHost:
    """Starts a PingContainer for every image but those named `unknown`."""

    def __init__(self, logs: Path) -> None:
        self.containers: list[PingContainer] = []
        self._logs = logs

    def start(self, spec: ContainerSpec) -> PingContainer:
        if "unknown" in spec.image:
            raise ImageNotFoundError(f"No image {spec.image} was pushed here.")
        container = PingContainer(spec, self._logs / f"{spec.name}-{len(self.containers)}.log")
        self.containers.append(container)
        return container

    def running(self) -> list[PingContainer]:
        return [container for container in self.containers if container.exit_code() is None]


@pytest.fixture
def identity() -> LocalIdentity:
    return LocalIdentity()


@pytest.fixture
def host(tmp_path: Path) -> Iterator[PingHost]:
    host = PingHost(tmp_path)
    yield host
    for container in host.running():
        container.stop()


@pytest.fixture
def images_dir(tmp_path: Path) -> Path:
    return tmp_path / "images"


@pytest.fixture
def startup_seconds() -> float:
    """The plane's limit: the containers here start in a fifth of a second, on a busy machine in several."""
    return 60.0


@pytest.fixture
def settings(startup_seconds: float) -> ControlPlaneSettings:
    return ControlPlaneSettings(container_startup_seconds=startup_seconds, stop_seconds=5)


@pytest.fixture
def plane(
    host: PingHost, identity: LocalIdentity, images_dir: Path, settings: ControlPlaneSettings
) -> Iterator[ControlPlane]:
    with ControlPlane(host, identity, images_dir=images_dir, settings=settings) as plane:
        yield plane


@pytest.fixture
def client(plane: ControlPlane, identity: LocalIdentity) -> ClientFactory:
    return IsolatedClients(identity, plane.url).of


@pytest.fixture
def wait() -> Callable[..., str]:
    return wait_for_stack


@pytest.fixture
def template() -> Callable[..., Any]:
    return voice_template


def wait_for_stack(cloudformation: Any, name: str, seconds: float = 90) -> str:
    """Wait until a stack's operation has ended; return its status, `GONE` when the stack is."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            status: str = cloudformation.describe_stacks(StackName=name)["Stacks"][0]["StackStatus"]
        except cloudformation.exceptions.ClientError as error:
            if "does not exist" in str(error):
                return "GONE"
            raise
        if not status.endswith("IN_PROGRESS"):
            return status
        time.sleep(0.1)
    raise TimeoutError(f"stack {name} still {status}")


def voice_template(
    *, mode: str = "healthy", image: str = "123456789012.dkr.ecr.us-east-1.amazonaws.com/voice:1"
) -> Any:
    """Return a template as the stacks have it: role, policy, log group, model, pools, endpoint, parameter, alarm."""
    arn = {"Fn::GetAtt": ["Role", "Arn"]}
    return {
        "Parameters": {"BootstrapNote": {"Type": "String", "Default": "none"}},
        "Resources": {
            "Parameter": {
                "Type": "AWS::SSM::Parameter",
                "Properties": {
                    "Name": "/voice/dev/stt/endpoint",
                    "Type": "String",
                    "Value": {"Fn::GetAtt": ["Endpoint", "EndpointName"]},
                },
            },
            "Endpoint": {
                "Type": "AWS::SageMaker::Endpoint",
                "DependsOn": ["LogGroup"],
                "Properties": {
                    "EndpointName": "dev-voice-stt",
                    "EndpointConfigName": {"Fn::GetAtt": ["Config", "EndpointConfigName"]},
                    "RetainAllVariantProperties": True,
                },
            },
            "Config": {
                "Type": "AWS::SageMaker::EndpointConfig",
                "Properties": {
                    "ProductionVariants": [
                        {
                            "VariantName": "main",
                            "ModelName": {"Fn::GetAtt": ["Model", "ModelName"]},
                            "InitialInstanceCount": "1",
                            "InitialVariantWeight": 1,
                            "InferenceAmiVersion": "al2023-ami-sagemaker-inference-gpu-4-1",
                            "RoutingConfig": {"RoutingStrategy": "LEAST_OUTSTANDING_REQUESTS"},
                            "InstancePools": [
                                {"InstanceType": "ml.g6.xlarge", "Priority": 1},
                                {"InstanceType": "ml.g5.xlarge", "Priority": 2},
                            ],
                        }
                    ]
                },
            },
            "Model": {
                "Type": "AWS::SageMaker::Model",
                "DependsOn": ["Policy"],
                "Properties": {
                    "ExecutionRoleArn": arn,
                    "EnableNetworkIsolation": True,
                    "PrimaryContainer": {
                        "Image": image,
                        "Environment": {"MODE": mode, "SM_VLLM_MAX_MODEL_LEN": 45000},
                    },
                },
            },
            "Policy": {
                "Type": "AWS::IAM::Policy",
                "Properties": {
                    "PolicyName": "pull",
                    "Roles": [{"Ref": "Role"}],
                    "PolicyDocument": {
                        "Version": "2012-10-17",
                        "Statement": [{"Effect": "Allow", "Action": "logs:PutLogEvents", "Resource": "*"}],
                    },
                },
            },
            "Role": {
                "Type": "AWS::IAM::Role",
                "Properties": {
                    "AssumeRolePolicyDocument": {
                        "Version": "2012-10-17",
                        "Statement": [
                            {
                                "Effect": "Allow",
                                "Action": "sts:AssumeRole",
                                "Principal": {"Service": "sagemaker.amazonaws.com"},
                            }
                        ],
                    }
                },
            },
            "LogGroup": {
                "Type": "AWS::Logs::LogGroup",
                "Properties": {"LogGroupName": "/aws/sagemaker/Endpoints/dev-voice-stt", "RetentionInDays": 7},
            },
            "Alarm": {
                "Type": "AWS::CloudWatch::Alarm",
                "Properties": {
                    "MetricName": "Invocation5XXErrors",
                    "Namespace": "AWS/SageMaker",
                    "Statistic": "Sum",
                    "Period": 60,
                    "EvaluationPeriods": 1,
                    "Threshold": 1,
                    "ComparisonOperator": "GreaterThanOrEqualToThreshold",
                    "Dimensions": [{"Name": "EndpointName", "Value": "dev-voice-stt"}],
                },
            },
            "CDKMetadata": {"Type": "AWS::CDK::Metadata", "Properties": {"Analytics": "x"}},
        },
        "Outputs": {
            "EndpointName": {
                "Value": {"Fn::GetAtt": ["Endpoint", "EndpointName"]},
                "Export": {"Name": "SttEndpoint"},
            },
            "EndpointArn": {"Value": {"Ref": "Endpoint"}},
        },
    }
