"""HTTP/2 connections to one address, shared by streams; a further one is made when all are full."""

import asyncio
import copy
import os
import socket
import ssl

from voice_client.blocking import call_blocking
from voice_client.errors import DeadlineError, ProtocolError
from voice_client.transport.address import StreamAddress
from voice_client.transport.connection import Connection
from voice_client.transport.faults import connect_failure, untrusted_certificate
from voice_client.transport.settings import TransportSettings


class ConnectionPool:
    """Connections to one address.

    Args:
        address: where to connect.
        tls: verifies the server, and offers HTTP/2.
        endpoint: for errors.
        settings: deadlines and limits.
    """

    def __init__(
        self, address: StreamAddress, tls: ssl.SSLContext, *, endpoint: str, settings: TransportSettings
    ) -> None:
        self._address = address
        self._tls = tls
        self._endpoint = endpoint
        self._settings = settings
        self._connections: list[Connection] = []
        self._connecting: asyncio.Task[Connection] | None = None
        self._closed = False

    async def acquire(self) -> Connection:
        """Return a connection with one stream reserved on it.

        Raises:
            ConnectError: it cannot be made, within the connect deadline.
        """
        while True:
            if self._closed:
                raise ProtocolError("the transport is closed", endpoint=self._endpoint)
            self._connections = [connection for connection in self._connections if not connection.lost.is_set()]
            for connection in self._connections:
                if connection.usable:
                    return connection.reserve()
            # One attempt at a time, which all waiting opens share with its outcome.
            if self._connecting is None:
                self._connecting = asyncio.create_task(self._connect(), name="voice: connect")
                self._connecting.add_done_callback(self._connected)
            attempt = self._connecting
            await asyncio.wait({attempt})
            if attempt.cancelled():
                raise ProtocolError("the transport was closed while connecting", endpoint=self._endpoint)
            if (error := attempt.exception()) is not None:
                raise copy.copy(error) from error.__cause__

    async def close(self) -> None:
        """Close all connections; returns within the close deadline."""
        self._closed = True
        if (attempt := self._connecting) is not None:
            attempt.cancel()
        for connection in self._connections:
            connection.close()
        try:
            async with asyncio.timeout(self._settings.close_seconds):
                if attempt is not None:
                    await asyncio.wait({attempt})
                for connection in self._connections:
                    connection.close()  # one that was made meanwhile, too
                    await connection.lost.wait()
        except TimeoutError:
            pass
        finally:
            connections, self._connections = self._connections, []
            for connection in connections:
                connection.abort()
            for connection in connections:
                await connection.lost.wait()

    def _connected(self, attempt: "asyncio.Task[Connection]") -> None:
        self._connecting = None
        if not attempt.cancelled() and attempt.exception() is None:
            if self._closed:
                attempt.result().abort()
            self._connections.append(attempt.result())

    async def _connect(self) -> Connection:
        url, seconds = self._address.url, self._settings.connect_seconds
        try:
            async with asyncio.timeout(seconds) as deadline:
                connection = await self._connect_to_any(await self._resolve())
                await _settle(connection)
        except TimeoutError as error:
            reason = f"no connection within {seconds:g} s" if deadline.expired() else _reason(error)
            raise connect_failure(url, reason, endpoint=self._endpoint) from error
        except DeadlineError as error:  # of the name look-up
            raise connect_failure(url, error.message, endpoint=self._endpoint) from error
        except ssl.SSLCertVerificationError as error:
            raise untrusted_certificate(url, error.verify_message, endpoint=self._endpoint) from error
        except OSError as error:
            raise connect_failure(url, _reason(error), endpoint=self._endpoint) from error
        if not connection.usable:
            reason = connection.ended_by or "the server takes no stream"
            if connection.protocol != "h2":
                reason = "the server does not speak HTTP/2"
            connection.close()
            raise connect_failure(url, reason, endpoint=self._endpoint)
        return connection

    async def _resolve(self) -> list[str]:
        """Return the host's addresses, looked up in a thread of its own: the loop's executor cannot be given up."""
        host, port = self._address.host, self._address.port
        found = await call_blocking(
            lambda: socket.getaddrinfo(host, port, type=socket.SOCK_STREAM),
            deadline_seconds=self._settings.connect_seconds,
            doing=f"looking up {host}",
            advice="Check the network and the name server",
        )
        return list(dict.fromkeys(str(entry[4][0]) for entry in found))

    async def _connect_to_any(self, hosts: list[str]) -> Connection:
        """Connect to the first address that answers; each gets its share of the time that is left."""
        loop = asyncio.get_running_loop()
        until = loop.time() + self._settings.connect_seconds
        for position, host in enumerate(hosts, 1):
            last = position == len(hosts)
            connection = Connection(self._settings)
            try:
                async with asyncio.timeout(None if last else (until - loop.time()) / (len(hosts) - position + 1)):
                    await loop.create_connection(
                        lambda made=connection: made,  # type: ignore[misc]
                        host,
                        self._address.port,
                        ssl=self._tls,
                        server_hostname=self._address.host,
                        ssl_shutdown_timeout=self._settings.close_seconds,
                    )
            except BaseException as error:
                connection.abort()  # one that was given up in the moment it was made
                # A server that answered in TLS: what it said counts.
                if last or isinstance(error, ssl.SSLError) or not isinstance(error, OSError):
                    raise
            else:
                return connection
        raise OSError("no address")


async def _settle(connection: Connection) -> None:
    """Wait for the server's first frame, its SETTINGS (RFC 9113, 3.4): they tell how many streams it takes."""
    try:
        await connection.settled.wait()
    except BaseException:
        connection.abort()
        raise


def _reason(error: OSError) -> str:
    if isinstance(error, ssl.SSLError) or error.errno is None:
        return str(error) or type(error).__name__
    if isinstance(error, socket.gaierror):
        return f"{error.strerror}"
    return os.strerror(error.errno)  # asyncio words the error anew; the system's own words are the known ones
