"""`--share`: a public address for the page, through Gradio's tunnel. The only part that talks to the internet."""

import asyncio
import secrets
from urllib.parse import urlsplit

from voice_client.blocking import call_blocking
from voice_client.errors import ConnectError
from voice_client.ui.door import Door

TUNNEL_SECONDS = 90.0
"""Gradio downloads a program for it the first time (12 MB), and asks its service for an address."""
_END_SECONDS = 5.0


async def open_tunnel(door: Door, host: str, port: int) -> str:
    """Open a tunnel to the page and let its name in; returns its address.

    Raises:
        ConnectError: there is no tunnel to be had.
        DeadlineError: not in time.
    """
    from gradio.networking import setup_tunnel  # noqa: PLC0415 - loads Gradio

    def set_up() -> str:
        return str(setup_tunnel(host, port, secrets.token_urlsafe(32), None, None))

    try:
        address = await call_blocking(
            set_up,
            deadline_seconds=TUNNEL_SECONDS,
            doing="opening the public tunnel",
            advice="Check the network, or leave out --share",
        )
    except (OSError, RuntimeError, ValueError) as error:
        raise ConnectError(
            f"there is no public tunnel: {error}", advice="Check the network, or leave out --share"
        ) from error
    door.admit(urlsplit(address).netloc)
    return address


async def close_tunnels() -> None:
    """End every tunnel of this process."""
    from gradio.tunneling import CURRENT_TUNNELS  # noqa: PLC0415 - loads Gradio

    tunnels = list(CURRENT_TUNNELS)
    async with asyncio.timeout(_END_SECONDS):
        await asyncio.to_thread(lambda: [tunnel.kill() for tunnel in tunnels])  # type: ignore[no-untyped-call]
