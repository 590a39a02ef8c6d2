"""Custom resources: functions run as processes, answer by the real protocol, and reach the local cloud alone."""

import io
import json
import shutil
import textwrap
import threading
import zipfile
from pathlib import Path
from typing import Any

import pytest

from voice_local.control_plane import ControlPlane

ROLE = {
    "Type": "AWS::IAM::Role",
    "Properties": {
        "AssumeRolePolicyDocument": {
            "Version": "2012-10-17",
            "Statement": [
                {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"Service": "lambda.amazonaws.com"}}
            ],
        }
    },
}

NODE = pytest.mark.skipif(shutil.which("node") is None, reason="needs Node.js")


def function(code: dict[str, Any], runtime: str = "python3.13", handler: str = "index.handler", **more: Any) -> Any:
    properties = {
        "Code": code,
        "Runtime": runtime,
        "Handler": handler,
        "Role": {"Fn::GetAtt": ["Role", "Arn"]},
        "Timeout": 60,
        "LoggingConfig": {"LogGroup": {"Ref": "Logs"}},
        **more,
    }
    return {"Type": "AWS::Lambda::Function", "Properties": properties}


def template(code: dict[str, Any], properties: dict[str, Any], **function_options: Any) -> str:
    resources = {
        "Role": ROLE,
        "Logs": {"Type": "AWS::Logs::LogGroup", "Properties": {"LogGroupName": "/functions"}},
        "Function": function(code, **function_options),
        "Thing": {
            "Type": "Custom::Thing",
            "Properties": {"ServiceToken": {"Fn::GetAtt": ["Function", "Arn"]}, **properties},
        },
    }
    outputs = {
        "Id": {"Value": {"Ref": "Thing"}},
        "Colour": {"Value": {"Fn::GetAtt": ["Thing", "Colour"]}},
    }
    return json.dumps({"Resources": resources, "Outputs": outputs})


def inline(source: str) -> dict[str, Any]:
    return {"ZipFile": textwrap.dedent(source)}


RECORDER = inline(
    """
    import json, os, boto3, cfnresponse
    def handler(event, context):
        print("asked to", event["RequestType"])
        kept = {k: v for k, v in event.items() if k != "ResponseURL"}
        kept["environment"] = {k: v for k, v in os.environ.items() if k.startswith("AWS_ENDPOINT") or k == "COLOUR"}
        boto3.client("ssm").put_parameter(
            Name=f"/seen/{event['RequestType']}/{event.get('PhysicalResourceId', 'none')}",
            Value=json.dumps(kept), Type="String", Overwrite=True)
        name = "thing-" + event["ResourceProperties"]["Name"]
        cfnresponse.send(event, context, cfnresponse.SUCCESS, {"Colour": "green"}, name)
    """
)


def seen(client: Any) -> dict[str, Any]:
    ssm = client("ssm")
    names = [found["Name"] for found in ssm.describe_parameters()["Parameters"]]
    return {name: json.loads(ssm.get_parameter(Name=name)["Parameter"]["Value"]) for name in names}


def reasons(client: Any, status: str, name: str = "Custom") -> list[str]:
    events = client("cloudformation").describe_stack_events(StackName=name)["StackEvents"]
    return [event["ResourceStatusReason"] for event in events if event["ResourceStatus"] == status]


def test_a_python_handler_is_asked_to_create_update_replace_and_delete(plane: ControlPlane, client, wait) -> None:
    cloudformation = client("cloudformation")
    hostile = {"AWS_ENDPOINT_URL": "https://192.0.2.1", "COLOUR": "blue"}
    options = {"Environment": {"Variables": hostile}}
    cloudformation.create_stack(
        StackName="Custom", TemplateBody=template(RECORDER, {"Name": "a", "Count": 3, "Deep": [True]}, **options)
    )
    assert wait(cloudformation, "Custom") == "CREATE_COMPLETE", reasons(client, "CREATE_FAILED")
    stack = cloudformation.describe_stacks(StackName="Custom")["Stacks"][0]
    assert {o["OutputKey"]: o["OutputValue"] for o in stack["Outputs"]} == {"Id": "thing-a", "Colour": "green"}
    asked = seen(client)["/seen/Create/none"]
    assert asked["ResourceType"] == "Custom::Thing"
    assert (asked["StackId"], asked["LogicalResourceId"]) == (stack["StackId"], "Thing")
    # As CloudFormation hands them over: strings.
    assert (asked["ResourceProperties"]["Count"], asked["ResourceProperties"]["Deep"]) == ("3", ["true"])
    # The function's own variables arrive, but for those that could lead it elsewhere.
    assert asked["environment"] == {
        "AWS_ENDPOINT_URL": plane.url,
        "AWS_ENDPOINT_URL_S3": plane.url,
        "COLOUR": "blue",
    }

    # Another physical id in the answer: the old resource is deleted when the update is done.
    cloudformation.update_stack(StackName="Custom", TemplateBody=template(RECORDER, {"Name": "b"}, **options))
    assert wait(cloudformation, "Custom") == "UPDATE_COMPLETE", reasons(client, "UPDATE_FAILED")
    asked = seen(client)["/seen/Update/thing-a"]
    assert asked["OldResourceProperties"]["Name"] == "a"
    assert "/seen/Delete/thing-a" in seen(client)
    assert cloudformation.describe_stacks(StackName="Custom")["Stacks"][0]["Outputs"][0]["OutputValue"] == "thing-b"

    cloudformation.delete_stack(StackName="Custom")
    assert wait(cloudformation, "Custom") == "GONE"
    assert seen(client)["/seen/Delete/thing-b"]["ResourceProperties"]["Name"] == "b"
    assert client("lambda").list_functions()["Functions"] == []


def test_what_a_function_writes_is_in_the_log_group_it_was_given(client, wait) -> None:
    cloudformation = client("cloudformation")
    cloudformation.create_stack(StackName="Custom", TemplateBody=template(RECORDER, {"Name": "a"}))
    assert wait(cloudformation, "Custom") == "CREATE_COMPLETE"
    logged: list[Any] = []
    for _ in range(200):  # the stack is ready when the function has answered, a moment before it ends
        if logged := client("logs").filter_log_events(logGroupName="/functions")["events"]:
            break
        threading.Event().wait(0.05)
    assert [event["message"] for event in logged] == ["asked to Create"]
    assert [g["logGroupName"] for g in client("logs").describe_log_groups()["logGroups"]] == ["/functions"]


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (
            """
            import cfnresponse
            def handler(event, context):
                cfnresponse.send(event, context, cfnresponse.FAILED, {}, "half-made", reason="no such model")
            """,
            "Received response status [FAILED] from custom resource. Message returned: no such model",
        ),
        ("def handler(event, context):\n    return 1 / 0\n", "division by zero"),
        ("def handler(event, context):\n    return 'fine'\n", "the function ended without sending one"),
        ("import sys\ndef handler(event, context):\n    sys.exit('killed')\n", "ended without a result: killed"),
        ("import nothing_of_the_kind\n", "No module named 'nothing_of_the_kind'"),
    ],
)
def test_a_handler_that_fails_rolls_the_stack_back_with_its_reason(client, wait, *, source, reason) -> None:
    cloudformation = client("cloudformation")
    # A failed creation that names a resource is asked to delete it; this handler fails at that too.
    cloudformation.create_stack(StackName="Custom", TemplateBody=template(inline(source), {}))
    assert wait(cloudformation, "Custom") in {"ROLLBACK_COMPLETE", "ROLLBACK_FAILED"}
    assert reason in reasons(client, "CREATE_FAILED")[0]


def test_a_token_that_is_no_function_is_refused(client, wait) -> None:
    cloudformation = client("cloudformation")
    thing = {"Type": "AWS::CloudFormation::CustomResource", "Properties": {"ServiceToken": "arn:aws:sns:x:1:topic"}}
    cloudformation.create_stack(StackName="Custom", TemplateBody=json.dumps({"Resources": {"Thing": thing}}))
    assert wait(cloudformation, "Custom") == "ROLLBACK_COMPLETE"
    assert "arn:aws:sns:x:1:topic is no Lambda function" in reasons(client, "CREATE_FAILED")[0]


def zipped(files: dict[str, str | Path]) -> bytes:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as target:
        for name, content in files.items():
            target.writestr(name, content.read_text() if isinstance(content, Path) else content)
    return archive.getvalue()


NODE_HANDLER = """
const https = require("https");
const url = require("url");
// As CDK's own handlers answer: https, and whatever port the URL names is left out.
exports.handler = async (event) => {
  const to = url.parse(event.ResponseURL);
  const body = JSON.stringify({
    Status: "SUCCESS", PhysicalResourceId: "from-node", StackId: event.StackId, RequestId: event.RequestId,
    LogicalResourceId: event.LogicalResourceId, Data: { Colour: process.env.AWS_ENDPOINT_URL },
  });
  const options = { hostname: to.hostname, path: to.path, method: "PUT",
                    headers: { "content-type": "", "content-length": Buffer.byteLength(body) } };
  await new Promise((resolve, reject) => {
    const request = https.request(options, (response) => {
      response.resume();
      response.statusCode < 400 ? resolve() : reject(new Error(String(response.statusCode)));
    });
    request.on("error", reject);
    request.end(body);
  });
};
"""


@NODE
def test_a_node_handler_out_of_an_asset_in_a_bucket_answers_as_cdks_own_do(plane: ControlPlane, client, wait) -> None:
    s3, cloudformation = client("s3"), client("cloudformation")
    s3.create_bucket(Bucket="assets")
    s3.put_object(Bucket="assets", Key="handler.zip", Body=zipped({"index.js": NODE_HANDLER}))
    code = {"S3Bucket": "assets", "S3Key": "handler.zip"}
    cloudformation.create_stack(StackName="Custom", TemplateBody=template(code, {}, runtime="nodejs22.x"))
    assert wait(cloudformation, "Custom") == "CREATE_COMPLETE", reasons(client, "CREATE_FAILED")
    outputs = cloudformation.describe_stacks(StackName="Custom")["Stacks"][0]["Outputs"]
    assert {o["OutputKey"]: o["OutputValue"] for o in outputs} == {"Id": "from-node", "Colour": plane.url}


def test_a_function_is_invoked_through_the_api_and_may_call_it_meanwhile(client) -> None:
    role = client("iam").create_role(RoleName="r", AssumeRolePolicyDocument="{}")["Role"]["Arn"]
    source = """
        import boto3
        def handler(event, context):
            boto3.client("s3").create_bucket(Bucket=event["bucket"])
            if event["bucket"] == "bad":
                raise ValueError("no such colour")
            print("made", event["bucket"])
            return {"made": event["bucket"], "by": context.function_name}
    """
    functions = client("lambda")
    code = {"ZipFile": zipped({"index.py": textwrap.dedent(source)})}
    functions.create_function(FunctionName="f", Role=role, Runtime="python3.13", Handler="index.handler", Code=code)
    done = functions.invoke(FunctionName="f", Payload=json.dumps({"bucket": "good"}), LogType="Tail")
    assert json.load(done["Payload"]) == {"made": "good", "by": "f"}
    assert "FunctionError" not in done
    failed = functions.invoke(FunctionName="f", Payload=json.dumps({"bucket": "bad"}))
    assert failed["FunctionError"] == "Unhandled"
    assert json.load(failed["Payload"]) == {"errorMessage": "no such colour", "errorType": "ValueError"}
    assert {b["Name"] for b in client("s3").list_buckets()["Buckets"]} == {"good", "bad"}
    with pytest.raises(functions.exceptions.ResourceNotFoundException):
        functions.invoke(FunctionName="absent", Payload="{}")
