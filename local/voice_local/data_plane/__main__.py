"""A data plane on its own, in front of one container that already runs: for developing clients and containers.

    python -m voice_local.data_plane --container-port 8080 --endpoint-name dev-voice-stt

Prints one JSON line when it is ready (`url`, `ca_bundle`, `access_key`, `secret_key`, `region`, `endpoint`) and serves
until SIGINT or SIGTERM.
"""

import argparse
import asyncio
import json
import logging
import signal
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from voice_local.data_plane import DataPlane, DataPlaneError, DataPlaneSettings, TlsMaterial
from voice_local.identity import LocalIdentity
from voice_local.interfaces import EndpointStatus, EndpointView, ServingContainer


@dataclass(frozen=True, slots=True)
class _OneEndpoint:
    """A directory that holds one endpoint, always in service."""

    view: EndpointView

    def find(self, endpoint_name: str) -> EndpointView | None:
        return self.view if endpoint_name == self.view.name else None


async def serve(container_port: int, endpoint_name: str, port: int, accept_seconds: float, folder: Path) -> None:
    """Serve one endpoint until a signal comes.

    Raises:
        DataPlaneError: the port is taken or the folder cannot be written.
    """
    identity = LocalIdentity()
    container = ServingContainer(variant="AllTraffic", port=container_port, bidirectional=True)
    directory = _OneEndpoint(EndpointView(endpoint_name, EndpointStatus.IN_SERVICE, (container,)))
    tls = TlsMaterial.create(folder)
    settings = DataPlaneSettings(accept_seconds=accept_seconds)
    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    async with DataPlane(directory, identity, tls=tls, port=port, settings=settings) as plane:
        ready = {
            "url": plane.url,
            "ca_bundle": str(tls.ca_bundle),
            "access_key": identity.access_key_id,
            "secret_key": identity.secret_access_key,
            "region": identity.region,
            "endpoint": endpoint_name,
        }
        sys.stdout.write(json.dumps(ready) + "\n")
        sys.stdout.flush()
        await ended.wait()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m voice_local.data_plane", description=(__doc__ or "").split("\n", 1)[0]
    )
    parser.add_argument("--container-port", type=int, required=True, help="port of the container on 127.0.0.1")
    parser.add_argument("--endpoint-name", required=True, help="name the endpoint is invoked by")
    parser.add_argument("--port", type=int, default=0, help="port to serve on (default: a free one)")
    parser.add_argument(
        "--accept-seconds",
        type=float,
        default=DataPlaneSettings().accept_seconds,
        help="how long the container may take to accept the WebSocket (default: SageMaker's 0.25)",
    )
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    try:
        with tempfile.TemporaryDirectory(prefix="voice-data-plane-") as folder:
            asyncio.run(
                serve(
                    options.container_port,
                    options.endpoint_name,
                    options.port,
                    options.accept_seconds,
                    Path(folder),
                )
            )
    except (DataPlaneError, ValueError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
