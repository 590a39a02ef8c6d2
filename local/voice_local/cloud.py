"""One local cloud: control plane, data plane and containers, put together."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from voice_local.containers.host import ProcessContainerHost
from voice_local.control_plane import ControlPlane
from voice_local.data_plane import DataPlane, FaultPlan, TlsMaterial
from voice_local.docker_shim import write_wrapper
from voice_local.identity import LocalIdentity
from voice_local.image_store import ImageStore
from voice_local.running_cloud import CloudDescription


class LocalCloud:
    """Runs while the `async with` block does; everything it started ends with it.

    Args:
        run_dir: holds recorded images, the CA bundle and the containers' output; made when missing.
        identity: region and key pair; a new key pair by default.
        control_port: TCP port of the control plane on 127.0.0.1; 0 takes a free one.
        data_port: TCP port of the data plane on 127.0.0.1; 0 takes a free one.
        keep_state: keep stacks and endpoints in `run_dir`, so that the next cloud in it begins with them.
    """

    def __init__(
        self,
        run_dir: Path,
        *,
        identity: LocalIdentity | None = None,
        control_port: int = 0,
        data_port: int = 0,
        keep_state: bool = False,
    ) -> None:
        self.identity = identity or LocalIdentity()
        self.faults = FaultPlan()
        """What is to go wrong on the data plane (docs/data-plane.md)."""
        self.run_dir = run_dir
        self.images_dir = run_dir / "images"
        self._control_port = control_port
        self._data_port = data_port
        self._state_dir = run_dir / "state" if keep_state else None
        self._running = AsyncExitStack()
        self._description: CloudDescription | None = None

    @property
    def description(self) -> CloudDescription:
        """What clients need to reach this cloud; known while it runs."""
        if self._description is None:
            raise RuntimeError("the local cloud does not run")
        return self._description

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as starting:
            host = ProcessContainerHost(ImageStore(self.images_dir), self.run_dir / "containers")
            control_plane = ControlPlane(
                host,
                self.identity,
                port=self._control_port,
                images_dir=self.images_dir,
                state_dir=self._state_dir,
            )
            # Importing and starting moto takes seconds; the TLS side need not wait for it.
            await asyncio.to_thread(control_plane.start)
            starting.push_async_callback(asyncio.to_thread, control_plane.stop)
            tls = TlsMaterial.create(self.run_dir / "tls")
            data_plane = DataPlane(control_plane, self.identity, port=self._data_port, tls=tls, faults=self.faults)
            await data_plane.start()
            starting.push_async_callback(data_plane.stop)
            await asyncio.to_thread(control_plane.await_resumed)
            self._running = starting.pop_all()
        self._description = CloudDescription(
            control_plane=control_plane.url,
            data_plane=data_plane.url,
            runtime=data_plane.plain_url,
            faults=data_plane.faults_url,
            admin_token=data_plane.admin_token,
            ca_bundle=tls.ca_bundle,
            region=self.identity.region,
            access_key=self.identity.access_key_id,
            secret_key=self.identity.secret_access_key,
            docker=write_wrapper(self.run_dir.resolve() / "docker", self.images_dir),
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._description = None
        await self._running.aclose()
