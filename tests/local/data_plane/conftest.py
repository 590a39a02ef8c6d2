"""A data plane in front of a scripted container, and two clients: a bare one and the real SDK."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from voice_local.data_plane import DataPlane, DataPlaneSettings, TlsMaterial
from voice_local.identity import LocalIdentity
from voice_local.interfaces import EndpointStatus, EndpointView, ServingContainer

from .bare_client import BareConnection, Signer, bare_connection
from .scripted_container import ScriptedContainer, running_container

ENDPOINT = "test-voice-stt"


@dataclass
class Directory:
    """Endpoints in memory."""

    endpoints: dict[str, EndpointView] = field(default_factory=dict)

    def put(self, name: str, status: EndpointStatus, *containers: ServingContainer) -> None:
        self.endpoints[name] = EndpointView(name, status, containers)

    def find(self, endpoint_name: str) -> EndpointView | None:
        return self.endpoints.get(endpoint_name)


@dataclass
class Site:
    """A running data plane with one endpoint in service."""

    plane: DataPlane
    directory: Directory
    container: ScriptedContainer
    identity: LocalIdentity
    ca_bundle: Path
    endpoint: str = ENDPOINT

    def connect(self, **options: Any) -> contextlib.AbstractAsyncContextManager[BareConnection]:
        return bare_connection(self.plane.url, self.ca_bundle, self.signer(), **options)

    def signer(self) -> Signer:
        return Signer(self.identity.access_key_id, self.identity.secret_access_key, self.identity.region)


type MakeSite = Callable[..., contextlib.AbstractAsyncContextManager[Site]]


@pytest.fixture(scope="session")
def tls(tmp_path_factory: pytest.TempPathFactory) -> TlsMaterial:
    return TlsMaterial.create(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def make_site(tls: TlsMaterial) -> MakeSite:
    """Start a data plane with settings of the test's own."""

    @contextlib.asynccontextmanager
    async def make(**settings: Any) -> AsyncIterator[Site]:
        # The machine may be busy: only the tests of the accept deadline itself use SageMaker's 250 ms.
        settings.setdefault("accept_seconds", 5.0)
        directory, identity = Directory(), LocalIdentity()
        async with running_container() as container:
            serving = ServingContainer(variant="AllTraffic", port=container.port, bidirectional=True)
            directory.put(ENDPOINT, EndpointStatus.IN_SERVICE, serving)
            plane = DataPlane(directory, identity, tls=tls, port=0, settings=DataPlaneSettings(**settings))
            before = asyncio.all_tasks()
            async with plane:
                yield Site(plane, directory, container, identity, tls.ca_bundle)
            left = {task for task in asyncio.all_tasks() - before if task.get_name().startswith("data-plane-")}
            assert not left, f"tasks left behind: {left}"
            assert plane.connection_count == 0

    return make


@pytest.fixture
async def site(make_site: MakeSite) -> AsyncIterator[Site]:
    async with make_site() as made:
        yield made
