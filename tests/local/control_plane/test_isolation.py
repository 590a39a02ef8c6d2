"""Nothing leads elsewhere, whatever a developer's shell is set up for."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from voice_local.identity import LocalIdentity
from voice_local.isolation import IsolatedClients, connection_variables, isolated_environment, leading_elsewhere
from voice_local.leftovers import Inventory, Resource

REAL_KEY = "AKIAREALREALREALREAL"


@pytest.fixture
def hostile(tmp_path: Path) -> dict[str, str]:
    """A shell that would send requests to a real account, through a proxy."""
    credentials, config = tmp_path / "credentials", tmp_path / "config"
    credentials.write_text(f"[work]\naws_access_key_id = {REAL_KEY}\naws_secret_access_key = {'r' * 40}\n")
    config.write_text(
        "[profile work]\nregion = eu-west-1\nendpoint_url = http://192.0.2.1\nignore_configured_endpoint_urls = true\n"
    )
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "LANG": "C.UTF-8",
        "AWS_PROFILE": "work",
        "AWS_SHARED_CREDENTIALS_FILE": str(credentials),
        "AWS_CONFIG_FILE": str(config),
        "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": "true",
        "AWS_SESSION_TOKEN": "real",
        "AWS_CA_BUNDLE": "/real.pem",
        "AWS_ENDPOINT_URL_SAGEMAKER": "http://192.0.2.1",
        "AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://192.0.2.1/keys",
        "AWS_WEB_IDENTITY_TOKEN_FILE": "/token",
        "CDK_DOCKER": "docker",
        "HTTPS_PROXY": "http://192.0.2.1:3128",
        "http_proxy": "http://192.0.2.1:3128",
        "ALL_PROXY": "socks5://192.0.2.1",
        "NODE_OPTIONS": "--require /tmp/x.js",
        "NODE_EXTRA_CA_CERTS": "/real.pem",
    }


def test_only_what_leads_nowhere_else_is_left(hostile: dict[str, str]) -> None:
    identity = LocalIdentity()
    made = isolated_environment(hostile, identity=identity, control_plane_url="http://127.0.0.1:1")
    connection = connection_variables(identity=identity, control_plane_url="http://127.0.0.1:1")
    assert set(made) - set(connection) == {"PATH", "HOME", "LANG"}
    assert set(leading_elsewhere(hostile)) == set(hostile) - {"PATH", "HOME", "LANG"}
    assert made["AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"] == "false"
    assert REAL_KEY not in made.values()
    assert "SSL_CERT_FILE" not in made


def test_the_data_plane_gets_its_own_url_and_ca() -> None:
    made = connection_variables(
        identity=LocalIdentity(),
        control_plane_url="http://127.0.0.1:1",
        data_plane_url="https://127.0.0.1:8443",
        ca_bundle=Path("/run/ca.pem"),
    )
    assert made["AWS_ENDPOINT_URL_SAGEMAKER_RUNTIME_HTTP2"] == "https://127.0.0.1:8443"
    assert made["SSL_CERT_FILE"] == "/run/ca.pem"


_ASK = """
import json, boto3
s3, sts = boto3.client("s3"), boto3.client("sts")
key = boto3.Session().get_credentials().access_key
print(json.dumps([s3.meta.endpoint_url, sts.meta.endpoint_url, key, sts.get_caller_identity()["Account"]]))
"""


def test_a_plain_boto3_program_reaches_the_local_cloud(plane, identity: LocalIdentity, hostile: dict[str, str]) -> None:
    made = isolated_environment(hostile, identity=identity, control_plane_url=plane.url)
    done = subprocess.run(
        [sys.executable, "-c", _ASK], env=made, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [plane.url, plane.url, identity.access_key_id, identity.account_id]


def test_clients_in_this_process_read_no_environment(
    plane, identity: LocalIdentity, hostile: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in hostile.items():
        monkeypatch.setenv(name, value)
    sts = IsolatedClients(identity, plane.url).of("sts")
    assert sts.meta.endpoint_url == plane.url
    assert sts.get_caller_identity()["Account"] == identity.account_id
    assert sts._request_signer._credentials.access_key == identity.access_key_id


def test_stacks_deploy_in_a_hostile_shell(
    client, wait, template, hostile: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in hostile.items():
        monkeypatch.setenv(name, value)
    cloudformation = client("cloudformation")
    cloudformation.create_stack(StackName="S", TemplateBody=json.dumps(template()))
    assert wait(cloudformation, "S") == "CREATE_COMPLETE"


def test_a_planted_leftover_is_found_and_told_from_bootstraps_own(plane, client, wait, identity, template) -> None:
    inventory = Inventory(identity, plane.url)
    cloudformation, s3, ecr = client("cloudformation"), client("s3"), client("ecr")
    assert inventory.resources() == []

    bootstrap = {
        "Resources": {
            "Bucket": {"Type": "AWS::S3::Bucket", "Properties": {"BucketName": "assets"}},
            "Images": {"Type": "AWS::ECR::Repository", "Properties": {"RepositoryName": "images"}},
        }
    }
    cloudformation.create_stack(StackName="CDKToolkit", TemplateBody=json.dumps(bootstrap))
    assert wait(cloudformation, "CDKToolkit") == "CREATE_COMPLETE"
    assert {r.name for r in inventory.resources() if r.bootstrap} == {"CDKToolkit", "assets", "images"}
    assert inventory.left_over() == []

    cloudformation.create_stack(StackName="S", TemplateBody=json.dumps(template()))
    assert wait(cloudformation, "S") == "CREATE_COMPLETE"
    kinds = {resource.kind for resource in inventory.left_over()}
    assert kinds >= {"stack", "role", "log group", "parameter", "model", "endpoint", "endpoint config", "alarm"}
    cloudformation.delete_stack(StackName="S")
    assert wait(cloudformation, "S") == "GONE"
    assert inventory.left_over() == []

    s3.put_bucket_versioning(Bucket="assets", VersioningConfiguration={"Status": "Enabled"})
    s3.put_object(Bucket="assets", Key="template.json", Body=b"1")
    s3.put_object(Bucket="assets", Key="template.json", Body=b"2")
    manifest = {"schemaVersion": 2, "mediaType": "application/vnd.docker.distribution.manifest.v2+json"}
    ecr.put_image(repositoryName="images", imageManifest=json.dumps(manifest), imageTag="abc")
    client("logs").create_log_group(logGroupName="/aws/sagemaker/Endpoints/forgotten")
    left = [
        Resource("ecr", "image", "images:abc"),
        Resource("logs", "log group", "/aws/sagemaker/Endpoints/forgotten"),
        Resource("s3", "object", "assets/template.json"),
    ]
    assert inventory.left_over() == left
    assert set(inventory.delete_assets()) == {left[0], left[2]}
    assert inventory.left_over() == [left[1]]
