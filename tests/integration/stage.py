"""The stage under test, reached as a user reaches it: by the environment, on the local cloud and on AWS alike."""

import asyncio
import json
import os
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import boto3
import pytest
from botocore.exceptions import ClientError

from stacks.names import Service, parameter_name
from stacks.settings import StageSettings
from tests.e2e.deployed_cloud import ROOT, VOICE
from tests.integration.report import EndpointFacts
from voice_client import VoiceError
from voice_client.transport import BidiStream, StreamTarget, VoiceTransport
from voice_constructs.errors import UnsupportedCudaError
from voice_constructs.inference_ami import InferenceAmi
from voice_constructs.published_images import cuda_of_image
from voice_ops.errors import OpsError
from voice_ops.leftovers import StageImage, left_over, stage_images
from voice_ops.live_config import SERVICES, ClientOf, LiveConfig, live_config

CDK = ROOT / "node_modules" / ".bin" / "cdk"

COMMAND_SECONDS = 120
"""One `voice` command about a few seconds of audio; the first request to a fresh GPU endpoint takes over a minute."""

CDK_SECONDS = {"local": 300, "aws": 5400}
"""A deploy or destroy of both voices: 20 s on the local cloud; half an hour and more on AWS, where each wait of it has
an end of its own."""

MOVING = frozenset({"Creating", "Updating", "SystemUpdating", "RollingBack"})
"""States of an endpoint that another one follows."""

POLL_SECONDS = {"local": 0.5, "aws": 15.0}


@dataclass
class DeployedStage:
    """A deployed stage. The process's own environment leads to it."""

    stage: str
    target: Literal["local", "aws"]
    settings: StageSettings
    patience: float
    """Seconds to wait for an endpoint that is being created or updated."""
    cdk_app: Path | None = None
    """Synthesized templates to destroy by; None synthesizes them."""
    created: bool = False
    """Whether this run deployed it, or began to."""
    destroyed: bool = False
    _client: ClientOf | None = field(default=None, repr=False)

    @property
    def client(self) -> ClientOf:
        """Clients of the account and region that the stage is in."""
        if self._client is None:
            self._client = boto3.Session().client
        return self._client

    @property
    def stood_in_for(self) -> bool:
        """Whether the endpoints are a local cloud's, whose engines know less than the real models."""
        return self.target == "local" or "AWS_ENDPOINT_URL" in os.environ

    @cached_property
    def region(self) -> str:
        """The region that the environment names."""
        found = boto3.Session().region_name
        assert found, "no region"
        return str(found)

    def name(self, service: Service) -> str:
        """Return the name of an endpoint."""
        return self.settings.endpoint_name(service)

    def voice(self, *arguments: str | Path) -> dict[str, Any]:
        """Run a `voice` command as a user would and return the JSON it prints."""
        done = self.voice_command(*arguments, "--stage", self.stage, "--json")
        assert done.returncode == 0, f"voice {arguments[0]} exited with {done.returncode}: {done.stderr.strip()}"
        result: dict[str, Any] = json.loads(done.stdout)
        return result

    def voice_command(self, *arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run a `voice` command, with changes of the environment."""
        return subprocess.run(
            [VOICE, *arguments],
            env={**os.environ, **environment},
            cwd=tempfile.gettempdir(),
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS,
            check=False,
        )

    @asynccontextmanager
    async def stream(self, service: Service, path: str | None) -> AsyncIterator[BidiStream]:
        """Open a bare bidirectional stream to a container's path; None is the platform's default path."""
        async with (
            VoiceTransport(StreamTarget(self.name(service), self.region)) as transport,
            await transport.open_stream(path) as stream,
        ):
            yield stream

    def published(self, service: Service, key: str) -> str:
        """Return one of the SSM parameters that the stage's stacks wrote."""
        found = self.client("ssm").get_parameter(Name=parameter_name(self.stage, service, key))
        return str(found["Parameter"]["Value"])

    def config(self, service: Service) -> LiveConfig:
        """Return what an endpoint serves from; waits, while it moves, as long as `patience` says."""
        deadline = time.monotonic() + self.patience
        while (found := live_config(self.stage, service, self.client)).status in MOVING:
            if time.monotonic() >= deadline:
                break
            time.sleep(POLL_SECONDS[self.target])
        return found

    def variants(self, service: Service) -> list[dict[str, Any]]:
        """Return the production variants of the configuration that serves."""
        sagemaker = self.client("sagemaker")
        serving = sagemaker.describe_endpoint(EndpointName=self.name(service))["EndpointConfigName"]
        variants: list[dict[str, Any]] = sagemaker.describe_endpoint_config(EndpointConfigName=serving)[
            "ProductionVariants"
        ]
        return variants

    def container(self, variant: dict[str, Any]) -> dict[str, Any]:
        """Return image and environment of the container that a variant runs."""
        model = self.client("sagemaker").describe_model(ModelName=variant["ModelName"])
        container: dict[str, Any] = model.get("PrimaryContainer") or model["Containers"][0]
        return container

    def ami_problems(self, service: Service) -> list[str]:
        """Return what is wrong with the inference AMI of each variant that serves."""
        problems = []
        for variant in self.variants(service):
            image, ami = self.container(variant)["Image"], variant.get("InferenceAmiVersion")
            where = f"variant {variant['VariantName']} of endpoint {self.name(service)}"
            if ami is None:
                problems.append(
                    f"{where} names no InferenceAmiVersion: without one no stream ever reaches the container, it "
                    "hangs; deploy a config that names one"
                )
                continue
            cuda = cuda_of_image(image)
            if cuda is None:
                continue  # an image of ours: its stack derived the AMI from its base
            try:
                wanted = InferenceAmi.for_cuda(cuda).version
            except UnsupportedCudaError as error:
                problems.append(f"{where}: {error}")
                continue
            if ami != wanted:
                problems.append(
                    f"{where} runs {image} (CUDA {cuda}) on {ami}, whose driver does not fit; it needs {wanted}"
                )
        return problems

    def model_problems(self, service: Service) -> list[str]:
        """Return where what a container was told to serve is not what the stage published for clients."""
        published = self.published(service, "model")
        problems = []
        for variant in self.variants(service):
            told = self.container(variant).get("Environment", {})
            served = told.get("SM_VLLM_SERVED_MODEL_NAME") or told.get("SM_VLLM_MODEL")
            if served is not None and served != published:
                problems.append(
                    f"variant {variant['VariantName']} of endpoint {self.name(service)} serves the model {served}, but "
                    f"the stage published {published}, which clients will ask for; deploy again"
                )
        return problems

    def last_words(self, service: Service) -> str | None:
        """Return the last line of the endpoint's log group; None when there is none."""
        group = f"/aws/sagemaker/Endpoints/{self.name(service)}"
        logs = self.client("logs")
        try:
            streams = logs.describe_log_streams(logGroupName=group, orderBy="LastEventTime", descending=True, limit=1)
            for stream in streams["logStreams"]:
                events = logs.get_log_events(logGroupName=group, logStreamName=stream["logStreamName"], limit=1)
                for event in events["events"]:
                    return str(event["message"]).strip()
        except ClientError as error:
            if error.response["Error"]["Code"] != "ResourceNotFoundException":
                raise
        return None

    def causes(self, service: Service) -> Iterator[str]:
        """Yield whatever may be why an endpoint does not do what it should."""
        for find in (
            lambda: live_config(self.stage, service, self.client).problems,
            lambda: self.ami_problems(service),
            lambda: self.model_problems(service),
        ):
            try:
                yield from find()
            except (OpsError, ClientError) as error:
                yield str(error)
        words = self.last_words(service)
        if words is not None:
            yield f"the last line of its container's log: {words}"

    @contextmanager
    def explained(self, *services: Service) -> Iterator[None]:
        """Let a failed conversation fail the test with its cause instead of a traceback of the client."""
        try:
            yield
        except (VoiceError, TimeoutError) as error:
            causes = [f"- {cause}" for service in services for cause in self.causes(service)]
            said = str(error) or "no answer in time"
            pytest.fail("\n".join([f"{type(error).__name__}: {said}", *causes]), pytrace=False)

    def facts(self, service: Service) -> EndpointFacts:
        """Return what an endpoint runs on, for the report."""
        variant = self.variants(service)[0]
        described = self.client("sagemaker").describe_endpoint(EndpointName=self.name(service))
        live = described["ProductionVariants"][0]
        pools = live.get("InstancePools", ())
        gave = [pool["InstanceType"] for pool in pools if pool.get("CurrentInstanceCount")]
        image = next(
            (image["ResolvedImage"] for image in live.get("DeployedImages", ()) if image.get("ResolvedImage")),
            self.container(variant)["Image"],
        )
        wanted = sorted(variant.get("InstancePools", ()), key=lambda pool: int(pool["Priority"]))
        return EndpointFacts(
            name=self.name(service),
            config=described["EndpointConfigName"],
            model=self.published(service, "model"),
            image=image,
            inference_ami=variant.get("InferenceAmiVersion"),
            instance_type=variant.get("InstanceType") or (", ".join(gave) or None),
            instance_types=[pool["InstanceType"] for pool in wanted] or [variant.get("InstanceType", "unknown")],
        )

    def deploy(self, log: Path) -> None:
        """Run `cdk deploy --all`."""
        self._cdk(["deploy", "--all", "--require-approval", "never"], log)

    def destroy(self, log: Path) -> tuple[StageImage, ...]:
        """Run `cdk destroy` on the stage's stacks but that of staged weights, which outlive their endpoints.

        Returns:
            The images that the stage's models ran.
        """
        images = stage_images(self.stage, self.client)
        stacks = [
            resource.name for resource in left_over(self.stage, self.client) if resource.service == "cloudformation"
        ]
        self._cdk(["destroy", *stacks, "--force"], log)
        self.destroyed = True
        return images

    def _cdk(self, command: Sequence[str], log: Path) -> None:
        app = ["--app", str(self.cdk_app)] if self.cdk_app is not None else ["-c", f"stage={self.stage}"]
        with log.open("ab") as output:
            done = subprocess.run(
                [str(CDK), *command, *app, "--no-notices"],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=CDK_SECONDS[self.target],
                check=False,
            )
        assert done.returncode == 0, (
            f"cdk {command[0]} exited with {done.returncode}; the end of {log}:\n"
            f"{log.read_text(encoding='utf-8', errors='replace')[-2000:]}"
        )


async def within[T](seconds: float, work: Awaitable[T]) -> T:
    """Await something that must not take longer; `TimeoutError` otherwise."""
    async with asyncio.timeout(seconds):
        return await work


__all__ = ["SERVICES", "DeployedStage", "within"]
