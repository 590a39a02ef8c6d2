"""A data plane in front of two containers that already run. Prints one JSON line and serves until SIGTERM.

usage: python two_endpoints.py EAR_PORT VOICE_PORT FOLDER
"""

import asyncio
import json
import signal
import sys
from pathlib import Path

from voice_local.data_plane import DataPlane, DataPlaneSettings, TlsMaterial
from voice_local.identity import LocalIdentity
from voice_local.interfaces import EndpointStatus, EndpointView, ServingContainer

ACCEPT_SECONDS = 10.0
"""A busy machine is slower than the platform's quarter of a second, which other tests are about."""


class TwoEndpoints:
    def __init__(self, ear_port: int, voice_port: int) -> None:
        ports = {"page-voice-stt": ear_port, "page-voice-tts": voice_port}
        self._views = {
            name: EndpointView(
                name,
                EndpointStatus.IN_SERVICE,
                (ServingContainer(variant="AllTraffic", port=port, bidirectional=True),),
            )
            for name, port in ports.items()
        }

    def find(self, endpoint_name: str) -> EndpointView | None:
        return self._views.get(endpoint_name)


async def serve(ear_port: int, voice_port: int, folder: Path) -> None:
    identity = LocalIdentity()
    tls = TlsMaterial.create(folder)
    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    settings = DataPlaneSettings(accept_seconds=ACCEPT_SECONDS)
    directory = TwoEndpoints(ear_port, voice_port)
    async with DataPlane(directory, identity, tls=tls, port=0, settings=settings) as plane:
        ready = {
            "url": plane.url,
            "ca_bundle": str(tls.ca_bundle),
            "access_key": identity.access_key_id,
            "secret_key": identity.secret_access_key,
            "region": identity.region,
        }
        print(json.dumps(ready), flush=True)
        await ended.wait()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])))
