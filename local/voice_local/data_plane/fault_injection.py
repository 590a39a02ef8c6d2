"""Makes the faults of one stream happen on the wire, at the moment the plan says."""

import asyncio
import json
import logging
from typing import NoReturn

from voice_local.data_plane.errors import (
    RequestRefusedError,
    StreamBrokenError,
    StreamFaultError,
    internal_stream_failure,
    model_stream_error,
)
from voice_local.data_plane.event_stream import encode_frame, encode_headers
from voice_local.data_plane.fault_plan import StreamTriggers
from voice_local.data_plane.faults import ENDINGS_OF_CONNECTION, Direction, Fault, FaultKind, Scope
from voice_local.data_plane.http2 import Http2Stream
from voice_local.data_plane.model_errors import ModelErrors
from voice_local.data_plane.payload_parts import encode_message

_log = logging.getLogger("voice_local.data_plane.faults")

UNKNOWN_TYPE = "SomethingNew"
"""Type of an unknown event or exception, unless the fault names one."""

_REFUSALS = {
    400: ("ValidationError", "The request is not valid."),
    403: (
        "AccessDeniedException",
        "User: {user} is not authorized to perform: sagemaker:InvokeEndpointWithBidirectionalStream on resource: "
        "{endpoint} because no identity-based policy allows the sagemaker:InvokeEndpointWithBidirectionalStream action",
    ),
    429: ("ThrottlingException", "Rate exceeded"),
    500: ("InternalServerError", "The service is not able to answer for the moment."),
    503: ("ServiceUnavailableError", "The service is unable to handle the request for the moment."),
}
"""Error type and words of each status; the types are SageMaker's, the words partly ours."""

_REFUSING_CONTAINER = (500, "a fault was asked for")
"""What the container of a refused stream (424) is said to have answered."""


class FaultInjection:
    """The faults of one stream."""

    def __init__(self, triggers: StreamTriggers, stream: Http2Stream, errors: ModelErrors) -> None:
        self._triggers = triggers
        self._stream = stream
        self._errors = errors
        self._delay = dict.fromkeys(Direction, 0.0)
        self._stalled_until = dict.fromkeys(Direction, 0.0)

    async def before_headers(self) -> None:
        """Let happen what is due before anything is answered.

        Raises:
            RequestRefusedError: the stream is to be refused.
            StreamBrokenError: the stream or its connection was ended.
        """
        await self._perform_due()

    async def headers_sent(self) -> None:
        """Let happen what is due before the first message.

        Raises:
            StreamFaultError: the stream is to end with an error.
            StreamBrokenError: the stream or its connection was ended.
        """
        self._triggers.headers_sent()
        await self._perform_due()

    async def watch(self) -> None:
        """Let happen what is due by the clock, or at once because it was armed late; runs until it is cancelled.

        Raises:
            StreamFaultError: the stream is to end with an error.
            StreamBrokenError: the stream or its connection was ended.
        """
        while True:
            self._triggers.changed.clear()
            await self._perform_due()
            try:
                async with asyncio.timeout(self._triggers.seconds_to_next()):
                    await self._triggers.changed.wait()
            except TimeoutError:
                continue

    async def hold(self, direction: Direction) -> None:
        """Wait as long as the next message of a direction is to be held back."""
        if pause := self._delay[direction]:
            await asyncio.sleep(pause)
        if until := self._stalled_until[direction]:
            await asyncio.sleep(max(0.0, until - asyncio.get_running_loop().time()))

    async def passed(self, direction: Direction) -> None:
        """Count a message, and let happen what is due after it.

        Raises:
            StreamFaultError: the stream is to end with an error.
            StreamBrokenError: the stream or its connection was ended.
        """
        self._triggers.passed[direction] += 1
        if self._triggers:
            await self._perform_due()

    async def _perform_due(self) -> None:
        for fault in self._triggers.claim_due():
            await self._perform(fault)

    async def _perform(self, fault: Fault) -> None:
        _log.info("fault %s happens", fault.kind)
        match fault.kind:
            case FaultKind.REFUSE:
                raise self._refusal(fault)
            case FaultKind.SLOW_HEADERS:
                await asyncio.sleep(fault.seconds or 0.0)
            case FaultKind.DELAY:
                self._delay[fault.counted_direction] = fault.seconds or 0.0
            case FaultKind.STALL:
                until = asyncio.get_running_loop().time() + (fault.seconds or 0.0)
                self._stalled_until[fault.counted_direction] = until
            case FaultKind.STOP_READING:
                (self._stream.connection if fault.scope is Scope.CONNECTION else self._stream).stop_reading()
            case FaultKind.STOP_WRITING:
                (self._stream.connection if fault.scope is Scope.CONNECTION else self._stream).stop_writing()
            case FaultKind.GO_AWAY:
                self._stream.connection.announce_end()
            case FaultKind.UNKNOWN_EVENT | FaultKind.CORRUPT_FRAME:
                await self._stream.send(_odd_frame(fault))
            case FaultKind.RESET_STREAM:
                self._stream.reset(fault.http2_code)
                raise StreamBrokenError(f"a fault reset the stream ({fault.http2_code.name})")
            case kind if kind in ENDINGS_OF_CONNECTION:
                self._end_connection(fault)
            case _:
                raise _final_event(fault)

    def _end_connection(self, fault: Fault) -> NoReturn:
        connection = self._stream.connection
        match fault.kind:
            case FaultKind.KILL_CONNECTION:
                connection.kill()
            case FaultKind.CLOSE_CONNECTION:
                connection.close()
            case _:
                connection.go_away(fault.http2_code)
        raise StreamBrokenError(f"a fault ended the connection ({fault.kind})")

    def _refusal(self, fault: Fault) -> RequestRefusedError:
        status = fault.status or 503
        if status == 424:
            refusal = self._errors.refused(*_REFUSING_CONTAINER)
        else:
            error_type, words = _REFUSALS[status]
            identity, endpoint_name = self._errors.identity, self._errors.endpoint_name
            scope = f"{identity.region}:{identity.account_id}"
            user = f"arn:aws:iam::{identity.account_id}:user/local"
            endpoint = f"arn:aws:sagemaker:{scope}:endpoint/{endpoint_name}"
            refusal = RequestRefusedError(status, error_type, words.format(user=user, endpoint=endpoint))
        refusal.error_type = fault.error_type or refusal.error_type
        refusal.message = fault.message or refusal.message
        return refusal


def _final_event(fault: Fault) -> StreamFaultError:
    words = fault.message or f"The fault {fault.kind} was asked for."
    match fault.kind:
        case FaultKind.MODEL_STREAM_ERROR:
            return model_stream_error(words, fault.error_code or "StreamBroken")
        case FaultKind.INTERNAL_STREAM_FAILURE:
            return internal_stream_failure(words)
        case _:
            return StreamFaultError(fault.error_type or f"{UNKNOWN_TYPE}Exception", words)


def _odd_frame(fault: Fault) -> bytes:
    if fault.kind is FaultKind.CORRUPT_FRAME:
        sound = encode_message(b"this message has a wrong checksum")
        return sound[:-1] + bytes([sound[-1] ^ 0xFF])
    names = (
        (":event-type", fault.error_type or f"{UNKNOWN_TYPE}Event"),
        (":content-type", "application/json"),
        (":message-type", "event"),
    )
    return encode_frame(encode_headers(names), json.dumps({"Message": "An event of a later release."}).encode())
