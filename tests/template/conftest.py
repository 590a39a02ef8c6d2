"""One synthesis of each stage for all tests of a run: starting the CDK's own process is what takes time."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import App, Validations
from aws_cdk.cx_api import CloudAssembly
from cdk_nag import AwsSolutionsChecks

import app as voice_app
from stacks.settings import read_context

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class SynthesizedStack:
    """One template, and lookups a reviewer would do in it."""

    name: str
    template: dict[str, Any]
    path: Path
    termination_protection: bool

    def of_type(self, resource_type: str) -> dict[str, dict[str, Any]]:
        """Return logical id -> resource."""
        return {k: v for k, v in self.template["Resources"].items() if v["Type"] == resource_type}

    def tags(self) -> dict[str, str]:
        """Return the stack's tags, which CloudFormation puts on what is in it."""
        manifest = json.loads((self.path.parent / "manifest.json").read_text())
        return dict(manifest["artifacts"][self.name]["properties"]["tags"])

    def only(self, resource_type: str) -> dict[str, Any]:
        """Return the one resource of a type."""
        (resource,) = self.of_type(resource_type).values()
        return resource

    @property
    def variant(self) -> dict[str, Any]:
        (variant,) = self.only("AWS::SageMaker::EndpointConfig")["Properties"]["ProductionVariants"]
        return dict(variant)

    def container_of(self, model_name: dict[str, Any]) -> dict[str, Any]:
        """Return the container of the model that a `Fn::GetAtt` of its name points to."""
        logical_id, attribute = model_name["Fn::GetAtt"]
        assert attribute == "ModelName"
        return dict(self.template["Resources"][logical_id]["Properties"]["PrimaryContainer"])

    @property
    def statements(self) -> list[dict[str, Any]]:
        return [
            statement
            for policy in self.of_type("AWS::IAM::Policy").values()
            for statement in policy["Properties"]["PolicyDocument"]["Statement"]
        ]


@dataclass(frozen=True)
class SynthesizedStage:
    """Both stacks of a stage."""

    stt: SynthesizedStack
    tts: SynthesizedStack
    assembly: CloudAssembly
    foundation: SynthesizedStack | None

    @property
    def all(self) -> tuple[SynthesizedStack, ...]:
        return (*self.both, *([self.foundation] if self.foundation else []))

    @property
    def both(self) -> tuple[SynthesizedStack, SynthesizedStack]:
        return self.stt, self.tts


Synthesize = Callable[..., SynthesizedStage]


@pytest.fixture(scope="session")
def synthesize(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Synthesize]:
    """Synthesize a stage as `cdk synth -c key=value ...` does, without credentials."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("CDK_DEFAULT_ACCOUNT", raising=False)
        patch.delenv("CDK_DEFAULT_REGION", raising=False)

        def run(stage: str, *, scanned: bool = False, **overrides: str) -> SynthesizedStage:
            context = {**read_context(ROOT / "cdk.json"), "stage": stage}
            context |= {key.replace("__", "."): value for key, value in overrides.items()}
            cdk_app = App(context=context, outdir=str(tmp_path_factory.mktemp("cdk-out")))
            voice_app.build(cdk_app)
            if scanned:  # an unacknowledged finding of cdk-nag fails the synthesis
                Validations.of(cdk_app).add_plugins(AwsSolutionsChecks(cdk_app))
            assembly = cdk_app.synth()
            names = {artifact.stack_name for artifact in assembly.stacks}
            foundation = f"{stage}-voice-foundation"
            return SynthesizedStage(
                _stack(assembly, f"{stage}-voice-stt"),
                _stack(assembly, f"{stage}-voice-tts"),
                assembly,
                _stack(assembly, foundation) if foundation in names else None,
            )

        yield run


def _stack(assembly: CloudAssembly, name: str) -> SynthesizedStack:
    artifact = assembly.get_stack_by_name(name)
    path = Path(artifact.template_full_path)
    return SynthesizedStack(name, json.loads(path.read_text()), path, bool(artifact.termination_protection))


@pytest.fixture(scope="session")
def dev(synthesize: Synthesize) -> SynthesizedStage:
    """The stage as a newcomer gets it, for any account and region."""
    return synthesize("dev", scanned=True)


@pytest.fixture(scope="session")
def prod(synthesize: Synthesize) -> SynthesizedStage:
    """Production, with weights in S3, the walkthrough's base image, fixed region, and other pools."""
    return synthesize(
        "prod",
        account="111122223333",
        region="eu-south-1",
        monitoring__alarms_topic_arn="arn:aws:sns:eu-south-1:111122223333:on-call",
        stt__weights="s3://voice-weights-111122223333/voxtral/",
        stt__base_image=(
            "public.ecr.aws/deep-learning-containers/vllm:0.17.1-gpu-py312-cu129-ubuntu22.04-sagemaker-v1.0-soci"
        ),
        tts__instance_types="ml.g6.xlarge,ml.g5.xlarge",
        stt__instance_types="ml.g4dn.xlarge",
    )


@pytest.fixture(scope="session")
def prod_as_configured(synthesize: Synthesize) -> SynthesizedStage:
    """Production as cdk.json has it."""
    return synthesize("prod", scanned=True)


@pytest.fixture(scope="session")
def paused(synthesize: Synthesize) -> SynthesizedStage:
    """Production, paused."""
    return synthesize("prod", paused="true")


@pytest.fixture(scope="session")
def in_vpc(synthesize: Synthesize) -> SynthesizedStage:
    """In a VPC without internet, with the VPC endpoints; a stage of several instances, told by mail."""
    return synthesize(
        "prod",
        scanned=True,
        vpc__id="vpc-0123456789abcdef0",
        vpc__subnet_ids="subnet-0123456789abcdef0,subnet-0123456789abcdef1",
        vpc__create_endpoints="true",
        vpc__cidr="10.1.0.0/16",
        vpc__route_table_ids="rtb-0123456789abcdef0",
        stt__weights="s3://voice-weights-111122223333/voxtral/",
        tts__weights="s3://voice-weights-111122223333/qwen/",
        stt__instance_count="2",
        stt__scaling__min_instances="2",
        stt__scaling__max_instances="6",
        monitoring__alarms_email="voice-team@example.com",
        encrypt_logs="false",
        owner="voice team",
        cost_center="CC-1234",
    )
