"""A control plane whose endpoints come into service."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.local.control_plane.conftest import PingHost
from voice_local.control_plane import ControlPlane, ControlPlaneSettings
from voice_local.identity import LocalIdentity
from voice_local.isolation import IsolatedClients

ClientOf = Callable[[str], Any]


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    folder = tmp_path_factory.mktemp("plane")
    host = PingHost(folder)
    settings = ControlPlaneSettings(container_startup_seconds=60, stop_seconds=5, longest_termination_wait_seconds=0.1)
    with ControlPlane(host, LocalIdentity(), images_dir=folder / "images", settings=settings) as plane:
        yield plane
    for container in host.running():
        container.stop()


@pytest.fixture(scope="module")
def client(plane: ControlPlane) -> ClientOf:
    return IsolatedClients(LocalIdentity(), plane.url).of
