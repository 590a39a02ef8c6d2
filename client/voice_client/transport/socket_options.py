"""TCP options by which a connection whose peer vanished is noticed in time."""

import contextlib
import socket

from voice_client.transport.settings import TransportSettings

_DAY = 86_400.0
"""In seconds. The system counts TCP_USER_TIMEOUT in an int of milliseconds, which some weeks would overflow."""


def watch_peer(connected: socket.socket, settings: TransportSettings) -> None:
    """Let TCP ask after a silent peer, and on Linux give up when sent bytes are not acknowledged.

    Options that a platform lacks are left out: what stays then is the system's own patience. (asyncio itself sets
    TCP_NODELAY, without which every other small message waits 40 ms for the peer's delayed acknowledgement.)
    """
    options = [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)]
    for name, value in (
        ("TCP_KEEPIDLE", settings.keepalive_idle_seconds),
        ("TCP_KEEPALIVE", settings.keepalive_idle_seconds),  # macOS's name for the one above
        ("TCP_KEEPINTVL", settings.keepalive_interval_seconds),
        ("TCP_KEEPCNT", settings.keepalive_probes),
        ("TCP_USER_TIMEOUT", round(min(settings.unacknowledged_seconds, _DAY) * 1000)),
    ):
        if (option := getattr(socket, name, None)) is not None:
            options.append((socket.IPPROTO_TCP, option, value))
    for option in options:
        # Gone already, which the next read says; or more than the system can count to.
        with contextlib.suppress(OSError, OverflowError):
            connected.setsockopt(*option)
