"""The local stand-in for SageMaker's runtime endpoint: TLS, HTTP/2, signatures, and the bridge to containers."""

import asyncio
import contextlib
import hashlib
import json
import logging
import time
import uuid
from dataclasses import dataclass, field
from typing import Self

from h2.errors import ErrorCodes

from voice_local.data_plane.bidirectional import BidirectionalRelay
from voice_local.data_plane.container_socket import ContainerSockets
from voice_local.data_plane.errors import (
    DataPlaneError,
    RequestRefusedError,
    StreamBrokenError,
    internal_stream_failure,
    root_failure,
)
from voice_local.data_plane.event_stream import CONTENT_TYPE
from voice_local.data_plane.http2 import Http2Connection, Http2Connections, Http2Stream
from voice_local.data_plane.model_errors import ModelErrors
from voice_local.data_plane.payload_parts import encode_fault
from voice_local.data_plane.plain import PlainInvoker, read_body
from voice_local.data_plane.routing import (
    BIDIRECTIONAL,
    Route,
    find_container,
    find_route,
    read_model_target,
    signed_request,
)
from voice_local.data_plane.settings import DataPlaneSettings
from voice_local.data_plane.sigv4 import EVENT_STREAM_HASH, EventChain, SignatureVerifier, SignedRequest
from voice_local.data_plane.tls import TlsMaterial
from voice_local.identity import LocalIdentity
from voice_local.interfaces import EndpointDirectory

_log = logging.getLogger("voice_local.data_plane")

HOST = "127.0.0.1"
"""Loopback only: the data plane is never reachable from another machine."""


@dataclass(slots=True)
class _Exchange:
    """One request, for the log. Nothing of a body is ever kept here."""

    request_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    endpoint_name: str = "-"
    outcome: str = "failed"
    streaming: bool = False
    traffic: str = ""
    started: float = field(default_factory=time.monotonic)


class DataPlane:
    """Serves InvokeEndpointWithBidirectionalStream and InvokeEndpoint over HTTP/2 on loopback.

    Start and stop it in one asyncio loop; it leaves no task and no socket behind.
    """

    def __init__(
        self,
        directory: EndpointDirectory,
        identity: LocalIdentity,
        *,
        tls: TlsMaterial,
        port: int = 0,
        settings: DataPlaneSettings | None = None,
    ) -> None:
        """Prepare a data plane; nothing is opened yet.

        Args:
            directory: looks endpoints up.
            identity: the account, region and the one key pair that is accepted.
            tls: server context and CA bundle.
            port: TCP port; 0 takes a free one. AWS's own is `DEFAULT_PORT`.
            settings: clocks and limits.
        """
        self._directory = directory
        self._identity = identity
        self._tls = tls
        self._port = port
        self._settings = settings or DataPlaneSettings()
        self._verifier = SignatureVerifier(identity, clock_skew_seconds=self._settings.clock_skew_seconds)
        self._sockets = ContainerSockets(self._settings)
        self._plain = PlainInvoker(self._settings)
        self._connections = Http2Connections()
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        """Bind and serve.

        Raises:
            DataPlaneError: the port is taken, or the data plane runs already.
        """
        if self._server is not None:
            raise DataPlaneError(f"the data plane already serves {self.url}")
        self._connections = Http2Connections()
        try:
            self._server = await asyncio.get_running_loop().create_server(
                lambda: Http2Connection(self._serve, self._settings, self._connections),
                HOST,
                self._port,
                ssl=self._tls.server_context,
                ssl_handshake_timeout=self._settings.tls_handshake_seconds,
                ssl_shutdown_timeout=self._settings.tls_shutdown_seconds,
            )
        except OSError as error:
            raise DataPlaneError(
                f"cannot listen on {HOST}:{self._port}: {error.strerror}; "
                "choose another data-plane port, or 0 for a free one"
            ) from error
        self._port = self._server.sockets[0].getsockname()[1]
        _log.info("data plane serves %s", self.url)

    async def stop(self) -> None:
        """End every stream, close every socket; returns when all are gone. Idempotent."""
        if self._server is None:
            return
        server, self._server = self._server, None
        server.close()
        await self._connections.shut_down(self._settings.stop_seconds)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._settings.stop_seconds):
                await server.wait_closed()
        await self._plain.aclose()
        _log.info("data plane stopped")

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    @property
    def url(self) -> str:
        """`https://127.0.0.1:PORT`: the endpoint URL for the HTTP/2 runtime SDK."""
        return f"https://{HOST}:{self._port}"

    @property
    def connection_count(self) -> int:
        """Client connections that are open, or still closing the sockets of their streams."""
        return len(self._connections)

    async def _serve(self, stream: Http2Stream) -> None:
        """Answer one request, whatever it holds."""
        exchange = _Exchange()
        try:
            await self._answer_while_connected(stream, exchange)
        except StreamBrokenError as broken:
            exchange.outcome = str(broken)
        except asyncio.CancelledError:
            exchange.outcome = "stopped"
            stream.reset(ErrorCodes.CANCEL)
            raise
        finally:
            _log.info(
                "stream closed request=%s endpoint=%s outcome=%s seconds=%.3f%s",
                exchange.request_id,
                exchange.endpoint_name,
                exchange.outcome,
                time.monotonic() - exchange.started,
                exchange.traffic,
            )
        await self._await_request_end(stream)

    async def _answer_while_connected(self, stream: Http2Stream, exchange: _Exchange) -> None:
        """Answer, and stop at once when the client goes away, whatever is being waited for."""
        try:
            async with asyncio.TaskGroup() as group:
                watch = group.create_task(stream.wait_broken())
                await self._answer(stream, exchange)
                watch.cancel()
        except BaseExceptionGroup as failures:
            raise root_failure(failures) from None

    async def _answer(self, stream: Http2Stream, exchange: _Exchange) -> None:
        try:
            await self._dispatch(stream, exchange)
        except RequestRefusedError as refusal:
            exchange.outcome = f"{refusal.status} {refusal.error_type}"
            await self._send_refusal(stream, refusal, exchange)
        except StreamBrokenError:
            raise
        except Exception:  # noqa: BLE001 - one request must not end the server; the log has the traceback
            _log.exception("request %s failed inside the data plane", exchange.request_id)
            await self._send_internal_error(stream, exchange)

    async def _send_internal_error(self, stream: Http2Stream, exchange: _Exchange) -> None:
        message = "The local data plane failed; its log holds the reason."
        if exchange.streaming:
            await stream.complete(encode_fault(internal_stream_failure(message)), self._settings.farewell_seconds)
        else:
            await self._send_refusal(stream, RequestRefusedError(500, "InternalServerError", message), exchange)

    async def _dispatch(self, stream: Http2Stream, exchange: _Exchange) -> None:
        request = signed_request(stream.headers)
        route = find_route(request)
        exchange.endpoint_name = route.endpoint_name
        if route.operation == BIDIRECTIONAL:
            await self._invoke_bidirectional(stream, request, route, exchange)
        else:
            await self._invoke_plain(stream, request, route, exchange)

    async def _invoke_bidirectional(
        self, stream: Http2Stream, request: SignedRequest, route: Route, exchange: _Exchange
    ) -> None:
        signature = self._verifier.verify_request(request, EVENT_STREAM_HASH)
        target = read_model_target(request, self._settings)
        container = find_container(request, route.endpoint_name, self._directory, self._identity, self._settings)
        errors = ModelErrors(route.endpoint_name, self._identity)
        async with self._sockets.open(container, target, errors) as websocket:
            relay = BidirectionalRelay(stream, websocket, EventChain(self._verifier, signature), self._settings)
            stream.send_headers(
                200,
                [
                    ("content-type", CONTENT_TYPE),
                    ("x-amzn-requestid", exchange.request_id),
                    ("x-amzn-invoked-production-variant", container.variant),
                ],
            )
            exchange.streaming = True
            _log.info(
                "stream open request=%s endpoint=%s variant=%s",
                exchange.request_id,
                route.endpoint_name,
                container.variant,
            )
            try:
                fault = await relay.run()
                exchange.outcome = "200" if fault is None else f"200 {fault.error_type}"
            finally:
                exchange.traffic = f" to_container={relay.traffic.to_container} to_client={relay.traffic.to_client}"

    async def _invoke_plain(
        self, stream: Http2Stream, request: SignedRequest, route: Route, exchange: _Exchange
    ) -> None:
        body = await read_body(stream, self._settings)
        self._verifier.verify_request(request, hashlib.sha256(body).hexdigest())
        container = find_container(request, route.endpoint_name, self._directory, self._identity, self._settings)
        answer = await self._plain.invoke(container, request, body, ModelErrors(route.endpoint_name, self._identity))
        headers = [
            *answer.headers,
            ("x-amzn-requestid", exchange.request_id),
            ("x-amzn-invoked-production-variant", container.variant),
        ]
        stream.send_headers(200, headers)
        exchange.outcome = "200"
        await stream.complete(answer.body, self._settings.plain_invocation_seconds)

    async def _send_refusal(self, stream: Http2Stream, refusal: RequestRefusedError, exchange: _Exchange) -> None:
        body = json.dumps({"Message": refusal.message, **refusal.details}).encode()
        stream.send_headers(
            refusal.status,
            [
                ("content-type", "application/json"),
                ("content-length", str(len(body))),
                ("x-amzn-requestid", exchange.request_id),
                ("x-amzn-errortype", refusal.error_type),
            ],
        )
        await stream.complete(body, self._settings.farewell_seconds)

    async def _await_request_end(self, stream: Http2Stream) -> None:
        """Let the client finish its half; what it still sends is dropped."""
        try:
            async with asyncio.timeout(self._settings.request_end_seconds):
                while await stream.receive() is not None:
                    pass
        except TimeoutError:
            stream.reset(ErrorCodes.NO_ERROR)
        except StreamBrokenError:
            return  # a client may reset a stream whose response it has
