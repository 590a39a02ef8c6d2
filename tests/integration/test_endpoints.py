"""Each endpoint is in service, on the newest config, with the model that clients will ask for."""

import time

import pytest

from stacks.names import Service
from tests.integration.stage import SERVICES, DeployedStage

pytestmark = [pytest.mark.timeout(4000), pytest.mark.parametrize("service", SERVICES)]

LOG_SECONDS = 60
"""CloudWatch shows a line some seconds after it was written."""


def test_it_is_in_service_on_the_newest_config(stage: DeployedStage, service: Service) -> None:
    found = stage.config(service)

    if found.problems:
        words = stage.last_words(service)
        ended = [f"the last line of its container's log: {words}"] if words else ["its container wrote no log line"]
        pytest.fail("\n".join([*found.problems, *ended]), pytrace=False)
    assert found.status == "InService"
    assert found.serving == found.wanted


def test_its_inference_ami_has_the_sidecar_and_the_driver_that_its_image_needs(
    stage: DeployedStage, service: Service
) -> None:
    if problems := stage.ami_problems(service):
        pytest.fail("\n".join(problems), pytrace=False)


def test_it_serves_the_model_that_its_stage_published(stage: DeployedStage, service: Service) -> None:
    if problems := stage.model_problems(service):
        pytest.fail("\n".join(problems), pytrace=False)


def test_its_container_writes_to_the_log_group_of_its_stack(stage: DeployedStage, service: Service) -> None:
    deadline = time.monotonic() + LOG_SECONDS
    while stage.last_words(service) is None:
        assert time.monotonic() < deadline, (
            f"no line in /aws/sagemaker/Endpoints/{stage.name(service)} within {LOG_SECONDS} s: the execution role may "
            "lack logs:CreateLogStream or logs:PutLogEvents"
        )
        time.sleep(1)
