"""What a reviewer of the synthesized CloudFormation is promised."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import botocore.session
import pytest
from aws_cdk import App, Environment, Stack
from aws_cdk import aws_iam as iam
from aws_cdk.assertions import Annotations, Match, Template
from aws_cdk.aws_ecr_assets import DockerImageAsset
from botocore.validate import ParamValidator
from cfnlint.api import lint  # type: ignore[import-untyped]
from cfnlint.config import ManualArgs  # type: ignore[import-untyped]

import app as voice_app
from stacks.names import parameter_name
from stacks.stt_stack import BRIDGE_DIRECTORY
from voice_constructs.errors import InvalidPropertiesError, UnsupportedRegionError
from voice_constructs.instance_pools import InstancePools
from voice_constructs.model_weights import ModelWeights
from voice_constructs.serving_image import ServingImage
from voice_constructs.voice_endpoint import StartupTimeouts, VoiceEndpoint

# Types of the fixtures; importlib mode does not let a test import its conftest.
SynthesizedStack = Any
SynthesizedStage = Any
Synthesize = Any

_OF_A_LOG_GROUP = {"AWS::Logs::MetricFilter"}
CUDA_13_AMI = "al2023-ami-sagemaker-inference-gpu-4-1"
CUDA_12_AMI = "al2-ami-sagemaker-inference-gpu-3-1"


@pytest.fixture(params=["dev", "prod"])
def stage(request: pytest.FixtureRequest) -> SynthesizedStage:
    return request.getfixturevalue(request.param)


@pytest.fixture(params=["stt", "tts"])
def stack(request: pytest.FixtureRequest, stage: SynthesizedStage) -> SynthesizedStack:
    return getattr(stage, request.param)


def intrinsics(value: Any, name: str) -> Iterator[Any]:
    """Yield the argument of every intrinsic function of that name in a template."""
    if isinstance(value, dict):
        if name in value:
            yield value[name]
        for inner in value.values():
            yield from intrinsics(inner, name)
    elif isinstance(value, list):
        for inner in value:
            yield from intrinsics(inner, name)


class TestEndpoint:
    def test_a_dev_stack_holds_these_resources_and_no_other(self, dev: SynthesizedStage) -> None:
        for stack in dev.both:
            assert {resource["Type"] for resource in stack.template["Resources"].values()} == {
                "AWS::IAM::Policy",
                "AWS::IAM::Role",
                "AWS::Logs::LogGroup",
                "AWS::SSM::Parameter",
                "AWS::SageMaker::Endpoint",
                "AWS::SageMaker::EndpointConfig",
                "AWS::SageMaker::Model",
            }

    def test_cfn_lint_finds_nothing(self, stack: SynthesizedStack) -> None:
        findings = lint(stack.path.read_text(), config=ManualArgs(regions=["us-east-1", "eu-south-1"]))
        assert [str(finding) for finding in findings] == []

    def test_pools_are_tried_in_the_order_of_the_settings(self, dev: SynthesizedStage, prod: SynthesizedStage) -> None:
        for stack in dev.both:
            assert [(pool["InstanceType"], pool["Priority"]) for pool in stack.variant["InstancePools"]] == [
                ("ml.g6.xlarge", 1),
                ("ml.g6e.xlarge", 2),
                ("ml.g5.xlarge", 3),
                ("ml.g4dn.xlarge", 4),
            ]
        assert [pool["InstanceType"] for pool in prod.tts.variant["InstancePools"]] == ["ml.g6.xlarge", "ml.g5.xlarge"]

    def test_pools_replace_the_instance_type(self, stack: SynthesizedStack) -> None:
        assert "InstanceType" not in stack.variant
        assert stack.variant["InitialInstanceCount"] == 1
        assert stack.variant["RoutingConfig"] == {"RoutingStrategy": "LEAST_OUTSTANDING_REQUESTS"}

    def test_every_wait_of_a_start_is_bounded(self, stack: SynthesizedStack) -> None:
        for limit in (
            "ContainerStartupHealthCheckTimeoutInSeconds",
            "ModelDataDownloadTimeoutInSeconds",
            "VariantInstanceProvisionTimeoutInSeconds",
        ):
            assert 300 <= stack.variant[limit] <= 3600

    def test_the_inference_ami_fits_the_cuda_version_of_the_image(
        self, dev: SynthesizedStage, prod: SynthesizedStage
    ) -> None:
        assert dev.tts.variant["InferenceAmiVersion"] == CUDA_13_AMI
        assert dev.stt.variant["InferenceAmiVersion"] == CUDA_13_AMI
        assert "cu129" in self._base_image(prod.stt)
        assert prod.stt.variant["InferenceAmiVersion"] == CUDA_12_AMI
        assert prod.tts.variant["InferenceAmiVersion"] == CUDA_13_AMI

    def test_only_the_endpoint_its_logs_and_the_parameters_carry_a_physical_name(self, stack: SynthesizedStack) -> None:
        named = {
            (resource["Type"], key): value
            for resource in stack.template["Resources"].values()
            for key, value in resource["Properties"].items()
            if key.endswith("Name") and resource["Type"] != "AWS::SSM::Parameter"
            # References, what an alarm looks at, and names inside a role or a scalable target.
            if key not in {"EndpointConfigName", "MetricName", "PolicyName"} and resource["Type"] not in _OF_A_LOG_GROUP
        }
        assert named == {
            ("AWS::SageMaker::Endpoint", "EndpointName"): stack.name,
            ("AWS::Logs::LogGroup", "LogGroupName"): f"/aws/sagemaker/Endpoints/{stack.name}",
        }
        config_name = stack.only("AWS::SageMaker::Endpoint")["Properties"]["EndpointConfigName"]
        assert set(config_name) == {"Fn::GetAtt"}

    def test_an_update_keeps_a_scaled_count(self, stack: SynthesizedStack) -> None:
        assert stack.only("AWS::SageMaker::Endpoint")["Properties"]["RetainAllVariantProperties"] is True

    def test_the_log_group_exists_before_the_endpoint_writes_to_it(self, stack: SynthesizedStack) -> None:
        (log_group,) = stack.of_type("AWS::Logs::LogGroup")
        assert log_group in stack.only("AWS::SageMaker::Endpoint")["DependsOn"]

    def test_the_roles_policy_is_attached_before_a_model_uses_it(self, stack: SynthesizedStack) -> None:
        (policy,) = stack.of_type("AWS::IAM::Policy")
        for model in stack.of_type("AWS::SageMaker::Model").values():
            assert policy in model["DependsOn"]

    @staticmethod
    def _base_image(stack: SynthesizedStack) -> str:
        (asset,) = _docker_assets(stack)
        return str(asset["source"]["dockerBuildArgs"]["BASE_IMAGE"])


class TestModels:
    def test_a_gpu_without_bfloat16_gets_a_model_of_its_own(self, dev: SynthesizedStage) -> None:
        for stack in dev.both:
            *others, t4 = stack.variant["InstancePools"]
            assert all("ModelNameOverride" not in pool for pool in others)
            own = stack.container_of(t4["ModelNameOverride"])
            variants = stack.container_of(stack.variant["ModelName"])
            assert own["Environment"]["SM_VLLM_DTYPE"] == "half"
            assert "SM_VLLM_DTYPE" not in variants["Environment"]
            assert own["Image"] == variants["Image"]
        assert own_length(dev.stt, "ModelNameOverride") < own_length(dev.stt, None)

    def test_no_second_model_where_no_pool_needs_it(self, prod: SynthesizedStage) -> None:
        assert len(prod.tts.of_type("AWS::SageMaker::Model")) == 1
        (only_t4,) = prod.stt.variant["InstancePools"]
        assert "ModelNameOverride" not in only_t4
        assert prod.stt.container_of(prod.stt.variant["ModelName"])["Environment"]["SM_VLLM_DTYPE"] == "half"

    def test_the_container_is_told_its_model(self, dev: SynthesizedStage) -> None:
        assert dev.stt.container_of(dev.stt.variant["ModelName"])["Environment"] == {
            "SM_VLLM_MODEL": "mistralai/Voxtral-Mini-4B-Realtime-2602",
            "SM_VLLM_MAX_MODEL_LEN": "45000",
            "SM_VLLM_COMPILATION_CONFIG": '{"cudagraph_mode": "PIECEWISE"}',
            "SM_VLLM_TOKENIZER_MODE": "mistral",
            "SM_VLLM_CONFIG_FORMAT": "mistral",
            "SM_VLLM_LOAD_FORMAT": "mistral",
            "VLLM_NO_USAGE_STATS": "1",
            "HF_HUB_DISABLE_TELEMETRY": "1",
        }
        assert dev.tts.container_of(dev.tts.variant["ModelName"])["Environment"] == {
            "SM_VLLM_MODEL": "Qwen/Qwen3-TTS-12Hz-1.7B-CustomVoice",
            "SM_VLLM_STAGE_INIT_TIMEOUT": "900",
            "VLLM_NO_USAGE_STATS": "1",
            "HF_HUB_DISABLE_TELEMETRY": "1",
        }

    def test_weights_in_s3_are_mounted_uncompressed_and_the_container_gets_no_network(
        self, prod: SynthesizedStage
    ) -> None:
        model = prod.stt.only("AWS::SageMaker::Model")["Properties"]
        assert model["EnableNetworkIsolation"] is True
        assert model["PrimaryContainer"]["ModelDataSource"] == {
            "S3DataSource": {
                "CompressionType": "None",
                "S3DataType": "S3Prefix",
                "S3Uri": "s3://voice-weights-111122223333/voxtral/",
            }
        }
        environment = model["PrimaryContainer"]["Environment"]
        assert environment["SM_VLLM_MODEL"] == "/opt/ml/model"
        assert environment["SM_VLLM_SERVED_MODEL_NAME"] == "mistralai/Voxtral-Mini-4B-Realtime-2602"

    def test_the_bridge_is_built_for_amd64(self, stage: SynthesizedStage) -> None:
        (asset,) = _docker_assets(stage.stt)
        assert asset["source"]["platform"] == "linux/amd64"
        assert not _docker_assets(stage.tts)

    def test_the_build_context_holds_no_leftover_of_tests_and_tools(self, dev: SynthesizedStage) -> None:
        (asset,) = _docker_assets(dev.stt)
        context = dev.stt.path.parent / asset["source"]["directory"]
        names = {path.name for path in context.rglob("*")}
        assert "voxtral_bridge" in names
        assert not [name for name in names if name == "__pycache__" or name.endswith((".pyc", "_cache", ".egg-info"))]

    def test_leftovers_in_the_build_context_make_no_new_image(self, tmp_path: Path) -> None:
        def image_hash(directory: Path) -> str:
            stack = Stack(App(), "Test")
            image = ServingImage.voxtral_bridge(directory)
            image.bind(stack, iam.Role(stack, "Role", assumed_by=iam.AccountRootPrincipal()))
            asset = stack.node.find_child("Image")
            assert isinstance(asset, DockerImageAsset)
            return asset.asset_hash

        context = tmp_path / "voxtral_bridge"
        shutil.copytree(BRIDGE_DIRECTORY, context, ignore=shutil.ignore_patterns("__pycache__"))
        clean = image_hash(context)
        for leftover in (
            "voxtral_bridge/__pycache__/x.pyc",
            ".mypy_cache/x.json",
            "tests/test_x.py",
            "x.egg-info/PKG-INFO",
        ):
            (context / leftover).parent.mkdir(parents=True, exist_ok=True)
            (context / leftover).write_text("left behind")
        assert image_hash(context) == clean
        (context / "voxtral_bridge" / "__init__.py").write_text("changed = True")
        assert image_hash(context) != clean

    def test_the_container_account_follows_the_region(self, dev: SynthesizedStage, prod: SynthesizedStage) -> None:
        assert "692866216735.dkr.ecr.eu-south-1." in str(prod.tts.container_of(prod.tts.variant["ModelName"])["Image"])
        # Without a region the template itself decides, when it is deployed.
        ((mapping, region, fact),) = {
            tuple(map(str, found))
            for found in intrinsics(dev.tts.container_of(dev.tts.variant["ModelName"])["Image"], "Fn::FindInMap")
        }
        assert region == "{'Ref': 'AWS::Region'}"
        accounts = {name: facts[fact] for name, facts in dev.tts.template["Mappings"][mapping].items()}
        assert accounts["us-east-1"] == "763104351884"
        assert accounts["eu-central-2"] == "380420809688"


class TestPermissions:
    def test_only_actions_that_take_no_resource_have_a_wildcard(self, stack: SynthesizedStack) -> None:
        everywhere = [statement for statement in stack.statements if statement["Resource"] == "*"]
        assert sorted(statement["Action"] for statement in everywhere) == [
            "cloudwatch:PutMetricData",
            "ecr:GetAuthorizationToken",
        ]
        (metrics,) = (statement for statement in everywhere if statement["Action"] == "cloudwatch:PutMetricData")
        assert metrics["Condition"] == {"StringEquals": {"cloudwatch:namespace": "/aws/sagemaker/Endpoints"}}

    def test_no_action_is_a_wildcard_and_nothing_is_denied_or_inverted(self, stack: SynthesizedStack) -> None:
        for statement in stack.statements:
            actions = statement["Action"] if isinstance(statement["Action"], list) else [statement["Action"]]
            assert not [action for action in actions if "*" in action]
            assert set(statement) <= {"Action", "Effect", "Resource", "Condition"}

    def test_only_sagemaker_assumes_the_role_and_no_managed_policy_is_attached(self, stack: SynthesizedStack) -> None:
        role = stack.only("AWS::IAM::Role")["Properties"]
        (trust,) = role["AssumeRolePolicyDocument"]["Statement"]
        assert trust["Principal"] == {"Service": "sagemaker.amazonaws.com"}
        assert "ManagedPolicyArns" not in role

    def test_weights_are_read_from_their_prefix_only(self, prod: SynthesizedStage) -> None:
        reads = {
            statement["Action"]: statement for statement in prod.stt.statements if str(statement["Action"])[:3] == "s3:"
        }
        assert set(reads) == {"s3:GetObject", "s3:ListBucket"}
        assert str(reads["s3:GetObject"]["Resource"]).count("voice-weights-111122223333/voxtral/*") == 1
        assert reads["s3:ListBucket"]["Condition"] == {"StringLike": {"s3:prefix": "voxtral/*"}}
        assert not [s for s in prod.tts.statements if "s3:" in str(s["Action"])]


class TestPublishedFacts:
    def test_clients_find_the_endpoint_by_parameters(self, dev: SynthesizedStage) -> None:
        def published(stack: SynthesizedStack) -> dict[str, Any]:
            parameters = stack.of_type("AWS::SSM::Parameter").values()
            assert {parameter["Properties"]["Type"] for parameter in parameters} == {"String"}
            return {parameter["Properties"]["Name"]: parameter["Properties"]["Value"] for parameter in parameters}

        (stt_endpoint,) = dev.stt.of_type("AWS::SageMaker::Endpoint")
        assert published(dev.stt) == {
            "/sagemaker-voice/dev/stt/endpoint-name": {"Fn::GetAtt": [stt_endpoint, "EndpointName"]},
            "/sagemaker-voice/dev/stt/model": "mistralai/Voxtral-Mini-4B-Realtime-2602",
            # What holds on every pool, the T4's included.
            "/sagemaker-voice/dev/stt/max-model-len": "16384",
        }
        assert set(published(dev.tts)) == {
            parameter_name("dev", "tts", "endpoint-name"),
            parameter_name("dev", "tts", "model"),
        }

    def test_outputs_lead_to_the_first_command(self, stack: SynthesizedStack) -> None:
        outputs = stack.template["Outputs"]
        assert set(outputs) == {"EndpointName", "ModelId", "ClientCommand"}
        assert re.search(r"voice (transcribe|speak) .*--stage (dev|prod) --region", str(outputs["ClientCommand"]))


class TestStages:
    def test_dev_leaves_nothing_behind(self, dev: SynthesizedStage) -> None:
        for stack in dev.both:
            assert not stack.termination_protection
            kept = {resource.get("DeletionPolicy") for resource in stack.template["Resources"].values()}
            assert kept <= {None, "Delete"}

    def test_prod_is_protected_and_keeps_its_logs(self, prod: SynthesizedStage) -> None:
        for stack in prod.both:
            assert stack.termination_protection
            assert stack.only("AWS::Logs::LogGroup")["DeletionPolicy"] == "RetainExceptOnCreate"
            assert stack.only("AWS::Logs::LogGroup")["Properties"]["RetentionInDays"] == 90

    def test_templates_carry_no_metadata_and_no_bootstrap_rule(self, stack: SynthesizedStack) -> None:
        assert set(stack.template) <= {"Description", "Mappings", "Resources", "Outputs"}
        assert not [r for r in stack.template["Resources"].values() if "Metadata" in r]

    def test_the_cli_sends_no_telemetry_and_asks_for_no_notices(self) -> None:
        cdk_json = json.loads((Path(voice_app.__file__).parent / "cdk.json").read_text())
        assert cdk_json["notices"] is False
        assert cdk_json["versionReporting"] is False
        assert cdk_json["context"]["cli-telemetry"] is False
        assert cdk_json["context"]["@aws-cdk/core:enableAdditionalMetadataCollection"] is False

    def test_a_region_without_containers_is_refused(self, synthesize: Synthesize) -> None:
        with pytest.raises(UnsupportedRegionError, match="il-central-1"):
            synthesize("dev", region="il-central-1")


@pytest.fixture(scope="module")
def service() -> Any:
    return botocore.session.get_session().get_service_model("sagemaker")


class TestServiceApi:
    """CloudFormation passes properties on; what SageMaker itself would refuse is caught by the SDK's own model."""

    OPERATIONS: ClassVar[tuple[tuple[str, str, dict[str, str]], ...]] = (
        ("AWS::SageMaker::Model", "CreateModel", {"ModelName": "made-by-cloudformation"}),
        ("AWS::SageMaker::EndpointConfig", "CreateEndpointConfig", {"EndpointConfigName": "made-by-cloudformation"}),
        ("AWS::SageMaker::Endpoint", "UpdateEndpoint", {}),
    )

    @pytest.mark.parametrize(("resource_type", "operation", "generated"), OPERATIONS)
    def test_the_properties_are_valid_input(
        self, stack: SynthesizedStack, service: Any, resource_type: str, operation: str, generated: dict[str, str]
    ) -> None:
        for resource in stack.of_type(resource_type).values():
            request = {**generated, **_deployed(resource["Properties"])}
            report = ParamValidator().validate(request, service.operation_model(operation).input_shape)
            assert not report.has_errors(), report.generate_report()


class TestVoiceEndpoint:
    @pytest.fixture
    def plain_stack(self) -> Stack:
        return Stack(App(), "Test", env=Environment(account="111122223333", region="us-east-1"))

    def endpoint(self, stack: Stack, **properties: Any) -> VoiceEndpoint:
        defaults: dict[str, Any] = {
            "endpoint_name": "dev-voice-tts",
            "image": ServingImage.vllm_omni(),
            "weights": ModelWeights.hub("Qwen/Qwen3-TTS-12Hz-1.7B-Base", revision="abc123"),
        }
        return VoiceEndpoint(stack, "Voice", **(defaults | properties))

    def test_grant_stream_reaches_this_endpoint_only(self, plain_stack: Stack) -> None:
        caller = iam.Role(plain_stack, "Caller", assumed_by=iam.AccountRootPrincipal())
        self.endpoint(plain_stack).grant_stream(caller).assert_success()
        (statement,) = (
            statement
            for policy in Template.from_stack(plain_stack).find_resources("AWS::IAM::Policy").values()
            for statement in policy["Properties"]["PolicyDocument"]["Statement"]
            if "sagemaker:" in str(statement["Action"])
        )
        assert statement["Action"] == [
            "sagemaker:InvokeEndpoint",
            "sagemaker:InvokeEndpointWithBidirectionalStream",
        ]
        arn = statement["Resource"]["Fn::Join"][1]
        assert arn == ["arn:", {"Ref": "AWS::Partition"}, ":sagemaker:us-east-1:111122223333:endpoint/dev-voice-tts"]

    def test_a_pool_without_bfloat16_is_warned_of(self, plain_stack: Stack) -> None:
        self.endpoint(plain_stack, pools=InstancePools(["ml.g5.xlarge", "ml.g4dn.2xlarge"]))
        Annotations.from_stack(plain_stack).has_warning("/Test/Voice", Match.string_like_regexp("ml.g4dn.2xlarge"))

    def test_all_wrong_properties_are_told_at_once_and_no_secret_value_is_shown(self, plain_stack: Stack) -> None:
        with pytest.raises(InvalidPropertiesError) as caught:
            self.endpoint(
                plain_stack,
                endpoint_name="Dev_Voice",
                instance_count=0,
                timeouts=StartupTimeouts(health_check=30, model_download=7200),
                environment={"HF_TOKEN": "hf_do_not_show"},
            )
        assert len(caught.value.problems) == 5
        for part in ("Test/Voice", "Dev_Voice", "instance_count", "health_check", "model_download", "HF_TOKEN"):
            assert part in str(caught.value)
        assert "hf_do_not_show" not in str(caught.value)


def test_settings_mistakes_end_the_app_with_a_list_and_no_traceback() -> None:
    context = {"voice": {"dev": {}}, "tts.instance_count": "0", "stt.modle": "a/b"}
    done = subprocess.run(
        [sys.executable, voice_app.__file__],
        env={**os.environ, "CDK_CONTEXT_JSON": json.dumps(context)},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 1
    assert "tts.instance_count" in done.stderr
    assert "did you mean stt.model" in done.stderr
    assert "Traceback" not in done.stderr


def own_length(stack: SynthesizedStack, override: str | None) -> int:
    """Return the model length of the last pool's own model, or of the variant's."""
    name = stack.variant["InstancePools"][-1][override] if override else stack.variant["ModelName"]
    return int(stack.container_of(name)["Environment"]["SM_VLLM_MAX_MODEL_LEN"])


def _docker_assets(stack: SynthesizedStack) -> list[dict[str, Any]]:
    manifest = json.loads((stack.path.parent / f"{stack.name}.assets.json").read_text())
    return list(manifest.get("dockerImages", {}).values())


def _deployed(value: Any) -> Any:
    """Put a plausible string in place of every intrinsic function, as a deployment would."""
    if isinstance(value, list):
        return [_deployed(inner) for inner in value]
    if isinstance(value, dict):
        if len(value) == 1 and next(iter(value)).startswith(("Fn::", "Ref")):
            return "a-value-known-when-deployed"
        return {key: _deployed(inner) for key, inner in value.items()}
    return value
