"""The local stand-in for SageMaker's runtime: an HTTP/2 port with TLS for streams, an HTTP/1.1 port for the rest."""

import asyncio
import contextlib
import logging
from collections.abc import Iterator
from typing import Self

from voice_local.data_plane.admin import AdminRoutes
from voice_local.data_plane.connections import Connections
from voice_local.data_plane.errors import DataPlaneError
from voice_local.data_plane.fault_plan import FaultPlan
from voice_local.data_plane.http1 import Http1Connection
from voice_local.data_plane.http2 import Http2Connection
from voice_local.data_plane.operations import Operations
from voice_local.data_plane.settings import DataPlaneSettings
from voice_local.data_plane.tls import TlsMaterial
from voice_local.identity import LocalIdentity
from voice_local.interfaces import EndpointDirectory

_log = logging.getLogger("voice_local.data_plane")

HOST = "127.0.0.1"
"""Loopback only: the data plane is never reachable from another machine."""


class DataPlane:
    """Serves SageMaker's runtime operations on loopback.

    As AWS does, it has two doors. The HTTP/2 port (AWS: 8443) takes InvokeEndpointWithBidirectionalStream, over TLS;
    the HTTP/1.1 port (AWS: 443) takes the operations of plain boto3. The second one is cleartext, like the local
    control plane, and has the admin route for faults.

    Start and stop it in one asyncio loop; it leaves no task and no socket behind.
    """

    def __init__(
        self,
        directory: EndpointDirectory,
        identity: LocalIdentity,
        *,
        tls: TlsMaterial,
        port: int = 0,
        plain_port: int = 0,
        settings: DataPlaneSettings | None = None,
        faults: FaultPlan | None = None,
    ) -> None:
        """Prepare a data plane; nothing is opened yet.

        Args:
            directory: looks endpoints up.
            identity: the account, region and the one key pair that is accepted.
            tls: server context and CA bundle.
            port: TCP port for HTTP/2; 0 takes a free one. AWS's own is `DEFAULT_PORT`.
            plain_port: TCP port for HTTP/1.1; 0 takes a free one.
            settings: clocks and limits.
            faults: what is to go wrong; nothing by default.
        """
        self.faults = faults or FaultPlan()
        """Arm and disarm faults here, from the loop that runs this data plane."""
        self._directory = directory
        self._identity = identity
        self._tls = tls
        self._port = port
        self._plain_port = plain_port
        self._settings = settings or DataPlaneSettings()
        self._admin = AdminRoutes(self.faults)
        self._operations = Operations(directory, identity, self._settings, self.faults, self._admin)
        self._connections = Connections()
        self._servers: list[asyncio.Server] = []

    async def start(self) -> None:
        """Bind and serve.

        Raises:
            DataPlaneError: a port is taken, or the data plane runs already.
        """
        if self._servers:
            raise DataPlaneError(f"the data plane already serves {self.url}")
        self._connections = Connections()
        try:
            self._port = await self._listen_http2(self._port)
            self._plain_port = await self._listen_http1(self._plain_port)
        except DataPlaneError:
            await self.stop()
            raise
        _log.info("data plane serves %s and %s", self.url, self.plain_url)

    async def _listen_http2(self, port: int) -> int:
        with _as_taken(port):
            server = await asyncio.get_running_loop().create_server(
                lambda: Http2Connection(self._operations.serve, self._settings, self._connections),
                HOST,
                port,
                ssl=self._tls.server_context,
                ssl_handshake_timeout=self._settings.tls_handshake_seconds,
                ssl_shutdown_timeout=self._settings.tls_shutdown_seconds,
            )
        self._servers.append(server)
        return int(server.sockets[0].getsockname()[1])

    async def _listen_http1(self, port: int) -> int:
        with _as_taken(port):
            server = await asyncio.get_running_loop().create_server(
                lambda: Http1Connection(self._operations.serve, self._settings, self._connections), HOST, port
            )
        self._servers.append(server)
        return int(server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """End every stream, close every socket; returns when all are gone. Idempotent."""
        servers, self._servers = self._servers, []
        if not servers:
            return
        for server in servers:
            server.close()
        await self._connections.shut_down(self._settings.stop_seconds)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._settings.stop_seconds):
                await asyncio.gather(*(server.wait_closed() for server in servers))
        await self._operations.aclose()
        _log.info("data plane stopped")

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    @property
    def url(self) -> str:
        """`https://127.0.0.1:PORT`: the endpoint URL for the HTTP/2 runtime SDK."""
        return f"https://{HOST}:{self._port}"

    @property
    def plain_url(self) -> str:
        """`http://127.0.0.1:PORT`: the endpoint URL for boto3's `sagemaker-runtime`."""
        return f"http://{HOST}:{self._plain_port}"

    @property
    def faults_url(self) -> str:
        """The admin route: GET, POST and DELETE here, with the token."""
        return f"{self.plain_url}/faults"

    @property
    def admin_token(self) -> str:
        """What the admin route wants to hear: `Authorization: Bearer TOKEN`."""
        return self._admin.token

    @property
    def connection_count(self) -> int:
        """Client connections that are open, or still closing the sockets of their streams."""
        return len(self._connections)


@contextlib.contextmanager
def _as_taken(port: int) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise DataPlaneError(
            f"cannot listen on {HOST}:{port}: {error.strerror}; choose another data-plane port, or 0 for a free one"
        ) from error
