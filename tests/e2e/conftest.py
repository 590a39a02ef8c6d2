"""One local cloud, shared by the end-to-end tests."""

from collections.abc import Iterator

import pytest

from tests.e2e.deployed_cloud import DeployedCloud, deployed_cloud


@pytest.fixture(scope="session")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DeployedCloud]:
    with deployed_cloud(tmp_path_factory.mktemp("cloud"), home=tmp_path_factory.mktemp("home")) as cloud:
        yield cloud
