"""TCP options that the CRT does not offer, set on its sockets from outside."""

import contextlib
import os
import socket


def open_descriptors() -> frozenset[tuple[int, int]]:
    """Return the numbers of the open descriptors, each with its inode, since a number alone is reused at once."""
    found = set()
    with contextlib.suppress(OSError):  # no such directory here
        for name in os.listdir("/dev/fd"):  # noqa: PTH208  # names, not paths
            with contextlib.suppress(OSError):  # the listing's own, closed by now
                found.add((int(name), os.fstat(int(name)).st_ino))
    return frozenset(found)


def tune_new_sockets(known: frozenset[tuple[int, int]], port: int, *, unacknowledged_seconds: float) -> None:
    """Set TCP_NODELAY, and on Linux TCP_USER_TIMEOUT, on the sockets to `port` that were not open before.

    The CRT offers neither option, nor its descriptor. Without the first, Nagle's algorithm meets the peer's delayed
    acknowledgement and every other small message waits 40 ms; without the second, a peer that vanished is noticed after
    minutes. Where descriptors cannot be listed nothing is set, and only that is lost. (Not tested on macOS.)
    """
    for descriptor, _ in open_descriptors() - known:
        try:
            duplicate = os.dup(descriptor)
        except OSError:
            continue  # closed meanwhile
        try:
            candidate = socket.socket(fileno=duplicate)
        except OSError:
            os.close(duplicate)  # not a socket
            continue
        with candidate, contextlib.suppress(OSError):  # not connected
            if candidate.type == socket.SOCK_STREAM and candidate.getpeername()[1:2] == (port,):
                candidate.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                if hasattr(socket, "TCP_USER_TIMEOUT"):
                    milliseconds = round(unacknowledged_seconds * 1000)
                    candidate.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, milliseconds)
