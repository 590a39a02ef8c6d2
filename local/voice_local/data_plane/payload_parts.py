"""Payload parts of the event stream <-> messages of the container's WebSocket.

Request: `DataType` UTF8 makes a text frame, BINARY or none a binary one; `CompletionState` PARTIAL holds a part back
until a COMPLETE one (or one without the header) ends the run; `P` is padding and dropped. Response: one message makes
one part, with both headers filled in.
"""

import json

from voice_local.data_plane.errors import StreamFaultError, invalid_input_event
from voice_local.data_plane.event_stream import Frame, encode_frame, encode_headers

type Message = str | bytes
"""A WebSocket message: `str` for a text frame, `bytes` for a binary one."""

_JSON_HEADER = (":content-type", "application/json")
_PART = (
    (":event-type", "PayloadPart"),
    (":content-type", "application/octet-stream"),
    (":message-type", "event"),
)
_RESPONSE_PART_HEADERS = encode_headers(_PART)
_PART_HEADERS = {
    data_type: encode_headers((*_PART, ("DataType", data_type), ("CompletionState", "COMPLETE")))
    for data_type in ("UTF8", "BINARY")
}


class PartJoiner:
    """Turns the parts of one stream into messages."""

    def __init__(self, largest_message: int) -> None:
        self._largest = largest_message
        self._run: list[bytes] = []
        self._size = 0
        self._data_type: str | None = None

    @property
    def pending(self) -> bool:
        """Whether a run of PARTIAL parts waits for its COMPLETE one."""
        return self._data_type is not None

    def add(self, event: Frame) -> Message | None:
        """Take one event; return the message it completes, None after a PARTIAL part.

        Raises:
            StreamFaultError: the event is no payload part, a header has a value it cannot have, the parts of one run
                differ in their data type, text is not UTF-8, or the message is longer than the limit.
        """
        data_type, completion = _read_headers(event)
        if self._data_type is not None and data_type != self._data_type:
            raise invalid_input_event(f"A message that began as {self._data_type} goes on as {data_type}.")
        self._size += len(event.payload)
        if self._size > self._largest:
            raise invalid_input_event(f"A message has more than {self._largest} bytes.")
        self._run.append(event.payload)
        self._data_type = data_type
        if completion == "PARTIAL":
            return None
        message = self._run[0] if len(self._run) == 1 else b"".join(self._run)
        self._run, self._size, self._data_type = [], 0, None
        if data_type == "BINARY":
            return message
        try:
            return message.decode()
        except UnicodeDecodeError:
            # The decoding error is not chained: it holds the text itself.
            raise invalid_input_event("A part of DataType UTF8 is not UTF-8.") from None


def encode_message(message: Message) -> bytes:
    """Put one message of the container into one signed-by-nobody response frame, as AWS sends them."""
    if isinstance(message, str):
        return encode_frame(_PART_HEADERS["UTF8"], message.encode())
    return encode_frame(_PART_HEADERS["BINARY"], message)


def encode_response_part(piece: bytes) -> bytes:
    """Put a piece of a plain answer into one frame of InvokeEndpointWithResponseStream; its parts have no headers."""
    return encode_frame(_RESPONSE_PART_HEADERS, piece)


def encode_fault(fault: StreamFaultError) -> bytes:
    """Encode the event that ends a stream with an error."""
    if not fault.modeled:
        return encode_frame(
            encode_headers(
                ((":message-type", "error"), (":error-code", fault.error_type), (":error-message", fault.message))
            ),
            b"",
        )
    body = {"Message": fault.message}
    if fault.error_code is not None:
        body["ErrorCode"] = fault.error_code
    headers = ((":exception-type", fault.error_type), _JSON_HEADER, (":message-type", "exception"))
    return encode_frame(encode_headers(headers), json.dumps(body).encode())


def _read_headers(event: Frame) -> tuple[str, str]:
    kind = (event.value(":message-type"), event.value(":event-type"))
    data_type = event.value("DataType")
    completion = event.value("CompletionState")
    problems = []
    if kind != ("event", "PayloadPart"):
        problems.append("the event is not a PayloadPart")
    if data_type not in (None, "UTF8", "BINARY"):
        problems.append("DataType must be UTF8 or BINARY")
    if completion not in (None, "PARTIAL", "COMPLETE"):
        problems.append("CompletionState must be PARTIAL or COMPLETE")
    if problems:
        raise invalid_input_event(f"Invalid request event: {'; '.join(problems)}.")
    return ("UTF8" if data_type == "UTF8" else "BINARY"), ("PARTIAL" if completion == "PARTIAL" else "COMPLETE")
