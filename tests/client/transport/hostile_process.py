"""An HTTP/2 server that does on the wire what a platform should not, chosen by the invocation path. Prints its port.

Argument: where to write the certificate of its authority.
"""

import asyncio
import contextlib
import json
import re
import ssl
import sys
from typing import Any

import trustme
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import DataReceived, RequestReceived
from smithy_aws_event_stream.events import EventMessage

PATH = b"x-amzn-sagemaker-model-invocation-path"


def frame(payload: bytes, **headers: Any) -> bytes:
    """An event-stream frame; `_` in a header's name stands for `-`, a leading one for `:`."""
    named = {re.sub("^_", ":", name).replace("_", "-"): value for name, value in headers.items()}
    return EventMessage(headers=named, payload=payload).encode()


def part(payload: bytes, **headers: Any) -> bytes:
    return frame(payload, _message_type="event", _event_type="PayloadPart", **headers)


def error(status: int, error_type: str, message: str = "because") -> tuple[list[tuple[str, str]], bytes]:
    body = json.dumps({"Message": message}).encode()
    return [(":status", str(status)), ("x-amzn-errortype", error_type), ("x-amzn-requestid", "r-1")], body


ANSWERS: dict[str, tuple[list[tuple[str, str]], bytes]] = {
    "429": error(429, "ThrottlingException:http://internal.amazon.com/coral/"),
    "500": error(500, "InternalServerError"),
    "503": error(503, "ServiceUnavailableError"),
    "expired": error(403, "com.amazon.coral.service#ExpiredTokenException"),
    "denied": error(403, "AccessDeniedException"),
    "bad": error(400, "InputValidationError"),
    "proxy": ([(":status", "502"), ("content-type", "text/html")], b"<html>\xff nothing to see"),
    "elsewhere": error(404, "UnknownOperationException"),
    "teapot": ([(":status", "418")], b""),
}

EVENTS = {
    "partial": part(b"one ", DataType="UTF8", CompletionState="PARTIAL")
    + part(b"message", DataType="UTF8", CompletionState="COMPLETE")
    + part(b"bytes"),
    "unknown-event": frame(b"{}", _message_type="event", _event_type="SomethingNew") + part(b"after", DataType="UTF8"),
    "model-error": frame(
        b'{"Message": "out of memory", "ErrorCode": "StreamBroken"}',
        _message_type="exception",
        _exception_type="ModelStreamError",
        _content_type="application/json",
    ),
    "internal-failure": frame(
        b'{"Message": "oops"}',
        _message_type="exception",
        _exception_type="InternalStreamFailure",
        _content_type="application/json",
    ),
    "unknown-exception": frame(b"{}", _message_type="exception", _exception_type="BrandNewFailure"),
    "throttled": frame(b"{}", _message_type="exception", _exception_type="ThrottlingException"),
    "bad-event": frame(b"", _message_type="error", _error_code="InputValidationError", _error_message="too odd"),
    "bad-signature": frame(b"", _message_type="error", _error_code="InvalidSignatureException", _error_message="no"),
    "not-utf8": part(b"\xff\xfe", DataType="UTF8"),
    "garbage": b"this is no event stream, not at all, and long enough to be noticed",
    "half-a-frame": part(b"x" * 1000)[:500],
    "half-a-message": part(b"x", CompletionState="PARTIAL"),
    "too-long": part(b"x" * 3000),
}
EVENTS["words-then-error"] = part(b"some", DataType="UTF8") + part(b"words", DataType="UTF8") + EVENTS["model-error"]


async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    wire = H2Connection(H2Configuration(client_side=False))
    wire.initiate_connection()
    writer.write(wire.data_to_send())
    while data := await reader.read(65536):
        for event in wire.receive_data(data):
            match event:
                case RequestReceived():
                    assert event.headers is not None
                    assert event.stream_id is not None
                    path = dict(event.headers).get(PATH, b"").decode()
                    misbehave(wire, event.stream_id, path)
                case DataReceived():
                    assert event.flow_controlled_length is not None
                    assert event.stream_id is not None
                    wire.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        writer.write(wire.data_to_send())
        await writer.drain()


def misbehave(wire: H2Connection, stream: int, path: str) -> None:
    if path in ANSWERS:
        headers, body = ANSWERS[path]
        wire.send_headers(stream, headers, end_stream=not body)
        if body:
            wire.send_data(stream, body, end_stream=path != "429")  # one of them never ends its body
    elif path == "reset-before-headers":
        wire.reset_stream(stream, ErrorCodes.REFUSED_STREAM)
    elif path == "goaway-before-headers":
        wire.close_connection(ErrorCodes.NO_ERROR, last_stream_id=0)
    elif path == "leaving":  # a graceful GOAWAY: this stream goes on, later ones do not
        wire.send_headers(stream, [(":status", "200")])
        wire.send_data(stream, part(b"leaving", DataType="UTF8"))
        wire.close_connection(ErrorCodes.NO_ERROR, last_stream_id=stream)
    elif path in EVENTS:
        wire.send_headers(stream, [(":status", "200"), ("x-amzn-requestid", "r-2")])
        wire.send_data(stream, EVENTS[path], end_stream=True)
    elif path.startswith(("reset-after", "goaway-after")):
        wire.send_headers(stream, [(":status", "200"), ("x-amzn-requestid", "r-2")])
        wire.send_data(stream, part(b"before", DataType="UTF8"))
        if path.startswith("reset"):
            code = ErrorCodes.NO_ERROR if path.endswith("no-error") else ErrorCodes.INTERNAL_ERROR
            wire.reset_stream(stream, code)
        else:
            wire.close_connection(ErrorCodes.NO_ERROR, last_stream_id=0)


async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        await converse(reader, writer)
    writer.transport.abort()


async def main() -> None:
    authority = trustme.CA()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.set_alpn_protocols(["h2"])
    authority.issue_cert("127.0.0.1").configure_cert(context)
    authority.cert_pem.write_to_path(sys.argv[1])
    async with await asyncio.start_server(accept, "127.0.0.1", 0, ssl=context) as server:
        sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
        sys.stdout.flush()
        await server.serve_forever()


asyncio.run(main())
