"""What an operator is promised of updates, scaling, alarms, metrics, pauses, networks and keys."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import botocore.session
import pytest
from aws_cdk import App, Environment, Stack
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from aws_cdk.assertions import Match, Template
from botocore.validate import ParamValidator
from cfnlint.api import lint
from cfnlint.config import ManualArgs

from stacks.operation_settings import ScalingSettings, UpdateSettings
from stacks.settings import load_settings
from voice_constructs.deployment_guardrails import DeploymentGuardrails
from voice_constructs.endpoint_metrics import MeasuredEndpoint
from voice_constructs.errors import InvalidPropertiesError
from voice_constructs.model_weights import ModelWeights, staged_prefix
from voice_constructs.serving_image import ServingImage
from voice_constructs.session_metrics import SESSION_METRIC_FILTERS
from voice_constructs.stream_scaling import StreamScaling
from voice_constructs.voice_endpoint import VoiceEndpoint
from voice_constructs.voice_network import VoiceNetwork

# Types of the fixtures; importlib mode does not let a test import its conftest.
SynthesizedStack = Any
SynthesizedStage = Any

LOG_EVENTS = (
    Path(__file__).resolve().parents[2] / "container_assets" / "voxtral_bridge" / "voxtral_bridge" / "log_events.json"
)


def plain_stack() -> Stack:
    return Stack(App(), "Test", env=Environment(account="111122223333", region="us-east-1"))


def endpoint_in(stack: Stack, **properties: Any) -> VoiceEndpoint:
    defaults: dict[str, Any] = {
        "endpoint_name": "dev-voice-tts",
        "image": ServingImage.vllm_omni(),
        "weights": ModelWeights.hub("Qwen/Qwen3-TTS-12Hz-1.7B-Base"),
    }
    return VoiceEndpoint(stack, "Voice", **(defaults | properties))


def alarms_of(stack: SynthesizedStack) -> dict[str, dict[str, Any]]:
    """Return metric name -> properties."""
    found = [resource["Properties"] for resource in stack.of_type("AWS::CloudWatch::Alarm").values()]
    return {properties["MetricName"]: properties for properties in found}


class TestUpdates:
    def test_calls_get_half_an_hour_to_end_and_errors_roll_back(self, prod_as_configured: SynthesizedStage) -> None:
        for stack in prod_as_configured.both:
            config = stack.only("AWS::SageMaker::Endpoint")["Properties"]["DeploymentConfig"]
            assert config["BlueGreenUpdatePolicy"]["TerminationWaitInSeconds"] >= 1800
            waits = 1800 + config["BlueGreenUpdatePolicy"]["TrafficRoutingConfiguration"]["WaitIntervalInSeconds"]
            assert config["BlueGreenUpdatePolicy"]["MaximumExecutionTimeoutInSeconds"] > waits
            rolled_back_on = {
                stack.template["Resources"][alarm["AlarmName"]["Ref"]]["Properties"]["MetricName"]
                for alarm in config["AutoRollbackConfiguration"]["Alarms"]
            }
            # Nothing else: missing metrics or a full cache must not undo an update.
            assert rolled_back_on == {"Invocation5XXErrors", "InvocationModelErrors"}
            for name in rolled_back_on:
                assert alarms_of(stack)[name]["TreatMissingData"] == "notBreaching"

    def test_one_instance_has_no_canary_and_several_have(
        self, prod_as_configured: SynthesizedStage, in_vpc: SynthesizedStage
    ) -> None:
        def routing(stack: SynthesizedStack) -> dict[str, Any]:
            config = stack.only("AWS::SageMaker::Endpoint")["Properties"]["DeploymentConfig"]
            return dict(config["BlueGreenUpdatePolicy"]["TrafficRoutingConfiguration"])

        # It may scale to two, but one is all that is certain.
        assert routing(prod_as_configured.stt)["Type"] == "ALL_AT_ONCE"
        assert "CanarySize" not in routing(prod_as_configured.stt)
        assert routing(in_vpc.stt) == {
            "Type": "CANARY",
            "CanarySize": {"Type": "CAPACITY_PERCENT", "Value": 25},
            "WaitIntervalInSeconds": 600,
        }

    def test_dev_switches_at_once_and_pays_for_no_second_instance_longer_than_needed(
        self, dev: SynthesizedStage
    ) -> None:
        for stack in dev.both:
            assert "DeploymentConfig" not in stack.only("AWS::SageMaker::Endpoint")["Properties"]

    def test_what_sagemaker_would_refuse_is_refused_here(self) -> None:
        with pytest.raises(InvalidPropertiesError) as caught:
            endpoint_in(
                plain_stack(),
                guardrails=DeploymentGuardrails(
                    termination_wait_seconds=60, canary_percent=80, canary_wait_seconds=7200
                ),
            )
        assert len(caught.value.problems) == 3

    def test_settings_and_constructs_have_the_same_defaults(self) -> None:
        update = UpdateSettings().model_dump(exclude={"guarded"})
        assert DeploymentGuardrails(**update) == DeploymentGuardrails()
        scaling = ScalingSettings().model_dump(exclude={"max_instances"})
        assert StreamScaling(**scaling) == StreamScaling()


class TestScaling:
    def test_follows_the_streams_in_progress_and_never_goes_below_one(
        self, prod_as_configured: SynthesizedStage
    ) -> None:
        for stack in prod_as_configured.both:
            target = stack.only("AWS::ApplicationAutoScaling::ScalableTarget")
            assert target["Properties"] == {
                "MinCapacity": 1,
                "MaxCapacity": 2,
                "ResourceId": f"endpoint/{stack.name}/variant/{stack.variant['VariantName']}",
                "ScalableDimension": "sagemaker:variant:DesiredInstanceCount",
                "ServiceNamespace": "sagemaker",
            }
            (endpoint,) = stack.of_type("AWS::SageMaker::Endpoint")
            assert endpoint in target["DependsOn"]
            policy = stack.only("AWS::ApplicationAutoScaling::ScalingPolicy")["Properties"]
            tracking = policy["TargetTrackingScalingPolicyConfiguration"]
            assert tracking["PredefinedMetricSpecification"] == {
                "PredefinedMetricType": "SageMakerVariantConcurrentRequestsPerModelHighResolution"
            }
            assert tracking["ScaleInCooldown"] >= 1800
            assert tracking["ScaleOutCooldown"] <= 60

    def test_is_off_in_dev(self, dev: SynthesizedStage) -> None:
        for stack in dev.both:
            assert not stack.of_type("AWS::ApplicationAutoScaling::ScalableTarget")

    def test_impossible_values_are_told_at_once(self) -> None:
        endpoint = endpoint_in(plain_stack())
        with pytest.raises(InvalidPropertiesError) as caught:
            endpoint.add_scaling(
                StreamScaling(min_instances=0, max_instances=-1, streams_per_instance=0, scale_in_cooldown_seconds=-5)
            )
        assert len(caught.value.problems) == 4


class TestAlarms:
    def test_of_each_container(self, prod_as_configured: SynthesizedStage) -> None:
        of_both = {"Invocation5XXErrors", "InvocationModelErrors", "CPUUtilization"}
        assert set(alarms_of(prod_as_configured.stt)) == of_both | {"KvCacheUse", "RefusedSessions"}
        # vLLM-Omni writes no session lines, so nothing is watched that never comes.
        assert set(alarms_of(prod_as_configured.tts)) == of_both

    def test_no_instance_is_seen_by_the_metrics_that_stop(self, prod_as_configured: SynthesizedStage) -> None:
        for stack in prod_as_configured.both:
            silent = alarms_of(stack)["CPUUtilization"]
            assert silent["Namespace"] == "/aws/sagemaker/Endpoints"
            assert (silent["Statistic"], silent["ComparisonOperator"]) == ("SampleCount", "LessThanThreshold")
            assert silent["TreatMissingData"] == "breaching"
            (logical_id,) = (
                name
                for name, alarm in stack.of_type("AWS::CloudWatch::Alarm").items()
                if alarm["Properties"]["MetricName"] == "CPUUtilization"
            )
            # Else it rings while the very first instance is still starting.
            (endpoint,) = stack.of_type("AWS::SageMaker::Endpoint")
            assert endpoint in stack.template["Resources"][logical_id]["DependsOn"]

    def test_gpu_memory_is_no_alarm(self, prod_as_configured: SynthesizedStage) -> None:
        for stack in prod_as_configured.both:
            assert not [name for name in alarms_of(stack) if "Memory" in name]

    def test_every_alarm_tells_of_trouble_and_of_its_end(self, prod_as_configured: SynthesizedStage) -> None:
        for stack in prod_as_configured.both:
            (topic,) = stack.of_type("AWS::SNS::Topic")
            for alarm in alarms_of(stack).values():
                assert alarm["AlarmActions"] == alarm["OKActions"] == [{"Ref": topic}]
                assert stack.name in alarm["AlarmDescription"]

    def test_cloudwatch_may_publish_and_plain_http_may_not(self, prod_as_configured: SynthesizedStage) -> None:
        for stack in prod_as_configured.both:
            document = stack.only("AWS::SNS::TopicPolicy")["Properties"]["PolicyDocument"]
            by_effect = {statement["Effect"]: statement for statement in document["Statement"]}
            assert by_effect["Allow"]["Principal"] == {"Service": "cloudwatch.amazonaws.com"}
            assert "aws:SourceAccount" in str(by_effect["Allow"]["Condition"])
            assert by_effect["Deny"]["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}

    def test_a_mail_address_is_subscribed(self, in_vpc: SynthesizedStage, prod_as_configured: SynthesizedStage) -> None:
        for stack in in_vpc.both:
            subscription = stack.only("AWS::SNS::Subscription")["Properties"]
            assert (subscription["Protocol"], subscription["Endpoint"]) == ("email", "voice-team@example.com")
        for stack in prod_as_configured.both:
            assert not stack.of_type("AWS::SNS::Subscription")

    def test_a_topic_of_ones_own_takes_the_place_of_the_stacks(self, prod: SynthesizedStage) -> None:
        for stack in prod.both:
            assert not stack.of_type("AWS::SNS::Topic")
            for alarm in alarms_of(stack).values():
                assert alarm["AlarmActions"] == ["arn:aws:sns:eu-south-1:111122223333:on-call"]

    def test_dev_has_none(self, dev: SynthesizedStage) -> None:
        for stack in dev.both:
            assert not alarms_of(stack)


class TestSessionMetrics:
    def test_filters_read_the_log_group_of_the_endpoint(self, prod_as_configured: SynthesizedStage) -> None:
        stack = prod_as_configured.stt
        (log_group,) = stack.of_type("AWS::Logs::LogGroup")
        filters = [found["Properties"] for found in stack.of_type("AWS::Logs::MetricFilter").values()]
        assert {properties["LogGroupName"]["Ref"] for properties in filters} == {log_group}
        names = {properties["MetricTransformations"][0]["MetricName"] for properties in filters}
        assert names == {"OpenSessions", "SessionErrors", "RefusedSessions", "FirstDeltaSeconds", "KvCacheUse"}
        assert not prod_as_configured.tts.of_type("AWS::Logs::MetricFilter")

    def test_alarms_and_graphs_look_at_metrics_that_a_filter_makes(self, prod_as_configured: SynthesizedStage) -> None:
        stack = prod_as_configured.stt
        made = {
            (transformation["MetricNamespace"], transformation["MetricName"])
            for found in stack.of_type("AWS::Logs::MetricFilter").values()
            for transformation in found["Properties"]["MetricTransformations"]
        }
        looked_at = {
            (alarm["Namespace"], name) for name, alarm in alarms_of(stack).items() if "Voice" in alarm["Namespace"]
        }
        assert looked_at
        assert looked_at <= made
        graphs = json.dumps(prod_as_configured.foundation.template)
        for namespace, name in made:
            assert f'\\"{namespace}\\",\\"{name}\\"' in graphs

    def test_every_line_and_field_that_is_read_is_one_the_bridge_promises(self) -> None:
        events = json.loads(LOG_EVENTS.read_text())["$defs"]
        for described in SESSION_METRIC_FILTERS:
            fields = events[described.event]["properties"]
            read = [name for name, _ in described.where]
            if described.value.startswith("$."):
                read.append(described.value.removeprefix("$."))
                assert fields[read[-1]]["type"] in {"number", "integer"}
            assert set(read) <= set(fields)

    def test_are_refused_for_a_container_that_writes_no_such_lines(self) -> None:
        with pytest.raises(InvalidPropertiesError, match="session_metrics is set"):
            endpoint_in(plain_stack(), session_metrics=True)


class TestDashboard:
    def test_one_a_stage_shows_both_endpoints(self, prod_as_configured: SynthesizedStage) -> None:
        body = str(prod_as_configured.foundation.only("AWS::CloudWatch::Dashboard")["Properties"]["DashboardBody"])
        for name in ("prod-voice-stt", "prod-voice-tts", "ConcurrentRequestsPerModel", "GPUUtilization"):
            assert name in body

    def test_no_value_passes_between_stacks(self, prod_as_configured: SynthesizedStage) -> None:
        """An export in use cannot be removed: turning a setting off would then fail."""
        for stack in prod_as_configured.all:
            text = json.dumps(stack.template)
            for word in ("Fn::ImportValue", "Fn::GetStackOutput", '"Export"'):
                assert word not in text

    def test_dev_needs_no_third_stack(self, dev: SynthesizedStage) -> None:
        assert dev.foundation is None


class TestPause:
    BILLED_OR_ABOUT_IT: ClassVar[set[str]] = {
        "AWS::SageMaker::Endpoint",
        "AWS::ApplicationAutoScaling::ScalableTarget",
        "AWS::ApplicationAutoScaling::ScalingPolicy",
        "AWS::CloudWatch::Alarm",
    }

    def test_takes_the_endpoint_and_what_watches_it_and_leaves_all_else_as_it_is(
        self, paused: SynthesizedStage, prod_as_configured: SynthesizedStage
    ) -> None:
        for before, after in zip(prod_as_configured.both, paused.both, strict=True):
            gone = {
                name: resource
                for name, resource in before.template["Resources"].items()
                if name not in after.template["Resources"]
            }
            assert {resource["Type"] for resource in gone.values()} - {"AWS::SSM::Parameter"} == self.BILLED_OR_ABOUT_IT
            (parameter,) = (r for r in gone.values() if r["Type"] == "AWS::SSM::Parameter")
            assert parameter["Properties"]["Name"].endswith("/endpoint-name")
            # The topic too: a mail address would have to confirm again after every pause.
            for name, resource in after.template["Resources"].items():
                assert resource == before.template["Resources"][name]

    def test_says_how_to_come_back(self, paused: SynthesizedStage) -> None:
        for stack in paused.both:
            assert "paused=false" in stack.template["Outputs"]["Paused"]["Description"]
            assert "EndpointName" not in stack.template["Outputs"]

    def test_leaves_nothing_to_scale_or_watch(self) -> None:
        endpoint = endpoint_in(plain_stack(), paused=True)
        assert endpoint.endpoint is None
        with pytest.raises(InvalidPropertiesError, match="paused"):
            endpoint.add_scaling(StreamScaling())
        with pytest.raises(InvalidPropertiesError, match="paused"):
            endpoint.add_alarms()


class TestNetwork:
    def test_containers_run_in_the_subnets_with_no_way_in(self, in_vpc: SynthesizedStage) -> None:
        for stack in in_vpc.both:
            (group,) = stack.of_type("AWS::EC2::SecurityGroup")
            rules = stack.only("AWS::EC2::SecurityGroup")["Properties"]
            assert "SecurityGroupIngress" not in rules
            assert [(rule["FromPort"], rule["ToPort"]) for rule in rules["SecurityGroupEgress"]] == [(443, 443)]
            for model in stack.of_type("AWS::SageMaker::Model").values():
                assert model["Properties"]["VpcConfig"] == {
                    "SecurityGroupIds": [{"Fn::GetAtt": [group, "GroupId"]}],
                    "Subnets": ["subnet-0123456789abcdef0", "subnet-0123456789abcdef1"],
                }
                assert model["Properties"]["EnableNetworkIsolation"] is True

    def test_the_right_to_attach_is_there_before_the_model(self, in_vpc: SynthesizedStage) -> None:
        for stack in in_vpc.both:
            (policy,) = (name for name in stack.of_type("AWS::IAM::Policy") if "Attach" in name)
            for model in stack.of_type("AWS::SageMaker::Model").values():
                assert policy in model["DependsOn"]

    def test_vpc_endpoints_are_made_once_and_let_streams_through(self, in_vpc: SynthesizedStage) -> None:
        endpoints = [e["Properties"] for e in in_vpc.foundation.of_type("AWS::EC2::VPCEndpoint").values()]
        services = {str(e["ServiceName"]["Fn::Join"][1][-1]).removeprefix(".") for e in endpoints}
        assert services == {"s3", "ecr.api", "ecr.dkr", "logs", "monitoring", "sagemaker.runtime"}
        ingress = in_vpc.foundation.only("AWS::EC2::SecurityGroup")["Properties"]["SecurityGroupIngress"]
        assert {(rule["FromPort"], rule["CidrIp"]) for rule in ingress} == {
            (443, "10.1.0.0/16"),
            (8443, "10.1.0.0/16"),
        }
        for stack in in_vpc.both:
            assert not stack.of_type("AWS::EC2::VPCEndpoint")
            assert "prod-voice-foundation" in str(
                json.loads((stack.path.parent / "manifest.json").read_text())["artifacts"][stack.name]["dependencies"]
            )

    def test_hub_weights_without_a_way_out_are_refused(self) -> None:
        stack = plain_stack()
        network = VoiceNetwork(
            stack,
            "Network",
            vpc=ec2.Vpc.from_vpc_attributes(stack, "Vpc", vpc_id="vpc-01234567", availability_zones=["a"]),
            subnets=[ec2.Subnet.from_subnet_id(stack, "Subnet", "subnet-01234567")],
            internet_egress=False,
        )
        with pytest.raises(InvalidPropertiesError, match="internet_egress"):
            endpoint_in(stack, network=network)

    def test_cfn_lint_finds_nothing(self, in_vpc: SynthesizedStage, paused: SynthesizedStage) -> None:
        # The stacks of both voices are of the same making; the other templates are linted in test_voice_stacks.py.
        for stack in (in_vpc.stt, in_vpc.foundation, paused.stt):
            findings = lint(stack.path.read_text(), config=ManualArgs(regions=["us-east-1"]))
            assert [str(finding) for finding in findings] == []


class TestKeys:
    def test_the_log_groups_key_names_the_logs_service_for_this_log_group(
        self, prod_as_configured: SynthesizedStage
    ) -> None:
        for stack in prod_as_configured.both:
            (key,) = stack.of_type("AWS::KMS::Key")
            log_group = stack.only("AWS::Logs::LogGroup")
            assert log_group["Properties"]["KmsKeyId"] == {"Fn::GetAtt": [key, "Arn"]}
            properties = stack.only("AWS::KMS::Key")["Properties"]
            assert properties["EnableKeyRotation"] is True
            (logs_statement,) = (
                statement
                for statement in properties["KeyPolicy"]["Statement"]
                if "logs." in str(statement["Principal"])
            )
            condition = str(logs_statement["Condition"]["ArnEquals"]["kms:EncryptionContext:aws:logs:arn"])
            assert f":log-group:/aws/sagemaker/Endpoints/{stack.name}" in condition

    def test_a_log_that_is_kept_is_kept_readable(self, prod_as_configured: SynthesizedStage) -> None:
        for stack in prod_as_configured.both:
            for resource_type in ("AWS::Logs::LogGroup", "AWS::KMS::Key"):
                assert stack.only(resource_type)["DeletionPolicy"] == "RetainExceptOnCreate"

    def test_dev_pays_for_none(self, dev: SynthesizedStage) -> None:
        for stack in dev.both:
            assert not stack.of_type("AWS::KMS::Key")


class TestTags:
    def test_stacks_tell_whose_they_are_and_who_pays(self, in_vpc: SynthesizedStage, dev: SynthesizedStage) -> None:
        assert in_vpc.stt.tags() == {
            "project": "sagemaker-voice",
            "stage": "prod",
            "service": "stt",
            "owner": "voice team",
            "cost-center": "CC-1234",
        }
        assert dev.tts.tags() == {"project": "sagemaker-voice", "stage": "dev", "service": "tts"}


class TestEndpointsDefinedElsewhere:
    def test_can_be_streamed_to_and_measured(self) -> None:
        stack = plain_stack()
        imported = VoiceEndpoint.from_endpoint_name(stack, "Imported", "prod-voice-stt")
        caller = iam.Role(stack, "Caller", assumed_by=iam.AccountRootPrincipal())
        imported.grant_stream(caller).assert_success()
        cloudwatch.Alarm(
            stack,
            "Alarm",
            metric=imported.metric_concurrent_requests_per_model(),
            threshold=1,
            evaluation_periods=1,
        )
        template = Template.from_stack(stack)
        assert not template.find_resources("AWS::SageMaker::Endpoint")
        template.has_resource_properties(
            "AWS::CloudWatch::Alarm",
            {
                "Namespace": "AWS/SageMaker",
                "MetricName": "ConcurrentRequestsPerModel",
                "Dimensions": Match.array_with([{"Name": "EndpointName", "Value": "prod-voice-stt"}]),
            },
        )

    def test_metrics_are_named_after_cloudwatchs(self) -> None:
        endpoint = MeasuredEndpoint(plain_stack(), "Imported", endpoint_name="x")
        for method in (name for name in dir(endpoint) if name.startswith("metric_")):
            metric = getattr(endpoint, method)()
            assert method.removeprefix("metric_").replace("_", "") == metric.metric_name.lower()


@dataclass(frozen=True)
class StagedElsewhere:
    """A store of another stack."""

    bucket: s3.IBucket
    service_token: str


class TestStagedWeights:
    def test_are_read_where_they_were_staged_and_decrypted(self) -> None:
        stack = plain_stack()
        bucket = s3.Bucket(stack, "Weights", encryption_key=kms.Key(stack, "Key"))
        store = StagedElsewhere(bucket, "arn:aws:lambda:us-east-1:111122223333:function:staging")
        endpoint_in(
            stack, weights=ModelWeights.staged(store, "mistralai/Voxtral", revision="0a1b2c", files=["*.safetensors"])
        )
        template = Template.from_stack(stack)
        source = str(template.find_resources("AWS::SageMaker::Model"))
        assert "/models/mistralai/Voxtral/0a1b2c/" in source
        assert "'EnableNetworkIsolation': True" in source
        policies = str(template.find_resources("AWS::IAM::Policy"))
        assert "/models/mistralai/Voxtral/0a1b2c/*" in policies
        assert "kms:Decrypt" in policies
        # No model before its weights are there.
        (staging,) = template.find_resources("Custom::StagedWeights")
        assert template.find_resources("Custom::StagedWeights")[staging]["Properties"] == {
            "ServiceToken": store.service_token,
            "ServiceTimeout": "3600",
            "Model": "mistralai/Voxtral",
            "Revision": "0a1b2c",
            "Files": ["*.safetensors"],
        }
        for model in template.find_resources("AWS::SageMaker::Model").values():
            assert staging in model["DependsOn"]

    def test_without_files_is_refused(self) -> None:
        store = StagedElsewhere(s3.Bucket(plain_stack(), "Weights"), "arn:aws:lambda:us-east-1:1:function:staging")
        with pytest.raises(InvalidPropertiesError, match="files is empty"):
            ModelWeights.staged(store, "mistralai/Voxtral", revision="0a1b2c", files=[])

    def test_a_branch_with_a_slash_or_no_owner_is_refused(self) -> None:
        with pytest.raises(InvalidPropertiesError) as caught:
            staged_prefix("voxtral", "refs/pr/1")
        assert len(caught.value.problems) == 2


def test_the_guarded_endpoint_is_valid_input_of_the_service(
    prod_as_configured: SynthesizedStage, in_vpc: SynthesizedStage
) -> None:
    service = botocore.session.get_session().get_service_model("sagemaker")
    shape = service.operation_model("CreateEndpoint").input_shape
    config = shape.members["DeploymentConfig"]
    for stack in (*prod_as_configured.both, *in_vpc.both):
        given = stack.only("AWS::SageMaker::Endpoint")["Properties"]["DeploymentConfig"]
        given = {
            **given,
            "AutoRollbackConfiguration": {"Alarms": [{"AlarmName": "named-when-deployed"} for _ in range(2)]},
        }
        report = ParamValidator().validate(given, config)
        assert not report.has_errors(), report.generate_report()


def test_the_stages_of_cdk_json_differ_as_documented() -> None:
    context = json.loads((Path(__file__).resolve().parents[2] / "cdk.json").read_text())["context"]
    dev, prod = load_settings(context, "dev"), load_settings(context, "prod")
    assert (dev.monitoring.alarms, prod.monitoring.alarms) == (False, True)
    assert (dev.stt.update.guarded, prod.stt.update.guarded) == (False, True)
    assert (dev.encrypt_logs, prod.encrypt_logs) == (False, True)
