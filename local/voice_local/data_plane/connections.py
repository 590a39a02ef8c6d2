"""The open connections of one server, so that they can be ended together, whatever protocol they speak."""

import asyncio
from typing import Protocol


class Connection(Protocol):
    """A client's socket with everything that runs for it."""

    async def shut_down(self, seconds: float) -> None:
        """End every stream and the socket, in order for `seconds`, then by force; returns when all are gone."""
        ...


class Connections:
    """Knows which connections are open."""

    def __init__(self) -> None:
        self._open: set[Connection] = set()
        self._admitting = True

    def __len__(self) -> int:
        return len(self._open)

    def admit(self, connection: Connection) -> bool:
        """Take a connection in; False when the server has begun to stop, even while that client shook hands."""
        if self._admitting:
            self._open.add(connection)
        return self._admitting

    def dismiss(self, connection: Connection) -> None:
        """Forget a connection whose socket and tasks are gone."""
        self._open.discard(connection)

    async def shut_down(self, seconds: float) -> None:
        """End every connection and let no other in."""
        self._admitting = False
        await asyncio.gather(*(connection.shut_down(seconds) for connection in self._open))
