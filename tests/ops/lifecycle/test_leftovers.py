"""After a destroy nothing of a stage is left, or it is named with the command that removes it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from tests.local.control_plane.conftest import voice_template, wait_for_stack
from voice_local.control_plane import ControlPlane
from voice_local.identity import LocalIdentity
from voice_local.isolation import IsolatedClients, isolated_environment
from voice_ops import leftovers
from voice_ops.leftovers import delete_images, left_over, stage_images
from voice_ops.live_config import AwsCallError

ClientOf = Callable[[str], Any]

TAGS = [{"Key": "project", "Value": "sagemaker-voice"}, {"Key": "stage", "Value": "dev"}]
OTHER_STAGE = [{"Key": "project", "Value": "sagemaker-voice"}, {"Key": "stage", "Value": "prod"}]
IMAGE = "123456789012.dkr.ecr.us-east-1.amazonaws.com/assets:0a1b"
ROLE = "arn:aws:iam::123456789012:role/voice"


@pytest.fixture
def shell(plane: ControlPlane, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment of a shell that reaches the control plane."""
    for name, value in isolated_environment({}, identity=LocalIdentity(), control_plane_url=plane.url).items():
        monkeypatch.setenv(name, value)


def kinds(found: tuple[leftovers.StageResource, ...]) -> list[str]:
    return [f"{resource.service} {resource.kind}" for resource in found]


def deploy(client: ClientOf) -> None:
    template = voice_template(image=IMAGE)
    template["Resources"]["Parameter"]["Properties"]["Name"] = "/sagemaker-voice/dev/stt/endpoint-name"
    cloudformation = client("cloudformation")
    cloudformation.create_stack(StackName="dev-voice-stt", TemplateBody=json.dumps(template), Tags=TAGS)
    assert wait_for_stack(cloudformation, "dev-voice-stt") == "CREATE_COMPLETE"


def destroy(client: ClientOf) -> None:
    client("cloudformation").delete_stack(StackName="dev-voice-stt")
    assert wait_for_stack(client("cloudformation"), "dev-voice-stt") == "GONE"


def push_image(client: ClientOf) -> None:
    ecr = client("ecr")
    try:
        ecr.create_repository(repositoryName="assets")
    except ClientError:
        assert ecr.describe_repositories(repositoryNames=["assets"])["repositories"]
    layer = {"mediaType": "x", "size": 1, "digest": "sha256:" + "0" * 64}
    manifest = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.docker.distribution.manifest.v2+json",
        "config": layer,
        "layers": [layer],
    }
    ecr.put_image(repositoryName="assets", imageManifest=json.dumps(manifest), imageTag="0a1b")


def test_everything_of_a_deployed_stage_is_found_and_nothing_after_its_destroy(client: ClientOf) -> None:
    push_image(client)
    deploy(client)
    images = stage_images("dev", client)

    assert [image.name for image in images] == ["assets:0a1b"]
    assert kinds(left_over("dev", client, images=images)) == [
        "cloudformation stack",
        "cloudwatch alarm",
        "ecr image",
        "iam role",
        "logs log group",
        "sagemaker endpoint",
        "sagemaker endpoint config",
        "sagemaker model",
        "ssm parameter",
    ]
    assert left_over("prod", client) == (), "another stage has nothing"
    assert delete_images(images, client) == (), "an image that a model runs is not deleted"

    destroy(client)

    assert kinds(left_over("dev", client, images=images)) == ["ecr image"], "CDK keeps what it pushed"
    assert delete_images(images, client) == images
    assert left_over("dev", client, images=images) == ()
    assert delete_images(images, client) == (), "one that is gone is no error"


def plant_model(client: ClientOf, tags: list[dict[str, str]], name: str = "m") -> Callable[[], Any]:
    sagemaker = client("sagemaker")
    sagemaker.create_model(ModelName=name, ExecutionRoleArn=ROLE, PrimaryContainer={"Image": IMAGE}, Tags=tags)
    return lambda: sagemaker.delete_model(ModelName=name)


def plant_config(client: ClientOf, tags: list[dict[str, str]]) -> Callable[[], Any]:
    remove_model = plant_model(client, OTHER_STAGE)
    variant = {"VariantName": "v", "ModelName": "m", "InstanceType": "ml.g6.xlarge", "InitialInstanceCount": 1}
    client("sagemaker").create_endpoint_config(EndpointConfigName="c", ProductionVariants=[variant], Tags=tags)

    def remove() -> None:
        client("sagemaker").delete_endpoint_config(EndpointConfigName="c")
        remove_model()

    return remove


def plant_log_group(client: ClientOf, _tags: Any) -> Callable[[], Any]:
    name = "/aws/sagemaker/Endpoints/dev-voice-tts"
    client("logs").create_log_group(logGroupName=name)
    client("logs").create_log_group(logGroupName=f"{name}-2")  # somebody else's

    def remove() -> None:
        client("logs").delete_log_group(logGroupName=name)
        client("logs").delete_log_group(logGroupName=f"{name}-2")

    return remove


def plant_parameter(client: ClientOf, _tags: Any) -> Callable[[], Any]:
    name = "/sagemaker-voice/dev/tts/model"
    client("ssm").put_parameter(Name=name, Value="x", Type="String")
    client("ssm").put_parameter(Name="/sagemaker-voice/dev2/tts/model", Value="x", Type="String")
    return lambda: client("ssm").delete_parameters(Names=[name, "/sagemaker-voice/dev2/tts/model"])


def plant_key(client: ClientOf, tags: list[dict[str, str]]) -> Callable[[], Any]:
    kms = client("kms")
    given = [{"TagKey": tag["Key"], "TagValue": tag["Value"]} for tag in tags]
    key = kms.create_key(Tags=given)["KeyMetadata"]["KeyId"]
    return lambda: kms.schedule_key_deletion(KeyId=key, PendingWindowInDays=7)


def plant_topic(client: ClientOf, tags: list[dict[str, str]]) -> Callable[[], Any]:
    arn = client("sns").create_topic(Name="dev-voice-stt-Alarms0-x", Tags=tags)["TopicArn"]
    return lambda: client("sns").delete_topic(TopicArn=arn)


def plant_dashboard(client: ClientOf, _tags: Any) -> Callable[[], Any]:
    name = "dev-voice-foundation-Dashboard"
    client("cloudwatch").put_dashboard(DashboardName=name, DashboardBody='{"widgets": []}')
    return lambda: client("cloudwatch").delete_dashboards(DashboardNames=[name])


def plant_target(client: ClientOf, _tags: Any) -> Callable[[], Any]:
    where = {
        "ServiceNamespace": "sagemaker",
        "ResourceId": "endpoint/dev-voice-stt/variant/AllTraffic",
        "ScalableDimension": "sagemaker:variant:DesiredInstanceCount",
    }
    scaling = client("application-autoscaling")
    remove_config = plant_config(client, OTHER_STAGE)
    client("sagemaker").create_endpoint(EndpointName="dev-voice-stt", EndpointConfigName="c")
    scaling.register_scalable_target(**where, MinCapacity=1, MaxCapacity=2)
    client("sagemaker").delete_endpoint(EndpointName="dev-voice-stt")
    client("sagemaker").get_waiter("endpoint_deleted").wait(
        EndpointName="dev-voice-stt", WaiterConfig={"Delay": 1, "MaxAttempts": 60}
    )
    client("logs").delete_log_group(logGroupName="/aws/sagemaker/Endpoints/dev-voice-stt")

    def remove() -> None:
        scaling.deregister_scalable_target(**where)
        remove_config()

    return remove


def plant_security_group(client: ClientOf, tags: list[dict[str, str]]) -> Callable[[], Any]:
    ec2 = client("ec2")
    specification = {"ResourceType": "security-group", "Tags": tags}
    group = ec2.create_security_group(GroupName="g", Description="d", TagSpecifications=[specification])["GroupId"]
    return lambda: ec2.delete_security_group(GroupId=group)


@pytest.mark.parametrize(
    ("plant", "kind"),
    [
        (plant_model, "sagemaker model"),
        (plant_config, "sagemaker endpoint config"),
        (plant_log_group, "logs log group"),
        (plant_parameter, "ssm parameter"),
        (plant_key, "kms key"),
        (plant_topic, "sns topic"),
        (plant_dashboard, "cloudwatch dashboard"),
        (plant_target, "application-autoscaling scalable target"),
        (plant_security_group, "ec2 security group"),
    ],
)
def test_a_planted_leftover_is_found_and_no_longer_once_it_is_removed(
    client: ClientOf, plant: Callable[..., Callable[[], Any]], kind: str
) -> None:
    remove = plant(client, TAGS)
    found = left_over("dev", client)
    remove()

    assert kinds(found) == [kind]
    assert found[0].name in found[0].remove, "the command that removes it names it"
    assert left_over("dev", client) == ()


def test_an_image_that_another_stage_runs_is_not_deleted(client: ClientOf) -> None:
    push_image(client)
    remove_ours, remove_theirs = plant_model(client, TAGS), plant_model(client, OTHER_STAGE, "theirs")
    images = stage_images("dev", client)
    remove_ours()

    assert delete_images(images, client) == ()
    remove_theirs()
    assert delete_images(images, client) == images


def test_logs_that_the_settings_keep_are_told_apart(client: ClientOf) -> None:
    remove = plant_log_group(client, TAGS)
    [found] = left_over("dev", client, retains_logs=True)
    remove()

    assert found.kept


def test_waiting_ends_with_what_is_still_there(client: ClientOf) -> None:
    remove = plant_parameter(client, TAGS)
    found = leftovers.await_nothing_left("dev", client, seconds=0.1)
    remove()

    assert kinds(found) == ["ssm parameter"]
    assert leftovers.await_nothing_left("dev", client, seconds=0.1) == ()


def test_a_service_that_does_not_answer_is_an_error_and_no_proof() -> None:
    nobody = "http://127.0.0.1:9"
    with pytest.raises(AwsCallError, match="cloudformation could not be asked about each stack of stage dev"):
        left_over("dev", IsolatedClients(LocalIdentity(), nobody).of)


@pytest.mark.usefixtures("shell")
def test_the_command_names_what_is_left_and_how_to_remove_it(
    client: ClientOf, capsys: pytest.CaptureFixture[str]
) -> None:
    assert leftovers.main(["--stage", "dev"]) == 0
    assert capsys.readouterr().out == "nothing is left of stage dev\n"

    remove = plant_parameter(client, TAGS)
    assert leftovers.main(["--stage", "dev"]) == 1
    assert "aws ssm delete-parameter --name /sagemaker-voice/dev/tts/model" in capsys.readouterr().out
    assert leftovers.main(["--stage", "dev", "--json"]) == 1
    assert [one["name"] for one in json.loads(capsys.readouterr().out)["left"]] == ["/sagemaker-voice/dev/tts/model"]
    remove()


def test_without_credentials_the_command_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    for name in ("AWS_PROFILE", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)

    assert leftovers.main(["--stage", "dev"]) == 2
    assert "credentials" in capsys.readouterr().err
