"""A data plane on its own, in front of one container that already runs: for developing clients and containers.

    python -m voice_local.data_plane --container-port 8080 --endpoint-name dev-voice-stt

Prints one JSON line when it is ready and serves until SIGINT or SIGTERM. The line holds `url` and `ca_bundle` (HTTP/2),
`plain_url` (HTTP/1.1), `access_key`, `secret_key`, `region`, `endpoint`, and `faults_url` and `admin_token` for making
things go wrong while it runs (docs/data-plane.md).
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

from voice_local.data_plane import DataPlane, DataPlaneError, DataPlaneSettings, Fault, TlsMaterial
from voice_local.identity import LocalIdentity
from voice_local.interfaces import EndpointStatus, EndpointView, ServingContainer


@dataclass(frozen=True, slots=True)
class _OneEndpoint:
    """A directory that holds one endpoint, always in service."""

    view: EndpointView

    def find(self, endpoint_name: str) -> EndpointView | None:
        return self.view if endpoint_name == self.view.name else None


async def serve(
    container_port: int,
    endpoint_name: str,
    *,
    port: int,
    folder: Path,
    settings: DataPlaneSettings,
    faults: Sequence[Fault],
) -> None:
    """Serve one endpoint until a signal comes, with `faults` armed from the start.

    Raises:
        DataPlaneError: the port is taken or the folder cannot be written.
    """
    identity = LocalIdentity()
    container = ServingContainer(variant="AllTraffic", port=container_port, bidirectional=True)
    directory = _OneEndpoint(EndpointView(endpoint_name, EndpointStatus.IN_SERVICE, (container,)))
    tls = TlsMaterial.create(folder)
    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    async with DataPlane(directory, identity, tls=tls, port=port, settings=settings) as plane:
        for fault in faults:
            plane.faults.arm(fault)
        ready = {
            "url": plane.url,
            "plain_url": plane.plain_url,
            "faults_url": plane.faults_url,
            "admin_token": plane.admin_token,
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
    parser.add_argument(
        "--receive-window",
        type=int,
        default=DataPlaneSettings().receive_window,
        help="HTTP/2 flow-control window of a stream in bytes; a small one makes `stop-reading` felt at once",
    )
    parser.add_argument(
        "--fault",
        action="append",
        default=[],
        metavar="KIND[,FIELD=VALUE]...",
        help="make something go wrong, e.g. reset-stream,after=5; may be given several times",
    )
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    try:
        settings = DataPlaneSettings(accept_seconds=options.accept_seconds, receive_window=options.receive_window)
        faults = [Fault.parse(text) for text in options.fault]
        with tempfile.TemporaryDirectory(prefix="voice-data-plane-") as folder:
            asyncio.run(
                serve(
                    options.container_port,
                    options.endpoint_name,
                    port=options.port,
                    folder=Path(folder),
                    settings=settings,
                    faults=faults,
                )
            )
    except (DataPlaneError, ValueError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
