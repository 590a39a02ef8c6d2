"""CDK's own custom-resource handlers, as its constructs put them into a stack, with the AWS SDK for JavaScript."""

import io
import json
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aws_cdk
import pytest

from tests.local.control_plane.conftest import PingHost, wait_for_stack
from voice_local.control_plane import ControlPlane, ControlPlaneSettings
from voice_local.identity import LocalIdentity
from voice_local.isolation import IsolatedClients

NODE_MODULES = Path(__file__).parents[3] / "node_modules"

pytestmark = [
    pytest.mark.soak,
    pytest.mark.timeout(300),
    pytest.mark.skipif(
        not (NODE_MODULES / "@aws-sdk" / "client-s3").is_dir(), reason="needs @aws-sdk/client-s3 in node_modules"
    ),
]

HANDLER = "package/custom-resource-handlers/dist/aws-s3/auto-delete-objects-handler/index.js"


@pytest.fixture
def handler() -> bytes:
    """Return the code of auto_delete_objects, zipped, out of the installed aws-cdk-lib."""
    (package,) = (Path(aws_cdk.__file__).parent / "_jsii").glob("*.tgz")
    with tarfile.open(package) as archive:
        source = archive.extractfile(HANDLER)
        assert source is not None
        code = source.read()
    zipped = io.BytesIO()
    with zipfile.ZipFile(zipped, "w") as target:
        target.writestr("index.js", code)
    return zipped.getvalue()


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Any]:
    identity = LocalIdentity()
    settings = ControlPlaneSettings(node_modules=NODE_MODULES)
    with ControlPlane(PingHost(tmp_path), identity, images_dir=tmp_path / "images", settings=settings) as plane:
        yield IsolatedClients(identity, plane.url).of


def template() -> str:
    trust = {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"Service": "lambda.amazonaws.com"}}
    everything = [{"Fn::GetAtt": ["Bucket", "Arn"]}, {"Fn::Sub": "${Bucket.Arn}/*"}]
    statement = {
        "Effect": "Allow",
        "Action": ["s3:PutBucketPolicy", "s3:GetBucket*", "s3:List*", "s3:DeleteObject*"],
        "Principal": {"AWS": {"Fn::GetAtt": ["Role", "Arn"]}},
        "Resource": everything,
    }
    resources = {
        "Bucket": {
            "Type": "AWS::S3::Bucket",
            "Properties": {"Tags": [{"Key": "aws-cdk:auto-delete-objects", "Value": "true"}]},
        },
        "BucketPolicy": {
            "Type": "AWS::S3::BucketPolicy",
            "Properties": {
                "Bucket": {"Ref": "Bucket"},
                "PolicyDocument": {"Version": "2012-10-17", "Statement": [statement]},
            },
        },
        "AutoDelete": {
            "Type": "Custom::S3AutoDeleteObjects",
            "Properties": {
                "ServiceToken": {"Fn::GetAtt": ["Handler", "Arn"]},
                "BucketName": {"Ref": "Bucket"},
            },
            "DependsOn": ["BucketPolicy"],
        },
        "Role": {
            "Type": "AWS::IAM::Role",
            "Properties": {"AssumeRolePolicyDocument": {"Version": "2012-10-17", "Statement": [trust]}},
        },
        "Handler": {
            "Type": "AWS::Lambda::Function",
            "Properties": {
                "Code": {"S3Bucket": "assets", "S3Key": "handler.zip"},
                "Timeout": 900,
                "MemorySize": 128,
                "Handler": "index.handler",
                "Runtime": "nodejs22.x",
                "Role": {"Fn::GetAtt": ["Role", "Arn"]},
            },
        },
    }
    return json.dumps({"Resources": resources})


def test_auto_delete_objects_empties_a_bucket_so_that_its_stack_can_go(client: Any, handler: bytes) -> None:
    s3, cloudformation = client("s3"), client("cloudformation")
    s3.create_bucket(Bucket="assets")
    s3.put_object(Bucket="assets", Key="handler.zip", Body=handler)
    cloudformation.create_stack(StackName="S", TemplateBody=template())
    assert wait_for_stack(cloudformation, "S", 120) == "CREATE_COMPLETE"
    (bucket,) = (found["Name"] for found in s3.list_buckets()["Buckets"] if found["Name"] != "assets")
    for number in range(20):
        s3.put_object(Bucket=bucket, Key=f"weights/{number}", Body=b"x")
    cloudformation.delete_stack(StackName="S")
    assert wait_for_stack(cloudformation, "S", 120) == "GONE"
    assert [found["Name"] for found in s3.list_buckets()["Buckets"]] == ["assets"]
