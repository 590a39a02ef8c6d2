"""The container's port: HTTP requests are answered, WebSockets admitted up to the limit of sessions."""

import asyncio
from contextlib import suppress
from typing import cast

import h11
from websockets.datastructures import Headers
from websockets.http11 import Request

from voxtral_bridge.event_log import log_event
from voxtral_bridge.health import HealthProbe, log_gauges
from voxtral_bridge.http_messages import Answer, message, read_message
from voxtral_bridge.http_routes import answer_to
from voxtral_bridge.session import SHUTTING_DOWN, Ending, Session, say_goodbye
from voxtral_bridge.settings import BridgeSettings
from voxtral_bridge.web_socket import MAX_HEAD_BYTES, ClientSocket

PATHS = (b"/invocations-bidirectional-stream", b"/v1/realtime")
"""SageMaker's default path, and vLLM's own, which a client may name as its model invocation path."""


class Bridge:
    """Serves clients until it is told to stop, then lets the sessions finish."""

    def __init__(self, settings: BridgeSettings) -> None:
        self._settings = settings
        self._probe = HealthProbe(settings)
        self._sessions: set[Session] = set()
        self._serving: set[asyncio.Task[None]] = set()
        """Connections whose request has arrived."""
        self._stopping = False

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until `stop` is set, then let the sessions finish.

        Raises:
            OSError: the port cannot be listened on.
        """
        settings = self._settings
        server = await asyncio.start_server(self._connected, settings.host, settings.port, backlog=2048)
        log_event("starting", host=settings.host, port=settings.port, vllm_port=settings.vllm_port)
        async with asyncio.TaskGroup() as background:
            tasks = [background.create_task(self._probe.run())]
            tasks.append(background.create_task(log_gauges(settings, lambda: len(self._sessions))))
            await stop.wait()
            self._stopping = True
            server.close()
            for session in self._sessions:
                session.shut_down()
            if self._serving:
                await asyncio.wait(self._serving, timeout=settings.shutdown_limit)
            for task in tasks:
                task.cancel()
        log_event("stopped")

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection: a WebSocket, or a request and its answer."""
        http = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD_BYTES)
        try:
            result = await self._answer(http, reader, writer)
            if isinstance(result, Answer) and not writer.is_closing():
                writer.write(message(http, result.head(), result.body))
                writer.write_eof()
                with suppress(OSError):  # the client has gone, or does not read
                    async with asyncio.timeout(self._settings.close_timeout):
                        while await reader.read(MAX_HEAD_BYTES):
                            pass  # to close over unread data would lose the answer
                        writer.close()
                        await writer.wait_closed()
            elif isinstance(result, ClientSocket):
                del http  # a session may be long; `writer` stays, as its end would close the connection
                await self._serve(result)
        except asyncio.CancelledError:
            pass  # the process ends; asyncio's streams would log this as a fault
        finally:
            writer.transport.abort()

    async def _answer(
        self, http: h11.Connection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> Answer | ClientSocket | None:
        """Return the answer to the request, or the socket that takes over; None when nobody is there any more."""
        limit = self._settings.request_timeout
        try:
            async with asyncio.timeout(limit):
                head, body = await read_message(http, reader, writer)
        except TimeoutError:
            return Answer.failure(408, "request_timeout", f"the request did not arrive whole within {limit:g} s")
        except h11.RemoteProtocolError as error:
            code = "too_large" if error.error_status_hint == 413 else "bad_request"
            return Answer.failure(error.error_status_hint, code, f"this cannot be served: {error}")
        except OSError:
            return None
        if writer.is_closing():
            return None
        task, request = cast("asyncio.Task[None]", asyncio.current_task()), cast("h11.Request", head)
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)
        is_upgrade = dict(request.headers).get(b"upgrade", b"").lower() == b"websocket"
        if request.method != b"GET" or not is_upgrade or request.target.partition(b"?")[0] not in PATHS:
            return await answer_to(request, body, self._settings, self._probe)
        return await self._shake_hands(request, http, reader, writer)

    async def _shake_hands(
        self, request: h11.Request, http: h11.Connection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> Answer | ClientSocket:
        client = ClientSocket(self._settings.max_message_bytes, request.target.decode())
        headers = Headers([(name.decode("latin-1"), value.decode("latin-1")) for name, value in request.headers])
        response = client.protocol.accept(Request(client.target, headers))
        if response.status_code != 101:
            return Answer.failure(response.status_code, "bad_handshake", response.body.decode().strip())
        writer.write(response.serialize())
        streams = writer.transport.get_protocol()
        writer.transport.set_protocol(client)
        client.connection_made(writer.transport)
        streams.connection_lost(None)  # asyncio's streams let go, and give what they hold already
        client.early = http.trailing_data[0] + await reader.read()
        return client

    async def _serve(self, client: ClientSocket) -> None:
        settings = self._settings
        if self._stopping:
            await say_goodbye(client, settings, SHUTTING_DOWN)
        elif len(self._sessions) >= settings.max_sessions:
            text = f"all {settings.max_sessions} sessions of this instance are in use; try again later"
            await say_goodbye(client, settings, Ending("session_limit", 1013, "bridge", text))
        else:
            session = Session(client, settings, self._probe)
            self._sessions.add(session)
            try:
                await session.run(len(self._sessions))
            finally:
                self._sessions.discard(session)
