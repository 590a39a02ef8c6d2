"""One request and its response, as the operations see it: the same over HTTP/2 and HTTP/1.1."""

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Protocol

from h2.errors import ErrorCodes


class RequestStream(Protocol):
    """One request and its response. One task reads, one task writes.

    Every method raises StreamBrokenError when the client reset the stream or is gone.
    """

    @property
    def headers(self) -> Sequence[tuple[str, str]]:
        """Request headers, names in lower case, with the pseudo-headers `:method`, `:path` and `:authority`."""
        ...

    async def receive(self) -> bytes | None:
        """Return what has arrived since the last call, waiting for it; None when the client has ended its half."""
        ...

    def send_headers(self, status: int, headers: Sequence[tuple[str, str]]) -> None:
        """Begin the response."""
        ...

    async def send(self, data: bytes) -> None:
        """Send a piece of the response body, waiting for the client to take it."""
        ...

    async def complete(self, data: bytes, seconds: float) -> None:
        """Send the last piece of the response; give the client up when it does not take it within `seconds`."""
        ...

    def reset(self, code: ErrorCodes) -> None:
        """Break the response off. Does nothing on a stream that is already gone."""
        ...

    async def wait_broken(self) -> None:
        """Wait until the client resets the stream or is gone, and raise."""
        ...


type Serve = Callable[[RequestStream], Coroutine[Any, Any, None]]
