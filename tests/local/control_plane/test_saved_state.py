"""A cloud that is started again in the same folder has the stacks and endpoints it had."""

import json
import os
import pickle
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.local.control_plane.conftest import PingHost, voice_template, wait_for_stack
from voice_local.control_plane import ControlPlane, ControlPlaneSettings
from voice_local.control_plane.errors import StateError
from voice_local.control_plane.saved_state import SavedState, StateInUseError
from voice_local.identity import LocalIdentity
from voice_local.isolation import IsolatedClients

NAME = "dev-voice-stt"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "state"


def cloud(host: PingHost, identity: LocalIdentity, folder: Path, interval: float = 0.05) -> ControlPlane:
    settings = ControlPlaneSettings(container_startup_seconds=60, save_interval_seconds=interval)
    return ControlPlane(host, identity, images_dir=folder.parent / "images", state_dir=folder, settings=settings)


def eventually(happened: Any, seconds: float = 60) -> None:
    for _ in range(int(seconds / 0.05)):
        if happened():
            return
        threading.Event().wait(0.05)
    raise TimeoutError


def test_stacks_endpoints_and_objects_are_there_again_and_can_be_changed(host, identity, folder) -> None:
    with cloud(host, identity, folder) as first:
        client = IsolatedClients(identity, first.url).of
        client("s3").create_bucket(Bucket="weights")
        client("s3").put_object(Bucket="weights", Key="a", Body=b"0123456789" * 100_000)
        key = client("kms").create_key(KeySpec="RSA_2048", KeyUsage="SIGN_VERIFY")["KeyMetadata"]["KeyId"]
        client("ecr").create_repository(repositoryName="assets")
        cloudformation = client("cloudformation")
        cloudformation.create_stack(StackName="Voice", TemplateBody=json.dumps(voice_template()))
        assert wait_for_stack(cloudformation, "Voice", 60) == "CREATE_COMPLETE"
        before = client("sagemaker").describe_endpoint(EndpointName=NAME)
        events = cloudformation.describe_stack_events(StackName="Voice")["StackEvents"]
    assert host.running() == []

    with cloud(host, identity, folder) as second:
        second.await_resumed()
        client = IsolatedClients(identity, second.url).of
        cloudformation = client("cloudformation")
        after = client("sagemaker").describe_endpoint(EndpointName=NAME)
        assert after["EndpointStatus"] == "InService"
        assert after["EndpointConfigName"] == before["EndpointConfigName"]
        assert after["CreationTime"] == before["CreationTime"]
        view = second.find(NAME)
        assert view is not None
        assert [serving.port for serving in view.containers] == [container.port for container in host.running()]
        assert cloudformation.describe_stack_events(StackName="Voice")["StackEvents"] == events
        assert client("s3").get_object(Bucket="weights", Key="a")["Body"].read() == b"0123456789" * 100_000
        assert client("kms").get_public_key(KeyId=key)["KeyId"].endswith(key)
        assert client("ssm").get_parameter(Name="/voice/dev/stt/endpoint")["Parameter"]["Value"] == NAME

        changed = voice_template(image="other:2")
        cloudformation.update_stack(StackName="Voice", TemplateBody=json.dumps(changed))
        assert wait_for_stack(cloudformation, "Voice", 60) == "UPDATE_COMPLETE"
        cloudformation.delete_stack(StackName="Voice")
        assert wait_for_stack(cloudformation, "Voice", 60) == "GONE"
        assert host.running() == []

    with cloud(host, identity, folder) as third:
        assert third.find(NAME) is None
        assert IsolatedClients(identity, third.url).of("sagemaker").list_models()["Models"] == []


def test_a_change_is_kept_without_an_orderly_end(host, identity, folder, tmp_path) -> None:
    with cloud(host, identity, folder) as first:
        IsolatedClients(identity, first.url).of("s3").create_bucket(Bucket="weights")
        eventually(lambda: (folder / "state").exists() and b"weights" in (folder / "state").read_bytes())
        # What a killed cloud leaves is the file as it is now.
        killed = tmp_path / "killed"
        killed.mkdir(mode=0o700)
        (killed / "state").write_bytes((folder / "state").read_bytes())
        (killed / "state").chmod(0o600)
    with cloud(host, identity, killed) as second:
        buckets = IsolatedClients(identity, second.url).of("s3").list_buckets()["Buckets"]
        assert [bucket["Name"] for bucket in buckets] == ["weights"]


def test_a_cloud_that_ends_during_a_deployment_begins_as_it_was_before(host, identity, folder) -> None:
    with cloud(host, identity, folder) as first:
        client = IsolatedClients(identity, first.url).of
        client("s3").create_bucket(Bucket="before")
        eventually(lambda: (folder / "state").exists() and b"before" in (folder / "state").read_bytes())
        template = json.dumps(voice_template(mode="never"))
        client("cloudformation").create_stack(StackName="Voice", TemplateBody=template)
        eventually(host.running)
    assert host.running() == []
    with cloud(host, identity, folder) as second:
        client = IsolatedClients(identity, second.url).of
        assert client("cloudformation").describe_stacks()["Stacks"] == []
        assert client("sagemaker").list_endpoints()["Endpoints"] == []
        assert len(client("s3").list_buckets()["Buckets"]) == 1


def test_two_clouds_do_not_share_a_folder(identity, folder) -> None:
    first, second = SavedState(folder, identity), SavedState(folder, identity)
    first.open()
    with pytest.raises(StateInUseError, match=f"Another local cloud uses the state in {folder}"):
        second.open()
    first.close()
    second.open()
    second.close()


HEADER = b'{"format": 1, "moto": "%s", "account": "123456789012", "region": "us-east-1"}\n'


def header() -> bytes:
    import importlib.metadata

    return HEADER.replace(b"%s", importlib.metadata.version("moto").encode())


class Malicious:
    def __reduce__(self) -> Any:
        return os.system, ("touch /tmp/owned",)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (lambda: b"\x80\x05 anything", "is no state of a local cloud"),
        (lambda: HEADER.replace(b"%s", b"4.0") + pickle.dumps({}), "moto 4.0 there"),
        (lambda: header() + b"\x80\x05broken", "is damaged"),
        (lambda: header() + pickle.dumps(Malicious()), "holds no posix.system"),
        # The same by way of a module that may be read.
        (
            lambda: header() + b"\x80\x04\x8c\x0emoto.s3.models\x8c\x09os.system\x93\x8c\x04true\x85R.",
            "holds no moto.s3.models.os.system",
        ),
    ],
)
def test_a_file_that_is_no_usable_state_is_refused_and_kept(identity, folder, host, *, content, message) -> None:
    folder.mkdir(mode=0o700)
    path = folder / "state"
    path.write_bytes(content())
    path.chmod(0o600)
    with pytest.raises(StateError, match=message):
        cloud(host, identity, folder).start()
    assert path.read_bytes() == content()
    # The process is free for another cloud.
    path.unlink()
    with cloud(host, identity, folder) as plane:
        assert plane.url


def test_a_file_that_others_can_write_is_not_read(identity, folder, host) -> None:
    folder.mkdir(mode=0o700)
    (folder / "state").write_bytes(header() + pickle.dumps({}))
    (folder / "state").chmod(0o666)
    with pytest.raises(StateError, match="can be written by others"):
        cloud(host, identity, folder).start()


def test_the_saved_state_is_its_owners_alone(identity, folder, host) -> None:
    with cloud(host, identity, folder):
        pass
    assert folder.stat().st_mode & 0o077 == 0
    assert (folder / "state").stat().st_mode & 0o077 == 0
