"""The local cloud's data plane in front of one container, with endpoints in several states. Prints one JSON line."""

import argparse
import asyncio
import json
import signal
import sys
from pathlib import Path

from voice_local.data_plane import DataPlane, DataPlaneSettings, TlsMaterial
from voice_local.identity import LocalIdentity
from voice_local.interfaces import EndpointStatus, EndpointView, ServingContainer


class Directory:
    """`ear` is in service, `young` is being created, `gone` names a container whose port nobody listens on."""

    def __init__(self, container_port: int) -> None:
        self._endpoints = {
            name: EndpointView(name, status, (ServingContainer("AllTraffic", port, bidirectional=True),))
            for name, status, port in (
                ("ear", EndpointStatus.IN_SERVICE, container_port),
                ("young", EndpointStatus.CREATING, container_port),
                ("gone", EndpointStatus.IN_SERVICE, 1),
            )
        }

    def find(self, endpoint_name: str) -> EndpointView | None:
        return self._endpoints.get(endpoint_name)


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--container-port", type=int, required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--settings", type=json.loads, default={})
    options = parser.parse_args()
    identity = LocalIdentity()
    tls = TlsMaterial.create(options.folder)
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    settings = DataPlaneSettings(**options.settings)
    async with DataPlane(Directory(options.container_port), identity, tls=tls, port=0, settings=settings) as plane:
        ready = {
            "url": plane.url,
            "ca_bundle": str(tls.ca_bundle),
            "access_key": identity.access_key_id,
            "secret_key": identity.secret_access_key,
            "region": identity.region,
        }
        sys.stdout.write(json.dumps(ready) + "\n")
        sys.stdout.flush()
        await stopped.wait()


asyncio.run(main())
