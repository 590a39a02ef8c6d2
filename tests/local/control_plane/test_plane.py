"""The control plane as a server: starting, stopping, and the parts of SageMaker's API that moto lacks."""

import http.client
import json
import socket
import threading
from typing import Any
from urllib.parse import urlsplit

import pytest

from voice_local.control_plane import ControlPlane, ControlPlaneStartError, PortTakenError
from voice_local.control_plane.api_input import api_input
from voice_local.control_plane.errors import ResourceError
from voice_local.control_plane.variant_rules import VariantRules
from voice_local.isolation import IsolatedClients

POOLS = [{"InstanceType": f"ml.{family}.xlarge", "Priority": n} for n, family in enumerate(("g6", "g6e", "g5"), 1)]


def test_a_taken_port_is_one_clear_error(host, identity, images_dir) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(PortTakenError, match=f"127.0.0.1:{port}: the port is taken"):
            ControlPlane(host, identity, port=port, images_dir=images_dir).start()


def test_one_plane_a_process_and_a_stopped_one_leaves_nothing(host, identity, images_dir) -> None:
    first = ControlPlane(host, identity, images_dir=images_dir)
    with pytest.raises(ControlPlaneStartError, match="before start"):
        _ = first.url
    with first:
        url = first.url
        port = int(url.rpartition(":")[2])
        with pytest.raises(ControlPlaneStartError, match="one control plane at a time"):
            ControlPlane(host, identity, images_dir=images_dir).start()
        IsolatedClients(identity, url).of("ssm").put_parameter(Name="/a", Value="b", Type="String")
    assert not [thread for thread in threading.enumerate() if thread.name == "control-plane"]
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", port)) != 0
    # The same port at once again, and nothing known from before.
    with ControlPlane(host, identity, port=port, images_dir=images_dir) as second:
        assert IsolatedClients(identity, second.url).of("ssm").describe_parameters()["Parameters"] == []


def ask(url: str, form: bytes | None = None, **headers: str) -> tuple[int, str, str | None]:
    to = urlsplit(url)
    connection = http.client.HTTPConnection(to.netloc, timeout=30)
    connection.request("GET" if form is None else "POST", f"{to.path}?{to.query}", form, headers)
    answer = connection.getresponse()
    body = answer.read().decode()
    connection.close()
    return answer.status, body, answer.headers.get("Access-Control-Allow-Origin")


def test_it_listens_on_loopback_and_lets_no_page_in(plane, client) -> None:
    assert plane.url.startswith("http://127.0.0.1:")
    # What a page can make a browser send to another site: a form, without the header that says who asks.
    form = b"Action=CreateStack&StackName=evil&TemplateBody=%7B%22Resources%22%3A%7B%7D%7D"
    status, body, shared = ask(plane.url + "/", form, Origin="http://evil.example")
    assert (status, shared) == (403, None)
    assert "MissingAuthenticationToken" in body
    assert ask(plane.url + "/?X-Amz-Credential=AKIAEVIL/20260101/us-east-1/cloudformation/aws4_request", form)[0] == 403
    # And what one can that has made its own name point here.
    status, body, _ = ask(plane.url + "/", form, Host="evil.example:80", Authorization="AWS4-HMAC-SHA256 x")
    assert (status, "not evil.example" in body) == (403, True)
    status, _, shared = ask(plane.url + "/moto-api/reset", b"", Origin="http://evil.example")
    assert (status, shared) == (403, None)
    assert client("cloudformation").describe_stacks()["Stacks"] == []


def test_a_presigned_url_of_this_clouds_key_needs_no_header(plane, client) -> None:
    s3 = client("s3")
    s3.create_bucket(Bucket="weights")
    s3.put_object(Bucket="weights", Key="a", Body=b"content")
    url = s3.generate_presigned_url("get_object", Params={"Bucket": "weights", "Key": "a"})
    assert ask(url)[:2] == (200, "content")


def test_a_client_that_stalls_holds_up_nobody(plane, client) -> None:
    with socket.create_connection(("127.0.0.1", int(plane.url.rpartition(":")[2])), timeout=5) as stalled:
        stalled.sendall(b"PUT /bucket/key HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhalf")
        assert client("s3").list_buckets()["Buckets"] == []


@pytest.mark.parametrize(
    ("service", "operation", "arguments"),
    [
        ("cloudtrail", "lookup_events", {}),  # JSON
        ("cloudformation", "detect_stack_drift", {"StackName": "x"}),  # query
        ("sagemaker", "list_apps", {}),  # JSON
    ],
)
def test_an_operation_nobody_wrote_is_refused_and_not_repeated(client, service, operation, arguments) -> None:
    asked = client(service)
    with pytest.raises(asked.exceptions.ClientError, match="does not know this") as refused:
        getattr(asked, operation)(**arguments)
    assert 400 <= refused.value.response["ResponseMetadata"]["HTTPStatusCode"] < 500
    assert refused.value.response["ResponseMetadata"]["RetryAttempts"] == 0


def sagemaker_with_model(client: Any, mode: str = "healthy", name: str = "model") -> Any:
    sagemaker = client("sagemaker")
    sagemaker.create_model(
        ModelName=name,
        ExecutionRoleArn="arn:aws:iam::123456789012:role/r" + "o" * 20,
        PrimaryContainer={"Image": f"{name}:1", "Environment": {"MODE": mode}},
    )
    return sagemaker


def create_config(sagemaker: Any, name: str = "config", **variant: Any) -> None:
    wanted = {"VariantName": "main", "ModelName": "model", "InitialInstanceCount": 1, **variant}
    sagemaker.create_endpoint_config(EndpointConfigName=name, ProductionVariants=[wanted])


def wait_for_endpoint(sagemaker: Any, name: str = "ear") -> Any:
    for _ in range(200):
        described = sagemaker.describe_endpoint(EndpointName=name)
        if described["EndpointStatus"] not in {"Creating", "Updating"}:
            return described
        threading.Event().wait(0.05)
    raise TimeoutError(described)


def test_the_first_pools_model_is_the_one_that_runs(client, host) -> None:
    sagemaker = sagemaker_with_model(client)
    sagemaker_with_model(client, name="half-precision")
    pools = [{**POOLS[1]}, {**POOLS[0], "ModelNameOverride": "half-precision"}]
    create_config(sagemaker, InstancePools=pools)
    sagemaker.create_endpoint(EndpointName="ear", EndpointConfigName="config")
    assert wait_for_endpoint(sagemaker)["EndpointStatus"] == "InService"
    assert [container.spec.image for container in host.containers] == ["half-precision:1"]
    with pytest.raises(sagemaker.exceptions.ClientError, match="already existing endpoint 'ear'"):
        sagemaker.create_endpoint(EndpointName="ear", EndpointConfigName="config")


def test_a_failed_endpoint_says_why_and_can_be_deleted(client, host, plane) -> None:
    sagemaker = sagemaker_with_model(client, mode="broken")
    create_config(sagemaker, InstancePools=POOLS)
    sagemaker.create_endpoint(EndpointName="ear", EndpointConfigName="config")
    described = wait_for_endpoint(sagemaker)
    assert described["EndpointStatus"] == "Failed"
    assert "exit code 3" in described["FailureReason"]
    assert "CUDA error" in described["FailureReason"]
    assert plane.find("ear").containers == ()
    with pytest.raises(sagemaker.exceptions.ClientError, match="in state Failed"):
        sagemaker.update_endpoint(EndpointName="ear", EndpointConfigName="config")
    sagemaker.delete_endpoint(EndpointName="ear")
    for _ in range(100):
        if not sagemaker.list_endpoints()["Endpoints"]:
            break
        threading.Event().wait(0.05)
    assert sagemaker.list_endpoints()["Endpoints"] == []
    assert plane.find("ear") is None
    assert host.running() == []


def test_an_endpoint_deleted_while_it_starts_leaves_no_container(client, host, plane) -> None:
    sagemaker = sagemaker_with_model(client, mode="never")
    create_config(sagemaker, InstancePools=POOLS)
    sagemaker.create_endpoint(EndpointName="ear", EndpointConfigName="config")
    for _ in range(100):
        if host.running():
            break
        threading.Event().wait(0.02)
    sagemaker.delete_endpoint(EndpointName="ear")
    for _ in range(200):
        if plane.find("ear") is None:
            break
        threading.Event().wait(0.05)
    assert plane.find("ear") is None
    assert host.running() == []
    with pytest.raises(sagemaker.exceptions.ClientError, match="Could not find endpoint"):
        sagemaker.describe_endpoint(EndpointName="ear")


@pytest.mark.parametrize(
    ("variant", "problem"),
    [
        ({}, "found none of them"),
        ({"InstanceType": "ml.g6.xlarge", "InstancePools": POOLS}, "found InstanceType and InstancePools"),
        (
            {"InstancePools": [{"InstanceType": t, "Priority": 1} for t in ("ml.g5.xlarge", "ml.g6.xlarge")]},
            "same priority",
        ),
        ({"InstancePools": [{"InstanceType": "ml.g5.xlarge", "Priority": n} for n in (1, 2)]}, "same instance type"),
        ({"InstancePools": POOLS * 2}, "1 to 5 entries, found 6"),
        ({"InstancePools": [{"InstanceType": "ml.g5.xlarge", "Priority": 6}]}, "is 1 to 5, found 6"),
        ({"InstancePools": [{"InstanceType": "ml.g99.xlarge", "Priority": 1}]}, "unknown instance type ml.g99.xlarge"),
        (
            {"InstanceType": "ml.g6.xlarge", "ContainerStartupHealthCheckTimeoutInSeconds": 3601},
            "ContainerStartupHealthCheckTimeoutInSeconds is 60 to 3600, found 3601",
        ),
        (
            {"InstancePools": POOLS, "VariantInstanceProvisionTimeoutInSeconds": 299},
            "VariantInstanceProvisionTimeoutInSeconds is 300 to 3600, found 299",
        ),
        ({"InstanceType": "ml.g6.xlarge", "InitialInstanceCount": 0}, "InitialInstanceCount is 1 to inf, found 0"),
        ({"InstanceType": "ml.g6.xlarge", "InferenceAmiVersion": "al2-mine"}, "unknown InferenceAmiVersion al2-mine"),
    ],
)
def test_variants_that_sagemaker_refuses(variant: dict[str, Any], problem: str) -> None:
    assert any(problem in found for found in VariantRules().problems([{"VariantName": "main", **variant}]))


def test_two_variants_of_one_name_are_refused() -> None:
    twice = [{"VariantName": "main", "InstanceType": "ml.g6.xlarge"}] * 2
    assert VariantRules().problems(twice) == ["Variant main: two variants have this name."]


def test_a_config_whose_models_are_not_there_is_refused_with_all_their_names(client) -> None:
    sagemaker = client("sagemaker")
    with pytest.raises(sagemaker.exceptions.ClientError) as refused:
        create_config(sagemaker, InstancePools=[{**POOLS[0], "ModelNameOverride": "half"}])
    assert "Could not find model 'half'." in str(refused.value)
    assert "Could not find model 'model'." in str(refused.value)


def test_the_api_refuses_them_with_every_problem(client) -> None:
    sagemaker = sagemaker_with_model(client)
    with pytest.raises(sagemaker.exceptions.ClientError) as refused:
        create_config(sagemaker, InstancePools=POOLS * 2, InferenceAmiVersion="al2-mine")
    assert "found 6" in str(refused.value)
    assert "al2-mine" in str(refused.value)
    assert sagemaker.list_endpoint_configs()["EndpointConfigs"] == []


def test_properties_become_the_apis_types_and_every_problem_is_listed(client) -> None:
    shape = client("sagemaker").meta.service_model.operation_model("CreateEndpointConfig").input_shape
    variant = {
        "VariantName": "main",
        "InitialInstanceCount": "2",
        "InitialVariantWeight": "0.5",
        "EnableSSMAccess": "true",
    }
    wanted = {"EndpointConfigName": "c", "ProductionVariants": [variant]}
    sent = api_input(wanted, shape, "X")
    assert sent["ProductionVariants"][0] == {
        "VariantName": "main",
        "InitialInstanceCount": 2,
        "InitialVariantWeight": 0.5,
        "EnableSSMAccess": True,
    }
    variant |= {"InitialInstanceCount": "two", "Colour": "red"}
    with pytest.raises(ResourceError) as refused:
        api_input(wanted, shape, "X")
    assert "X.ProductionVariants[0].InitialInstanceCount: 'two' is not of type integer" in str(refused.value)
    assert "unsupported property X.ProductionVariants[0].Colour" in str(refused.value)


def test_scaling_metric_filter_and_topic_are_made_and_gone_with_their_stack(client, wait) -> None:
    cloudformation = client("cloudformation")
    target = {"Ref": "Target"}
    resources = {
        "Group": {"Type": "AWS::Logs::LogGroup", "Properties": {"LogGroupName": "/x"}},
        "Filter": {
            "Type": "AWS::Logs::MetricFilter",
            "Properties": {
                "LogGroupName": {"Ref": "Group"},
                "FilterPattern": "{ $.event = * }",
                "MetricTransformations": [{"MetricName": "m", "MetricNamespace": "n", "MetricValue": "1"}],
            },
        },
        "Target": {
            "Type": "AWS::ApplicationAutoScaling::ScalableTarget",
            "Properties": {
                "MinCapacity": 1,
                "MaxCapacity": "2",
                "ResourceId": "endpoint/ear/variant/main",
                "ScalableDimension": "sagemaker:variant:DesiredInstanceCount",
                "ServiceNamespace": "sagemaker",
                "RoleARN": "arn:aws:iam::123456789012:role/r",
            },
        },
        "Policy": {
            "Type": "AWS::ApplicationAutoScaling::ScalingPolicy",
            "Properties": {
                "PolicyName": "p",
                "PolicyType": "TargetTrackingScaling",
                "ScalingTargetId": target,
                "TargetTrackingScalingPolicyConfiguration": {"TargetValue": 2},
            },
        },
        "Topic": {"Type": "AWS::SNS::Topic"},
        "TopicPolicy": {
            "Type": "AWS::SNS::TopicPolicy",
            "Properties": {
                "Topics": [{"Ref": "Topic"}],
                "PolicyDocument": {"Version": "2012-10-17", "Statement": []},
            },
        },
        "Subscription": {
            "Type": "AWS::SNS::Subscription",
            "Properties": {"TopicArn": {"Ref": "Topic"}, "Protocol": "email", "Endpoint": "a@example.com"},
        },
    }
    cloudformation.create_stack(StackName="S", TemplateBody=json.dumps({"Resources": resources}))
    assert wait(cloudformation, "S") == "CREATE_COMPLETE"
    scaling = client("application-autoscaling")
    assert len(scaling.describe_scaling_policies(ServiceNamespace="sagemaker")["ScalingPolicies"]) == 1
    assert scaling.describe_scalable_targets(ServiceNamespace="sagemaker")["ScalableTargets"][0]["MaxCapacity"] == 2
    assert len(client("logs").describe_metric_filters()["metricFilters"]) == 1
    assert len(client("sns").list_subscriptions()["Subscriptions"]) == 1
    cloudformation.delete_stack(StackName="S")
    assert wait(cloudformation, "S") == "GONE"
    assert scaling.describe_scaling_policies(ServiceNamespace="sagemaker")["ScalingPolicies"] == []
    assert scaling.describe_scalable_targets(ServiceNamespace="sagemaker")["ScalableTargets"] == []
    assert client("logs").describe_metric_filters()["metricFilters"] == []
    assert client("sns").list_subscriptions()["Subscriptions"] == []
