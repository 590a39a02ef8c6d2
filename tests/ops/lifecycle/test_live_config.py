"""After a deploy the endpoint serves from the newest config, or the reason is told."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.local.control_plane.conftest import voice_template, wait_for_stack
from voice_local.control_plane import ControlPlane
from voice_local.identity import LocalIdentity
from voice_local.isolation import isolated_environment
from voice_ops import live_config as module
from voice_ops.live_config import StageNotDeployedError, live_config

ClientOf = Callable[[str], Any]
NAME = "dev-voice-stt"


@pytest.fixture
def deployed(client: ClientOf) -> Iterator[Any]:
    cloudformation = client("cloudformation")
    cloudformation.create_stack(StackName=NAME, TemplateBody=json.dumps(voice_template()))
    assert wait_for_stack(cloudformation, NAME) == "CREATE_COMPLETE"
    yield cloudformation
    cloudformation.delete_stack(StackName=NAME)
    assert wait_for_stack(cloudformation, NAME) == "GONE"


def update(cloudformation: Any, template: Any) -> str:
    cloudformation.update_stack(StackName=NAME, TemplateBody=json.dumps(template))
    return wait_for_stack(cloudformation, NAME)


def test_after_a_deploy_the_stacks_own_config_serves(client: ClientOf, deployed: Any) -> None:
    found = live_config("dev", "stt", client)

    assert found.problems == ()
    assert found.serving == found.wanted
    assert found.status == "InService"
    assert not found.paused


def test_an_update_that_was_rolled_back_is_a_problem_with_its_reason(client: ClientOf, deployed: Any) -> None:
    assert update(deployed, voice_template(mode="broken")) == "UPDATE_ROLLBACK_COMPLETE"

    text = " ".join(live_config("dev", "stt", client).problems)

    assert f"stack {NAME} is UPDATE_ROLLBACK_COMPLETE" in text
    assert "CUDA error: no kernel image is available" in text
    assert "deploy again" in text


def test_an_endpoint_that_serves_from_another_config_is_named_with_both(client: ClientOf, deployed: Any) -> None:
    sagemaker = client("sagemaker")
    wanted = live_config("dev", "stt", client).wanted
    variants = sagemaker.describe_endpoint_config(EndpointConfigName=wanted)["ProductionVariants"]
    sagemaker.create_endpoint_config(EndpointConfigName="by-hand", ProductionVariants=variants)
    sagemaker.update_endpoint(EndpointName=NAME, EndpointConfigName="by-hand")
    sagemaker.get_waiter("endpoint_in_service").wait(EndpointName=NAME, WaiterConfig={"Delay": 1, "MaxAttempts": 60})

    [problem] = live_config("dev", "stt", client).problems

    assert f"serves from the config by-hand, but its stack holds {wanted}" in problem


def test_an_endpoint_that_is_gone_is_no_success(client: ClientOf, deployed: Any) -> None:
    client("sagemaker").delete_endpoint(EndpointName=NAME)
    client("sagemaker").get_waiter("endpoint_deleted").wait(
        EndpointName=NAME, WaiterConfig={"Delay": 1, "MaxAttempts": 60}
    )

    [problem] = live_config("dev", "stt", client).problems

    assert "does not exist" in problem


def test_a_paused_stage_has_no_endpoint_and_no_problem(client: ClientOf, deployed: Any) -> None:
    template = voice_template()
    del template["Resources"]["Endpoint"], template["Resources"]["Parameter"], template["Outputs"]
    assert update(deployed, template) == "UPDATE_COMPLETE"

    found = live_config("dev", "stt", client)

    assert found.paused
    assert found.problems == ()


def test_a_stage_that_is_not_deployed_is_named(client: ClientOf) -> None:
    with pytest.raises(StageNotDeployedError, match=r"there is no stack nowhere-voice-tts.*make deploy STAGE=nowhere"):
        live_config("nowhere", "tts", client)


def test_the_command_says_which_config_serves(
    plane: ControlPlane,
    deployed: Any,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, value in isolated_environment({}, identity=LocalIdentity(), control_plane_url=plane.url).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(module, "SERVICES", ("stt",))

    assert module.main(["--stage", "dev"]) == 0
    assert "InService on " in capsys.readouterr().out
    assert module.main(["--stage", "dev", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["endpoints"][0]["problems"] == []
    assert module.main(["--stage", "nowhere"]) == 2
    assert "nowhere-voice-stt" in capsys.readouterr().err
