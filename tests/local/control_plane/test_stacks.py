"""Stacks through the real API: what a CLI that polls events would see."""

import json
from typing import Any

import pytest

from voice_local.control_plane import ControlPlane
from voice_local.interfaces import EndpointStatus

NAME = "dev-voice-stt"


def create(cloudformation: Any, template: Any, **options: Any) -> None:
    cloudformation.create_stack(StackName="VoiceStt", TemplateBody=json.dumps(template), **options)


def events(cloudformation: Any, name: str = "VoiceStt") -> list[tuple[str, str, str]]:
    listed = cloudformation.describe_stack_events(StackName=name)["StackEvents"]
    return [(e["LogicalResourceId"], e["ResourceStatus"], e.get("ResourceStatusReason", "")) for e in reversed(listed)]


def test_create_makes_everything_in_order_and_waits_for_the_endpoint(plane, client, host, wait, template) -> None:
    cloudformation, sagemaker = client("cloudformation"), client("sagemaker")
    wanted = template()
    wanted["Resources"]["Model"]["Properties"]["PrimaryContainer"]["Environment"]["DELAY"] = "1"
    create(cloudformation, wanted)
    # The call returns while the endpoint starts, and the API answers meanwhile.
    assert cloudformation.describe_stacks(StackName="VoiceStt")["Stacks"][0]["StackStatus"] == "CREATE_IN_PROGRESS"
    assert wait(cloudformation, "VoiceStt") == "CREATE_COMPLETE"

    seen = [(name, status) for name, status, _ in events(cloudformation)]
    assert seen[0] == ("VoiceStt", "CREATE_IN_PROGRESS")
    assert seen[-1] == ("VoiceStt", "CREATE_COMPLETE")
    order = [name for name, status in seen if status == "CREATE_COMPLETE"]
    assert order.index("Role") < order.index("Policy") < order.index("Model") < order.index("Config")
    assert order.index("LogGroup") < order.index("Endpoint") < order.index("Parameter")

    described = sagemaker.describe_endpoint(EndpointName=NAME)
    assert described["EndpointStatus"] == "InService"
    variant = described["ProductionVariants"][0]
    assert [pool["InstanceType"] for pool in variant["InstancePools"]] == ["ml.g6.xlarge", "ml.g5.xlarge"]
    assert variant["RoutingConfig"] == {"RoutingStrategy": "LEAST_OUTSTANDING_REQUESTS"}
    config = sagemaker.describe_endpoint_config(EndpointConfigName=described["EndpointConfigName"])
    assert config["ProductionVariants"][0]["InferenceAmiVersion"] == "al2023-ami-sagemaker-inference-gpu-4-1"
    model = sagemaker.describe_model(ModelName=config["ProductionVariants"][0]["ModelName"])
    assert model["EnableNetworkIsolation"] is True
    assert model["PrimaryContainer"]["Environment"]["SM_VLLM_MAX_MODEL_LEN"] == "45000"

    outputs = {o["OutputKey"]: o for o in cloudformation.describe_stacks(StackName="VoiceStt")["Stacks"][0]["Outputs"]}
    assert outputs["EndpointName"]["OutputValue"] == NAME
    assert outputs["EndpointArn"]["OutputValue"] == described["EndpointArn"]
    assert cloudformation.list_exports()["Exports"][0]["Name"] == "SttEndpoint"
    assert client("ssm").get_parameter(Name="/voice/dev/stt/endpoint")["Parameter"]["Value"] == NAME
    assert len(client("cloudwatch").describe_alarms()["MetricAlarms"]) == 1

    view = plane.find(NAME)
    assert view is not None
    assert view.status is EndpointStatus.IN_SERVICE
    assert view.containers[0].port == host.containers[0].port
    assert plane.find("another") is None


def test_delete_stops_the_container_and_leaves_nothing(plane, client, host, wait, template) -> None:
    cloudformation = client("cloudformation")
    create(cloudformation, template())
    assert wait(cloudformation, "VoiceStt") == "CREATE_COMPLETE"
    stack_id = cloudformation.describe_stacks(StackName="VoiceStt")["Stacks"][0]["StackId"]
    cloudformation.delete_stack(StackName="VoiceStt")
    # While its resources go, a stack is still described with its outputs.
    by_id: dict[str, Any] = {"StackStatus": ""}
    while by_id["StackStatus"] != "DELETE_COMPLETE":
        by_id = cloudformation.describe_stacks(StackName=stack_id)["Stacks"][0]
        assert {output["OutputKey"] for output in by_id["Outputs"]} == {"EndpointName", "EndpointArn"}
    assert wait(cloudformation, "VoiceStt") == "GONE"
    assert host.running() == []
    assert plane.find(NAME) is None
    assert client("sagemaker").list_models()["Models"] == []
    assert client("iam").list_roles()["Roles"] == []
    assert client("logs").describe_log_groups()["logGroups"] == []
    assert client("cloudwatch").describe_alarms()["MetricAlarms"] == []
    assert cloudformation.list_exports()["Exports"] == []
    # By its id, a deleted stack and its events stay visible: the CLI polls them.
    assert events(cloudformation, stack_id)[-1][:2] == ("VoiceStt", "DELETE_COMPLETE")
    cloudformation.delete_stack(StackName="VoiceStt")  # deleting what is gone succeeds


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"mode": "broken"}, "exit code 3. Last line of its output: CUDA error: no kernel image is available"),
        ({"image": "unknown:1"}, "No image unknown:1 was pushed here."),
    ],
)
def test_a_broken_container_rolls_back_with_its_reason(client, host, wait, template, *, options, reason) -> None:
    cloudformation = client("cloudformation")
    create(cloudformation, template(**options))
    assert wait(cloudformation, "VoiceStt") == "ROLLBACK_COMPLETE"
    failed = [e for e in events(cloudformation) if e[1] == "CREATE_FAILED"]
    assert [name for name, _, _ in failed] == ["Endpoint"]
    assert reason in failed[0][2]
    assert client("sagemaker").list_endpoints()["Endpoints"] == []
    assert client("sagemaker").list_models()["Models"] == []
    assert host.running() == []
    with pytest.raises(cloudformation.exceptions.ClientError, match="ROLLBACK_COMPLETE state and can not be updated"):
        cloudformation.update_stack(StackName="VoiceStt", TemplateBody=json.dumps(template()))


def test_without_rollback_a_failed_stack_stays_to_be_looked_at(client, wait, template) -> None:
    cloudformation = client("cloudformation")
    create(cloudformation, template(mode="broken"), DisableRollback=True)
    assert wait(cloudformation, "VoiceStt") == "CREATE_FAILED"
    described = client("sagemaker").describe_endpoint(EndpointName=NAME)
    assert described["EndpointStatus"] == "Failed"
    assert "did not pass the ping health check" in described["FailureReason"]


@pytest.mark.parametrize("startup_seconds", [1.0])
def test_a_container_that_never_answers_is_given_up(client, wait, template) -> None:
    cloudformation = client("cloudformation")
    wanted = template(mode="never")
    wanted["Resources"]["Config"]["Properties"]["ProductionVariants"][0][
        "ContainerStartupHealthCheckTimeoutInSeconds"
    ] = 60
    # The plane's own limit (1 s here) is the shorter one.
    create(cloudformation, wanted)
    assert wait(cloudformation, "VoiceStt") == "ROLLBACK_COMPLETE"
    assert any("did not answer within 1 s" in reason for _, _, reason in events(cloudformation))


def test_an_update_moves_the_live_endpoint_to_the_new_config(client, host, wait, template) -> None:
    cloudformation, sagemaker = client("cloudformation"), client("sagemaker")
    create(cloudformation, template())
    assert wait(cloudformation, "VoiceStt") == "CREATE_COMPLETE"
    before = sagemaker.describe_endpoint(EndpointName=NAME)
    with pytest.raises(cloudformation.exceptions.ClientError, match="No updates are to be performed"):
        cloudformation.update_stack(StackName="VoiceStt", TemplateBody=json.dumps(template()))

    changed = template()
    pools = changed["Resources"]["Config"]["Properties"]["ProductionVariants"][0]["InstancePools"]
    pools.append({"InstanceType": "ml.g4dn.xlarge", "Priority": 3})
    del changed["Resources"]["Alarm"]
    cloudformation.update_stack(StackName="VoiceStt", TemplateBody=json.dumps(changed))
    assert wait(cloudformation, "VoiceStt") == "UPDATE_COMPLETE"

    after = sagemaker.describe_endpoint(EndpointName=NAME)
    assert after["EndpointStatus"] == "InService"
    assert after["EndpointConfigName"] != before["EndpointConfigName"]
    assert len(after["ProductionVariants"][0]["InstancePools"]) == 3
    assert after["CreationTime"] == before["CreationTime"]
    assert [c["EndpointConfigName"] for c in sagemaker.list_endpoint_configs()["EndpointConfigs"]] == [
        after["EndpointConfigName"]
    ]
    assert client("cloudwatch").describe_alarms()["MetricAlarms"] == []
    assert len(host.containers) == 2
    assert host.running() == [host.containers[1]]


def test_an_update_that_fails_keeps_the_old_endpoint_serving(client, host, wait, template) -> None:
    cloudformation, sagemaker = client("cloudformation"), client("sagemaker")
    create(cloudformation, template())
    assert wait(cloudformation, "VoiceStt") == "CREATE_COMPLETE"
    before = sagemaker.describe_endpoint(EndpointName=NAME)
    cloudformation.update_stack(StackName="VoiceStt", TemplateBody=json.dumps(template(mode="broken")))
    assert wait(cloudformation, "VoiceStt") == "UPDATE_ROLLBACK_COMPLETE"
    after = sagemaker.describe_endpoint(EndpointName=NAME)
    assert after["EndpointStatus"] == "InService"
    assert after["EndpointConfigName"] == before["EndpointConfigName"]
    assert len(sagemaker.list_endpoint_configs()["EndpointConfigs"]) == 1
    assert len(sagemaker.list_models()["Models"]) == 1
    assert host.running() == [host.containers[0]]
    # What failed can be put right: the next update goes through, and the stack can be deleted.
    cloudformation.update_stack(StackName="VoiceStt", TemplateBody=json.dumps(template(image="other:2")))
    assert wait(cloudformation, "VoiceStt") == "UPDATE_COMPLETE"
    cloudformation.delete_stack(StackName="VoiceStt")
    assert wait(cloudformation, "VoiceStt") == "GONE"
    assert host.running() == []


def test_change_sets_create_and_update_twice(client, wait, template) -> None:
    cloudformation = client("cloudformation")
    for number, kind in enumerate(["CREATE", "UPDATE", "UPDATE"]):
        wanted = template()
        wanted["Resources"]["LogGroup"]["Properties"]["RetentionInDays"] = [1, 3, 5][number]
        cloudformation.create_change_set(
            StackName="VoiceStt", ChangeSetName=f"c{number}", ChangeSetType=kind, TemplateBody=json.dumps(wanted)
        )
        cloudformation.execute_change_set(StackName="VoiceStt", ChangeSetName=f"c{number}")
        assert wait(cloudformation, "VoiceStt") == f"{kind}_COMPLETE"
        stack = cloudformation.describe_stacks(StackName="VoiceStt")["Stacks"][0]
        assert {o["OutputKey"] for o in stack["Outputs"]} == {"EndpointName", "EndpointArn"}
        groups = client("logs").describe_log_groups()["logGroups"]
        assert [group["retentionInDays"] for group in groups] == [[1, 3, 5][number]]


def test_change_sets_of_two_stacks_may_have_one_name_as_the_cdk_cli_gives_them(client, wait) -> None:
    cloudformation = client("cloudformation")
    name = "cdk-deploy-change-set"
    for stack in ("A", "B"):
        # The CLI deletes an earlier one first, whether there is one or not.
        cloudformation.create_change_set(
            StackName=stack,
            ChangeSetName=name,
            ChangeSetType="CREATE",
            TemplateBody=json.dumps({"Resources": {stack: {"Type": "AWS::SNS::Topic"}}}),
        )
    cloudformation.delete_change_set(StackName="A", ChangeSetName="absent")
    with pytest.raises(cloudformation.exceptions.ChangeSetNotFoundException):
        cloudformation.describe_change_set(StackName="A", ChangeSetName="absent")
    for stack in ("A", "B"):
        described = cloudformation.describe_change_set(StackName=stack, ChangeSetName=name)
        assert (described["StackName"], described["Status"]) == (stack, "CREATE_COMPLETE")
        assert [c["ResourceChange"]["LogicalResourceId"] for c in described["Changes"]] == [stack]
        assert cloudformation.describe_stacks(StackName=stack)["Stacks"][0]["StackStatus"] == "REVIEW_IN_PROGRESS"
        cloudformation.execute_change_set(StackName=stack, ChangeSetName=name)
    for stack in ("A", "B"):
        assert wait(cloudformation, stack) == "CREATE_COMPLETE"
        created = cloudformation.list_stack_resources(StackName=stack)["StackResourceSummaries"]
        assert [resource["LogicalResourceId"] for resource in created] == [stack]
    with pytest.raises(cloudformation.exceptions.ClientError, match="cannot be executed in its current status"):
        cloudformation.execute_change_set(StackName="A", ChangeSetName=name)


def test_a_change_set_says_what_an_update_would_do(client, wait, template) -> None:
    cloudformation = client("cloudformation")
    create(cloudformation, template())
    assert wait(cloudformation, "VoiceStt") == "CREATE_COMPLETE"
    changed = template(image="other:2")
    del changed["Resources"]["Alarm"]
    changed["Resources"]["Topic"] = {"Type": "AWS::SNS::Topic"}
    changed["Resources"]["LogGroup"]["Properties"]["RetentionInDays"] = 30

    def change_set(name: str, wanted: Any) -> Any:
        # As the CDK CLI asks: parameters keep their values, also those that only the template gives.
        cloudformation.create_change_set(
            StackName="VoiceStt",
            ChangeSetName=name,
            ChangeSetType="UPDATE",
            TemplateBody=json.dumps(wanted),
            Parameters=[{"ParameterKey": "BootstrapNote", "UsePreviousValue": True}],
        )
        return cloudformation.describe_change_set(StackName="VoiceStt", ChangeSetName=name)

    described = change_set("next", changed)
    told = {c["ResourceChange"]["LogicalResourceId"]: c["ResourceChange"] for c in described["Changes"]}
    assert {name: change["Action"] for name, change in told.items()} == {
        "Model": "Modify",
        "LogGroup": "Modify",
        "Topic": "Add",
        "Alarm": "Remove",
    }
    assert told["Model"]["Replacement"] == "True"
    assert told["LogGroup"]["Replacement"] == "False"
    nothing = change_set("nothing", template())
    assert (nothing["Status"], nothing["ExecutionStatus"]) == ("FAILED", "UNAVAILABLE")
    assert "didn't contain changes" in nothing["StatusReason"]
    cloudformation.execute_change_set(StackName="VoiceStt", ChangeSetName="next")
    assert wait(cloudformation, "VoiceStt") == "UPDATE_COMPLETE"
    # The others were for a stack that is another now.
    left = cloudformation.list_change_sets(StackName="VoiceStt")["Summaries"]
    assert [one["ChangeSetName"] for one in left] == ["next"]


def test_an_unknown_resource_type_fails_and_says_so(client, wait) -> None:
    cloudformation = client("cloudformation")
    create(cloudformation, {"Resources": {"X": {"Type": "AWS::QuantumLedger::Thing"}}})
    assert wait(cloudformation, "VoiceStt") == "ROLLBACK_COMPLETE"
    assert any(
        "AWS::QuantumLedger::Thing" in reason
        for _, status, reason in events(cloudformation)
        if status == "CREATE_FAILED"
    )


def test_a_property_that_sagemaker_does_not_have_fails(client, wait, template) -> None:
    cloudformation = client("cloudformation")
    wanted = template()
    wanted["Resources"]["Model"]["Properties"]["PrimaryContainer"]["Imagee"] = "x"
    create(cloudformation, wanted)
    assert wait(cloudformation, "VoiceStt") == "ROLLBACK_COMPLETE"
    reasons = [reason for name, status, reason in events(cloudformation) if status == "CREATE_FAILED"]
    assert reasons == ["Encountered unsupported property AWS::SageMaker::Model.PrimaryContainer.Imagee"]


def test_a_bucket_that_is_not_empty_stays_and_the_next_delete_succeeds(client, wait) -> None:
    cloudformation, s3 = client("cloudformation"), client("s3")
    create(cloudformation, {"Resources": {"B": {"Type": "AWS::S3::Bucket", "Properties": {"BucketName": "weights"}}}})
    assert wait(cloudformation, "VoiceStt") == "CREATE_COMPLETE"
    s3.put_object(Bucket="weights", Key="a", Body=b"x")
    cloudformation.delete_stack(StackName="VoiceStt")
    assert wait(cloudformation, "VoiceStt") == "DELETE_FAILED"
    assert any("not empty" in reason for _, _, reason in events(cloudformation))
    s3.delete_object(Bucket="weights", Key="a")
    cloudformation.delete_stack(StackName="VoiceStt")
    assert wait(cloudformation, "VoiceStt") == "GONE"


def test_a_protected_stack_is_not_deleted(client, wait) -> None:
    cloudformation = client("cloudformation")
    create(
        cloudformation,
        {"Resources": {"B": {"Type": "AWS::S3::Bucket"}}},
        EnableTerminationProtection=True,
    )
    assert wait(cloudformation, "VoiceStt") == "CREATE_COMPLETE"
    with pytest.raises(cloudformation.exceptions.ClientError, match="TerminationProtection"):
        cloudformation.delete_stack(StackName="VoiceStt")
    cloudformation.update_termination_protection(StackName="VoiceStt", EnableTerminationProtection=False)
    cloudformation.delete_stack(StackName="VoiceStt")
    assert wait(cloudformation, "VoiceStt") == "GONE"


def test_a_stopped_plane_leaves_no_container(plane: ControlPlane, client, host, wait, template) -> None:
    cloudformation = client("cloudformation")
    create(cloudformation, template())
    assert wait(cloudformation, "VoiceStt") == "CREATE_COMPLETE"
    assert len(host.running()) == 1
    plane.stop()
    assert host.running() == []
    plane.stop()


def test_a_stacks_tags_go_to_what_it_creates(client, host, template, wait) -> None:
    cloudformation, sagemaker = client("cloudformation"), client("sagemaker")
    tags = [{"Key": "stage", "Value": "dev"}, {"Key": "owner", "Value": "stack"}]
    wanted = template()
    wanted["Resources"]["Model"]["Properties"]["Tags"] = [{"Key": "owner", "Value": "resource"}]
    cloudformation.create_stack(StackName="tagged", TemplateBody=json.dumps(wanted), Tags=tags)
    assert wait(cloudformation, "tagged") == "CREATE_COMPLETE"

    def tags_of(arn: str) -> dict[str, str]:
        return {tag["Key"]: tag["Value"] for tag in sagemaker.list_tags(ResourceArn=arn)["Tags"]}

    assert tags_of(sagemaker.list_models()["Models"][0]["ModelArn"]) == {"stage": "dev", "owner": "resource"}
    assert tags_of(sagemaker.list_endpoint_configs()["EndpointConfigs"][0]["EndpointConfigArn"])["stage"] == "dev"
    assert tags_of(sagemaker.list_endpoints()["Endpoints"][0]["EndpointArn"])["owner"] == "stack"
