"""InvokeEndpointWithBidirectionalStream: one HTTP/2 stream bridged to one WebSocket of a container.

Four tasks share an open stream: client to container, container to client, the pings, and the faults that were asked
for. The second decides how the stream ends; a fault found by any of them becomes the stream's last event.
"""

import asyncio
from dataclasses import dataclass

from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from voice_local.data_plane.container_socket import keep_alive
from voice_local.data_plane.errors import StreamFaultError, model_stream_error, root_failure
from voice_local.data_plane.fault_injection import FaultInjection
from voice_local.data_plane.faults import Direction
from voice_local.data_plane.http2 import Http2Stream
from voice_local.data_plane.payload_parts import encode_fault, encode_message
from voice_local.data_plane.request_events import RequestEvents
from voice_local.data_plane.settings import DataPlaneSettings, InputEnd
from voice_local.data_plane.sigv4 import EventChain

NORMAL_CLOSURE = 1000


@dataclass(slots=True)
class Traffic:
    """WebSocket messages relayed so far, for the log."""

    to_container: int = 0
    to_client: int = 0


class BidirectionalRelay:
    """Relays one accepted stream until it ends."""

    def __init__(
        self,
        stream: Http2Stream,
        websocket: ClientConnection,
        chain: EventChain,
        settings: DataPlaneSettings,
        faults: FaultInjection,
    ) -> None:
        self.traffic = Traffic()
        self._stream = stream
        self._websocket = websocket
        self._chain = chain
        self._settings = settings
        self._faults = faults

    async def run(self) -> StreamFaultError | None:
        """Relay until the container is done, something fails or the time is up; complete the response.

        Returns:
            The fault that the client was told as the last event, None after a normal end.

        Raises:
            StreamBrokenError: the client reset the stream or is gone.
        """
        fault: StreamFaultError | None = None
        try:
            await self._relay()
        except StreamFaultError as error:
            fault = error
        farewell = b"" if fault is None else encode_fault(fault)
        await self._stream.complete(farewell, self._settings.farewell_seconds)
        return fault

    async def _relay(self) -> None:
        seconds = self._settings.longest_stream_seconds
        try:
            async with asyncio.timeout(seconds) as longest, asyncio.TaskGroup() as group:
                await self._faults.headers_sent()
                children = [
                    group.create_task(self._faults.watch()),
                    group.create_task(self._forward_input()),
                    group.create_task(keep_alive(self._websocket, self._settings)),
                ]
                await self._forward_output()
                for child in children:
                    child.cancel()
        except TimeoutError:
            if not longest.expired():
                raise
            raise model_stream_error(
                f"The stream was open for {seconds:g} seconds, the longest that is allowed. Open another one to go on.",
                "ModelInvocationTimeExceeded",
            ) from None
        except BaseExceptionGroup as failures:
            raise root_failure(failures) from None

    async def _forward_input(self) -> None:
        """Verify what the client sends and pass it on, then act on the end of the input."""
        events = RequestEvents(self._chain, self._settings.largest_message)
        try:
            while not events.ended and (data := await self._stream.receive()) is not None:
                for message in events.feed(data):
                    await self._faults.hold(Direction.TO_CONTAINER)
                    await self._websocket.send(message)
                    self.traffic.to_container += 1
                    await self._faults.passed(Direction.TO_CONTAINER)
            if not events.ended:
                events.check_complete()
            if self._settings.input_end is InputEnd.CLOSE_WEBSOCKET:
                await self._websocket.close(NORMAL_CLOSURE)
        except ConnectionClosed:
            return  # _forward_output reports how the container closed

    async def _forward_output(self) -> None:
        """Relay until the container has closed its socket with 1000.

        Raises:
            StreamFaultError: it closed otherwise, or went away.
        """
        try:
            while True:
                message = await self._websocket.recv()
                await self._faults.hold(Direction.TO_CLIENT)
                await self._stream.send(encode_message(message))
                self.traffic.to_client += 1
                await self._faults.passed(Direction.TO_CLIENT)
        except ConnectionClosed as closed:
            received = closed.rcvd
            if received is not None and received.code == NORMAL_CLOSURE:
                return
            raise model_stream_error(_describe_close(closed), "StreamBroken") from None


def _describe_close(closed: ConnectionClosed) -> str:
    if closed.rcvd is not None:
        reason = f" ({closed.rcvd.reason})" if closed.rcvd.reason else ""
        return f"The container closed the WebSocket with code {closed.rcvd.code}{reason}."
    if closed.sent is not None and closed.sent.code != NORMAL_CLOSURE:
        return f"The container broke the WebSocket protocol ({closed.sent.code} {closed.sent.reason})."
    if closed.sent is not None:
        return "The container did not complete the closing handshake of the WebSocket."
    return "The container's WebSocket broke without a close frame."
