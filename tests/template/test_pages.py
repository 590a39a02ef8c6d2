"""The pages say what the code does: examples run, property tables are complete, links lead somewhere."""

import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from aws_cdk import App, Stack
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_ecr as ecr
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3

from stacks.stt_stack import BRIDGE_DIRECTORY
from voice_constructs.alarm_topic import AlarmTopic
from voice_constructs.deployment_guardrails import DeploymentGuardrails
from voice_constructs.inference_ami import CudaVersion
from voice_constructs.instance_pools import InstancePools
from voice_constructs.model_weights import ModelWeights
from voice_constructs.model_weights_store import WeightsStore
from voice_constructs.published_images import BRIDGE_BASE_CUDA_12
from voice_constructs.serving_image import ServingImage
from voice_constructs.stage_dashboard import StageDashboard
from voice_constructs.stream_scaling import StreamScaling
from voice_constructs.voice_endpoint import VoiceEndpoint
from voice_constructs.voice_network import VoiceNetwork, VoiceVpcEndpoints

ROOT = Path(__file__).resolve().parents[2]
PAGES = ROOT / "docs" / "constructs"
OWN_PAGES = (
    *PAGES.glob("*.md"),
    ROOT / "docs" / "operations.md",
    ROOT / "docs" / "settings.md",
    *(
        ROOT / "docs" / "decisions" / f"{name}.md"
        for name in ("no-values-between-stacks", "acknowledged-findings", "lean-dev")
    ),
)

DOCUMENTED: dict[str, tuple[Callable[..., Any], ...]] = {
    "voice-endpoint": (VoiceEndpoint,),
    "serving-image": (ServingImage.vllm_omni, ServingImage.voxtral_bridge, ServingImage.from_ecr),
    "instance-pools": (InstancePools,),
    "model-weights": (
        ModelWeights.hub,
        ModelWeights.s3,
        ModelWeights.staged,
        WeightsStore,
        WeightsStore.from_attributes,
    ),
    "deployment-guardrails": (DeploymentGuardrails,),
    "stream-scaling": (StreamScaling,),
    "alarm-topic": (AlarmTopic,),
    "stage-dashboard": (StageDashboard,),
    "voice-network": (VoiceNetwork, VoiceVpcEndpoints),
}


def test_every_construct_has_a_page() -> None:
    assert {path.stem for path in PAGES.glob("*.md")} == {*DOCUMENTED, "README"}
    overview = (PAGES / "README.md").read_text()
    for page in DOCUMENTED:
        assert f"({page}.md)" in overview


@pytest.mark.parametrize("page", DOCUMENTED)
def test_examples_run(page: str) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", (PAGES / f"{page}.md").read_text(), re.DOTALL)
    stack = Stack(App(), "Test")
    names = {
        **globals(),
        "stack": stack,
        "caller": iam.Role(stack, "Caller", assumed_by=iam.AccountRootPrincipal()),
        "bucket": s3.Bucket.from_bucket_name(stack, "Bucket", "my-weights"),
        "repository": ecr.Repository.from_repository_name(stack, "Repository", "my-voice"),
        "image": ServingImage.vllm_omni(),
        "weights": ModelWeights.hub("owner/name"),
        "vpc": ec2.Vpc(stack, "Vpc", max_azs=2),
        "BRIDGE_DIRECTORY": BRIDGE_DIRECTORY,
        "BRIDGE_BASE_CUDA_12": BRIDGE_BASE_CUDA_12,
        "CudaVersion": CudaVersion,
    }
    exec(compile(example, f"{page}.md", "exec"), names)  # noqa: S102 - our own pages


@pytest.mark.parametrize("page", DOCUMENTED)
def test_every_property_is_documented_with_its_default(page: str) -> None:
    text = (PAGES / f"{page}.md").read_text()
    rows = [line for line in text.splitlines() if line.startswith("|")]
    for documented in DOCUMENTED[page]:
        # A construct's metaclass hides the signature of its initializer.
        signature = inspect.signature(documented.__init__ if isinstance(documented, type) else documented)
        for name, parameter in signature.parameters.items():
            if name in {"self", "scope", "id"}:
                continue
            described = [row for row in rows if f"`{name}`" in row]
            assert described, f"{page}.md has no row for {name}"
            if parameter.default is inspect.Parameter.empty:
                assert any("required" in row for row in described), (documented, name)
            elif type(parameter.default) is int and parameter.default:
                assert any(f"| {parameter.default} |" in row for row in described), (documented, name)
    for heading in ("Cost", "Security", "Quotas", "Clean-up"):
        assert re.search(rf"(?:\*\*|## ){heading}", text), f"{page}.md says nothing of {heading}"


@pytest.mark.parametrize("path", OWN_PAGES, ids=lambda path: path.stem)
def test_links_lead_to_pages_that_exist(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)", path.read_text()):
        assert (path.parent / target).exists(), target


def test_every_alarm_is_explained() -> None:
    source = (ROOT / "constructs" / "voice_constructs" / "endpoint_alarms.py").read_text()
    names = re.findall(r'_alarm\(\s*scope,\s*"(\w+)"', source)
    assert len(names) == 5
    page = (ROOT / "docs" / "operations.md").read_text()
    for name in names:
        assert re.search(rf"^\| {name}\b", page, re.MULTILINE), name


class TestWorkflow:
    @pytest.fixture
    def workflow(self) -> dict[str, Any]:
        text = (ROOT / ".github" / "workflows" / "ci.yml").read_text()
        return dict(yaml.safe_load(text))

    def test_runs_targets_that_exist(self, workflow: dict[str, Any]) -> None:
        targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
        commands = [step["run"] for job in workflow["jobs"].values() for step in job["steps"] if "run" in step]
        called = {match for command in commands for match in re.findall(r"make ([a-z-]+)", command)}
        assert {"test", "synth", "review"} <= called <= targets

    def test_needs_aws_for_the_diff_only_and_only_when_it_is_configured(self, workflow: dict[str, Any]) -> None:
        for name, job in workflow["jobs"].items():
            uses_aws = any("aws-actions" in step.get("uses", "") for step in job["steps"])
            assert uses_aws == (name == "diff")
        assert "AWS_DIFF_ROLE_ARN" in workflow["jobs"]["diff"]["if"]

    def test_no_job_may_write_and_every_job_ends(self, workflow: dict[str, Any]) -> None:
        assert workflow["permissions"] == {"contents": "read"}
        for name, job in workflow["jobs"].items():
            assert job["timeout-minutes"] <= 60
            wanted = {"contents": "read", "id-token": "write"} if name == "diff" else None
            assert job.get("permissions") == wanted
            assert "secrets." not in str(job)

    def test_reviews_every_stage(self, workflow: dict[str, Any]) -> None:
        for name in ("review", "diff"):
            assert workflow["jobs"][name]["strategy"]["matrix"]["stage"] == ["dev", "prod"]
