"""The last test: the stage is destroyed, and nothing of it is left.

It runs when this run deployed the stage itself, or was told to destroy it (DESTROY=1), and not with KEEP=1.
"""

import os

import pytest

from tests.integration.measuring import Measuring
from tests.integration.stage import DeployedStage
from voice_ops.leftovers import SETTLE_SECONDS, await_nothing_left, delete_images

pytestmark = [pytest.mark.last, pytest.mark.timeout(6000)]


def test_nothing_is_left_of_the_stage(stage: DeployedStage, measuring: Measuring) -> None:
    images = stage.destroy(measuring.folder / "cdk.log")
    assert images, "the stage ran no image of its own: there would be nothing to look for afterwards"
    delete_images(images, stage.client)

    found = await_nothing_left(
        stage.stage,
        stage.client,
        images=images,
        retains_logs=stage.settings.retain_logs,
        seconds=min(SETTLE_SECONDS, stage.patience),
    )

    left = [
        f"{resource.service} {resource.kind} {resource.name}: {resource.remove}"
        for resource in found
        if not resource.kept
    ]
    if left:
        pytest.fail(
            "\n".join([f"left of stage {stage.stage}, with the command that removes it:", *left]), pytrace=False
        )


def test_a_client_is_told_that_the_stage_is_gone(stage: DeployedStage) -> None:
    if not stage.destroyed:
        pytest.fail("the stage was not destroyed", pytrace=False)
    done = stage.voice_command("speak", "Hello.", "--stage", stage.stage)

    assert (done.returncode, done.stdout) == (3, ""), done.stderr
    assert f"stage {stage.stage} is not deployed" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_local_cloud_is_empty_again(stage: DeployedStage) -> None:
    """Where everything can be listed, everything is: what no one thought to look for is found too."""
    if stage.target != "local":
        return
    from voice_local.identity import LocalIdentity
    from voice_local.leftovers import Inventory

    inventory = Inventory(LocalIdentity(region=stage.region), os.environ["AWS_ENDPOINT_URL"])
    inventory.delete_assets()  # what CDK keeps in bootstrap's bucket, on AWS too

    assert inventory.left_over() == []
