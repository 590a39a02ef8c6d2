"""The WebSocket between the platform and a container: opening, keep-alive, closing."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidMessage, InvalidStatus

from voice_local.data_plane.errors import model_stream_error
from voice_local.data_plane.model_errors import ModelErrors
from voice_local.data_plane.routing import ModelTarget
from voice_local.data_plane.settings import DataPlaneSettings
from voice_local.interfaces import ServingContainer

BIDIRECTIONAL_LABEL = "com.amazonaws.sagemaker.capabilities.bidirectional-streaming"
"""Image label without which SageMaker opens no WebSocket to a container."""

GOING_AWAY = 1001
"""Close code the container sees when its client is gone or its stream failed."""

_DEADLINE_SLICES = 10

# At DEBUG the websockets library logs the content of frames: spoken words. This logger never goes below INFO.
_quiet = logging.getLogger("voice_local.data_plane.websocket")
_quiet.setLevel(logging.INFO)


class _Connect(connect):
    """Follows no redirect: a container must not lead the platform off loopback."""

    def process_redirect(self, exc: Exception) -> Exception | str:
        return exc


class ContainerSockets:
    """Opens WebSockets to containers, a few at a time.

    When a hundred streams open at once, the wait for this process's own loop must not count against the container's
    accept deadline: the deadline begins with the connection, and only so many connections begin at once.
    """

    def __init__(self, settings: DataPlaneSettings) -> None:
        self._settings = settings
        self._turns = asyncio.Semaphore(settings.concurrent_accepts)

    @contextlib.asynccontextmanager
    async def open(
        self, container: ServingContainer, target: ModelTarget, errors: ModelErrors
    ) -> AsyncIterator[ClientConnection]:
        """Open the container's WebSocket, and close it on the way out however the stream ended.

        Args:
            container: where it listens.
            target: path and query to ask for.
            errors: makes the ModelErrors of the endpoint.

        Raises:
            RequestRefusedError: 424 ModelError. The image has no label for bidirectional streaming, nobody listens, the
                container refused, or it did not accept in time.
        """
        if not container.bidirectional:
            # AWS never opens a socket to such a container, and the client waits in vain. Here it learns why.
            await asyncio.sleep(self._settings.accept_seconds)
            raise errors.failed(
                f"The container image has no label {BIDIRECTIONAL_LABEL}=true, so that no WebSocket is opened to it. "
                "Build the image with that label and deploy it again."
            )
        websocket = await self._open(container, target, errors)
        try:
            yield websocket
        finally:
            await _leave(websocket, self._settings.websocket_close_seconds)

    async def _open(self, container: ServingContainer, target: ModelTarget, errors: ModelErrors) -> ClientConnection:
        async with self._turns:
            try:
                return await self._connect(container, target)
            except InvalidStatus as refusal:
                response = refusal.response
                original = (response.body or b"").decode(errors="replace").strip() or response.reason_phrase
                raise errors.refused(response.status_code, original) from None
            except (TimeoutError, InvalidHandshake, OSError) as error:
                raise errors.failed(self._describe(error, target)) from None

    async def _connect(self, container: ServingContainer, target: ModelTarget) -> ClientConnection:
        """Connect within the accept deadline.

        The deadline runs in slices that count as no longer than they should have been: while a busy machine gives this
        process no time, the container most likely had none either, and its deadline stands still.
        """
        opening = asyncio.create_task(self._handshake(container, target))
        try:
            for _ in range(_DEADLINE_SLICES):
                done, _ = await asyncio.wait({opening}, timeout=self._settings.accept_seconds / _DEADLINE_SLICES)
                if done:
                    return opening.result()
            raise TimeoutError
        except asyncio.CancelledError:
            if opening.done() and not opening.cancelled() and opening.exception() is None:
                opening.result().transport.abort()
            raise
        finally:
            if not opening.done():
                opening.cancel()
                await asyncio.wait({opening})

    async def _handshake(self, container: ServingContainer, target: ModelTarget) -> ClientConnection:
        settings = self._settings
        query = f"?{target.query}" if target.query else ""
        return await _Connect(
            f"ws://127.0.0.1:{container.port}/{target.path}{query}",
            compression=None,
            proxy=None,
            open_timeout=None,
            ping_interval=None,
            close_timeout=settings.half_close_seconds,
            max_size=settings.largest_message,
            logger=_quiet,
        )

    def _describe(self, error: Exception, target: ModelTarget) -> str:
        match error:
            case TimeoutError():
                milliseconds = round(self._settings.accept_seconds * 1000)
                return (
                    f"The container did not accept the WebSocket connection on /{target.path} within {milliseconds} ms."
                )
            case InvalidMessage():
                return (
                    f"The container closed the connection before it answered the WebSocket handshake on /{target.path}."
                )
            case OSError():
                return f"The container does not take connections: {error.strerror or error}."
            case _:
                return f"The container's WebSocket handshake is invalid: {error}"


async def keep_alive(websocket: ClientConnection, settings: DataPlaneSettings) -> None:
    """Ping for ever.

    Raises:
        StreamFaultError: ModelStreamError after too many pings in a row without a pong.
    """
    unanswered: list[asyncio.Future[float]] = []
    while True:
        await asyncio.sleep(settings.ping_interval_seconds)
        unanswered = [pong for pong in unanswered if not pong.done()]
        if len(unanswered) >= settings.unanswered_pings:
            raise model_stream_error(
                f"The container did not answer {settings.unanswered_pings} WebSocket pings in a row.", "StreamBroken"
            )
        try:
            pong = await websocket.ping()
        except ConnectionClosed:
            return  # whoever receives from the socket reports how it closed
        unanswered.append(asyncio.ensure_future(pong))


async def _leave(websocket: ClientConnection, seconds: float) -> None:
    """Close a WebSocket whose stream is over; drop it when the container does not answer within `seconds`."""
    try:
        async with asyncio.timeout(seconds):
            await websocket.close(GOING_AWAY)
    except TimeoutError:
        _quiet.info("a container did not answer the close frame within %g s", seconds)
    finally:
        websocket.transport.abort()
    await websocket.wait_closed()
