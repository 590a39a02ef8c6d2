"""Answers one request, whatever it holds: signature, endpoint, container, and the way the answer is told."""

import asyncio
import hashlib
import json
import logging
import time
import uuid
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import NoReturn

from h2.errors import ErrorCodes

from voice_local.data_plane.admin import LARGEST_BODY, AdminRoutes
from voice_local.data_plane.bidirectional import BidirectionalRelay
from voice_local.data_plane.container_socket import ContainerSockets
from voice_local.data_plane.errors import (
    RequestRefusedError,
    StreamBrokenError,
    internal_stream_failure,
    root_failure,
)
from voice_local.data_plane.event_stream import CONTENT_TYPE
from voice_local.data_plane.fault_injection import FaultInjection
from voice_local.data_plane.fault_plan import FaultPlan
from voice_local.data_plane.http2 import Http2Stream
from voice_local.data_plane.model_errors import ModelErrors
from voice_local.data_plane.payload_parts import encode_fault
from voice_local.data_plane.plain import PlainInvoker, read_body
from voice_local.data_plane.request_stream import RequestStream
from voice_local.data_plane.routing import (
    BIDIRECTIONAL,
    RESPONSE_STREAM,
    Route,
    find_container,
    find_route,
    read_model_target,
    signed_request,
    unknown_operation,
)
from voice_local.data_plane.settings import DataPlaneSettings
from voice_local.data_plane.sigv4 import EVENT_STREAM_HASH, EventChain, SignatureVerifier, SignedRequest
from voice_local.identity import LocalIdentity
from voice_local.interfaces import EndpointDirectory, ServingContainer

_log = logging.getLogger("voice_local.data_plane")


PLAIN_NAMES = {
    "InputValidationError": "ValidationError",
    "InternalServerError": "InternalFailure",
    "ServiceUnavailableError": "ServiceUnavailable",
}
"""The two runtime services name the same errors differently: bidirectional streams -> plain requests."""


@dataclass(slots=True)
class _Exchange:
    """One request, for the log. Nothing of a body is ever kept here."""

    request_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    endpoint_name: str = "-"
    outcome: str = "failed"
    streaming: bool = False
    plain: bool = False
    traffic: str = ""
    started: float = field(default_factory=time.monotonic)


class Operations:
    """The runtime's operations and the admin route, for every connection of one data plane."""

    def __init__(
        self,
        directory: EndpointDirectory,
        identity: LocalIdentity,
        settings: DataPlaneSettings,
        faults: FaultPlan,
        admin: AdminRoutes,
    ) -> None:
        self._directory = directory
        self._identity = identity
        self._settings = settings
        self._faults = faults
        self._admin = admin
        self._verifier = SignatureVerifier(identity, clock_skew_seconds=settings.clock_skew_seconds)
        self._sockets = ContainerSockets(settings)
        self._plain = PlainInvoker(settings)

    async def aclose(self) -> None:
        """Close the connections to containers that are kept for the next request."""
        await self._plain.aclose()

    async def serve(self, stream: RequestStream) -> None:
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

    async def _answer_while_connected(self, stream: RequestStream, exchange: _Exchange) -> None:
        """Answer, and stop at once when the client goes away, whatever is being waited for."""
        try:
            async with asyncio.TaskGroup() as group:
                watch = group.create_task(stream.wait_broken())
                await self._answer(stream, exchange)
                watch.cancel()
        except BaseExceptionGroup as failures:
            raise root_failure(failures) from None

    async def _answer(self, stream: RequestStream, exchange: _Exchange) -> None:
        try:
            await self._dispatch(stream, exchange)
        except RequestRefusedError as refusal:
            if exchange.plain:
                refusal.error_type = PLAIN_NAMES.get(refusal.error_type, refusal.error_type)
            exchange.outcome = f"{refusal.status} {refusal.error_type}"
            await self._send_refusal(stream, refusal, exchange)
        except StreamBrokenError:
            raise
        except Exception:  # noqa: BLE001 - one request must not end the server; the log has the traceback
            _log.exception("request %s failed inside the data plane", exchange.request_id)
            await self._send_internal_error(stream, exchange)

    async def _send_internal_error(self, stream: RequestStream, exchange: _Exchange) -> None:
        message = "The local data plane failed; its log holds the reason."
        if exchange.streaming:
            await stream.complete(encode_fault(internal_stream_failure(message)), self._settings.farewell_seconds)
        else:
            error_type = PLAIN_NAMES["InternalServerError"] if exchange.plain else "InternalServerError"
            await self._send_refusal(stream, RequestRefusedError(500, error_type, message), exchange)

    async def _dispatch(self, stream: RequestStream, exchange: _Exchange) -> None:
        request = signed_request(stream.headers)
        if not isinstance(stream, Http2Stream) and self._admin.owns(request):
            status, answer = self._admin.answer(request, await read_body(stream, LARGEST_BODY, self._settings))
            exchange.outcome = str(status)
            await self._send_json(stream, status, answer, exchange)
            return
        route = find_route(request)
        exchange.endpoint_name = route.endpoint_name
        if route.operation == BIDIRECTIONAL:
            if not isinstance(stream, Http2Stream):
                raise unknown_operation(request)
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
        async with AsyncExitStack() as held:
            triggers = held.enter_context(self._faults.stream(route.endpoint_name, exchange.request_id))
            faults = FaultInjection(triggers, stream, errors)
            await faults.before_headers()
            if not container.sidecar:
                await self._never_reach(container, route)
            websocket = await held.enter_async_context(self._sockets.open(container, target, errors))
            chain = EventChain(self._verifier, signature)
            relay = BidirectionalRelay(stream, websocket, chain, self._settings, faults)
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

    async def _never_reach(self, container: ServingContainer, route: Route) -> NoReturn:
        """Answer nothing until the client gives up, as SageMaker does when the variant's AMI has no sidecar."""
        _log.warning(
            "Variant %s of endpoint %s names no InferenceAmiVersion: its streams reach no container and hang",
            container.variant,
            route.endpoint_name,
        )
        await asyncio.sleep(self._settings.longest_stream_seconds)
        raise RequestRefusedError(503, "ServiceUnavailableError", "The stream reached no container.")

    async def _invoke_plain(
        self, stream: RequestStream, request: SignedRequest, route: Route, exchange: _Exchange
    ) -> None:
        exchange.plain = True
        body = await read_body(stream, self._settings.largest_plain_body, self._settings)
        self._verifier.verify_request(request, hashlib.sha256(body).hexdigest())
        container = find_container(request, route.endpoint_name, self._directory, self._identity, self._settings)
        errors = ModelErrors(route.endpoint_name, self._identity)
        common = [
            ("x-amzn-requestid", exchange.request_id),
            ("x-amzn-invoked-production-variant", container.variant),
        ]
        async with self._plain.invoke(container, request, body, errors) as answer:
            if route.operation == RESPONSE_STREAM:
                headers = [("content-type", CONTENT_TYPE), *answer.headers("x-amzn-sagemaker-content-type"), *common]
                stream.send_headers(200, headers)
                exchange.streaming = True
                fault = await self._plain.relay(answer, stream)
                exchange.outcome = "200" if fault is None else f"200 {fault.error_type}"
                return
            whole = await self._plain.read_whole(answer, errors)
            headers = [*answer.headers("content-type"), ("content-length", str(len(whole))), *common]
            stream.send_headers(200, headers)
            exchange.outcome = "200"
            await stream.complete(whole, self._settings.plain_invocation_seconds)

    async def _send_refusal(self, stream: RequestStream, refusal: RequestRefusedError, exchange: _Exchange) -> None:
        body = {"Message": refusal.message, **refusal.details}
        await self._send_json(stream, refusal.status, body, exchange, ("x-amzn-errortype", refusal.error_type))

    async def _send_json(
        self, stream: RequestStream, status: int, answer: object, exchange: _Exchange, *headers: tuple[str, str]
    ) -> None:
        body = json.dumps(answer).encode()
        stream.send_headers(
            status,
            [
                ("content-type", "application/json"),
                ("content-length", str(len(body))),
                ("x-amzn-requestid", exchange.request_id),
                *headers,
            ],
        )
        await stream.complete(body, self._settings.farewell_seconds)

    async def _await_request_end(self, stream: RequestStream) -> None:
        """Let the client finish its half; what it still sends is dropped."""
        try:
            async with asyncio.timeout(self._settings.request_end_seconds):
                while await stream.receive() is not None:
                    pass
        except TimeoutError:
            stream.reset(ErrorCodes.NO_ERROR)
        except StreamBrokenError:
            return  # a client may reset a stream whose response it has
