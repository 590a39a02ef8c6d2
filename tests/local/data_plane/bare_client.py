"""A bare HTTP/2 client with its own signing: sees every frame, and can send anything, right or wrong.

It shares nothing with the server but the specification: frames are built with struct, signatures with hmac.
"""

import asyncio
import contextlib
import hashlib
import hmac
import json
import ssl
import struct
import zlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

import h2.config
import h2.connection
import h2.events
from h2.settings import SettingCodes, Settings

DEADLINE = 10.0
"""Seconds that any one wait of a test may take."""

GOAWAY_FRAME = 7

STREAMING = "STREAMING-AWS4-HMAC-SHA256-EVENTS"


def string_header(name: str, value: str) -> bytes:
    return bytes([len(name)]) + name.encode() + b"\x07" + struct.pack("!H", len(value)) + value.encode()


def bytes_header(name: str, value: bytes) -> bytes:
    return bytes([len(name)]) + name.encode() + b"\x06" + struct.pack("!H", len(value)) + value


def date_header(moment: datetime) -> bytes:
    # Cut, not rounded: the signature names the second that this header falls in.
    return b"\x05:date\x08" + struct.pack("!q", int(moment.timestamp() * 1000))


def frame(headers: bytes, payload: bytes) -> bytes:
    lengths = struct.pack("!II", 16 + len(headers) + len(payload), len(headers))
    body = lengths + struct.pack("!I", zlib.crc32(lengths)) + headers + payload
    return body + struct.pack("!I", zlib.crc32(body))


def payload_part(payload: bytes, **headers: str) -> bytes:
    """Make the inner frame of a PayloadPart."""
    names = {":event-type": "PayloadPart", ":message-type": "event", ":content-type": "application/octet-stream"}
    return frame(b"".join(string_header(name, value) for name, value in {**names, **headers}.items()), payload)


@dataclass
class Event:
    """One response frame; string headers only."""

    headers: dict[str, str]
    payload: bytes
    sound: bool = True
    """Whether the checksum of the whole frame is right."""

    def json(self) -> Any:
        return json.loads(self.payload)


def cut_events(buffer: bytearray) -> list[Event]:
    """Take every whole frame off the front of a buffer."""
    events = []
    while len(buffer) >= 12:
        total, headers_length, prelude_crc = struct.unpack_from("!III", buffer)
        assert zlib.crc32(bytes(buffer[:8])) == prelude_crc
        if len(buffer) < total:
            break
        raw = bytes(buffer[:total])
        del buffer[:total]
        headers: dict[str, str] = {}
        position, end = 12, 12 + headers_length
        while position < end:
            length = raw[position]
            name = raw[position + 1 : position + 1 + length].decode()
            position += 1 + length
            assert raw[position] == 7, "only string headers are expected in responses"
            (size,) = struct.unpack_from("!H", raw, position + 1)
            headers[name] = raw[position + 3 : position + 3 + size].decode()
            position += 3 + size
        events.append(Event(headers, raw[end:-4], zlib.crc32(raw[:-4]) == struct.unpack("!I", raw[-4:])[0]))
    return events


@lru_cache
def signing_key(secret_key: str, *scope: str) -> bytes:
    key = b"AWS4" + secret_key.encode()
    for part in (*scope, "aws4_request"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return key


@dataclass
class Signer:
    """SigV4 of a request, and of the events that follow it."""

    access_key: str
    secret_key: str
    region: str = "us-east-1"
    service: str = "sagemaker"
    previous: str = ""

    def key(self, day: str) -> bytes:
        return signing_key(self.secret_key, day, self.region, self.service)

    def sign_request(
        self, method: str, path: str, headers: dict[str, str], payload_hash: str, moment: datetime | None = None
    ) -> dict[str, str]:
        """Return the headers with `x-amz-date`, `x-amz-content-sha256` and `authorization` added."""
        stamp = (moment or datetime.now(UTC)).strftime("%Y%m%dT%H%M%SZ")
        signed = {**headers, "x-amz-date": stamp, "x-amz-content-sha256": payload_hash}
        names = sorted(signed)
        canonical = "\n".join(
            [method, path, "", *(f"{name}:{signed[name].strip()}" for name in names), "", ";".join(names), payload_hash]
        )
        scope = f"{stamp[:8]}/{self.region}/{self.service}/aws4_request"
        text = "\n".join(["AWS4-HMAC-SHA256", stamp, scope, hashlib.sha256(canonical.encode()).hexdigest()])
        self.previous = hmac.new(self.key(stamp[:8]), text.encode(), hashlib.sha256).hexdigest()
        authorization = (
            f"AWS4-HMAC-SHA256 Credential={self.access_key}/{scope}, "
            f"SignedHeaders={';'.join(names)}, Signature={self.previous}"
        )
        return {**signed, "authorization": authorization}

    def sign_event(self, inner: bytes, moment: datetime | None = None) -> bytes:
        """Wrap an inner frame (or nothing, for the end) into a signed frame and go on in the chain."""
        moment = moment or datetime.now(UTC)
        date = date_header(moment)
        stamp = moment.strftime("%Y%m%dT%H%M%SZ")
        text = "\n".join(
            [
                "AWS4-HMAC-SHA256-PAYLOAD",
                stamp,
                f"{stamp[:8]}/{self.region}/{self.service}/aws4_request",
                self.previous,
                hashlib.sha256(date).hexdigest(),
                hashlib.sha256(inner).hexdigest(),
            ]
        )
        signature = hmac.new(self.key(stamp[:8]), text.encode(), hashlib.sha256).digest()
        self.previous = signature.hex()
        return frame(date + bytes_header(":chunk-signature", signature), inner)


@dataclass
class BareStream:
    """One request, with everything that came back."""

    connection: "BareConnection"
    stream_id: int
    signer: Signer
    status: int | None = None
    headers: dict[str, str] = field(default_factory=dict)
    body: bytearray = field(default_factory=bytearray)
    events: list[Event] = field(default_factory=list)
    corrupt: int = 0
    """Frames with a wrong checksum; they are not among the events."""
    ended: bool = False
    reset: int | None = None
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    async def send(self, payload: bytes, **headers: str) -> None:
        await self.send_raw(self.signer.sign_event(payload_part(payload, **headers)))

    async def send_raw(self, data: bytes, *, end: bool = False) -> None:
        await self.connection.send_data(self.stream_id, data, end=end)

    async def end_input(self) -> None:
        await self.send_raw(self.signer.sign_event(b""), end=True)

    async def wait(self, condition: Any, seconds: float | None = None) -> None:
        async with asyncio.timeout(seconds or self.connection.deadline):
            while not condition():
                self.changed.clear()
                await self.changed.wait()

    async def response(self) -> int:
        await self.wait(lambda: self.status is not None or self.reset is not None)
        assert self.status is not None, f"reset with code {self.reset} before response headers"
        return self.status

    async def next_event(self, seconds: float | None = None) -> Event:
        await self.wait(lambda: self.events or self.ended or self.reset is not None, seconds)
        assert self.events, f"no event: ended={self.ended} reset={self.reset}"
        return self.events.pop(0)

    async def end(self) -> None:
        await self.wait(lambda: self.ended or self.reset is not None)
        assert self.ended, f"reset with code {self.reset}"

    async def error(self) -> tuple[int, str, dict[str, Any]]:
        """Return status, error type and body of an HTTP error."""
        status = await self.response()
        await self.end()
        return status, self.headers["x-amzn-errortype"], json.loads(self.body)


class BareConnection:
    """One TLS socket that speaks HTTP/2."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, authority: str, signer: Signer
    ) -> None:
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True, header_encoding="utf-8"))
        self.reader, self.writer, self.authority, self.signer = reader, writer, authority, signer
        self.streams: dict[int, BareStream] = {}
        self.closed = asyncio.Event()
        self.goaway: int | None = None
        self.last_stream_id: int | None = None
        self.loss: BaseException | None = None
        """What ended the socket, None when it was closed in order."""
        self.pongs = 0
        self._partial = bytearray()
        self.deadline = DEADLINE
        """Seconds that any one wait may take."""
        self.acknowledging = True
        """Whether flow-control windows are opened again as data arrives."""
        self.windows = asyncio.Event()
        self.pump = asyncio.create_task(self._pump())

    async def open(self, endpoint: str, *, signer: Signer | None = None, **options: Any) -> BareStream:
        """Open a bidirectional stream; `headers` adds request headers, `path` and `moment` override."""
        signer = signer or Signer(self.signer.access_key, self.signer.secret_key, self.signer.region)
        path = options.get("path", f"/endpoints/{endpoint}/invocations-bidirectional-stream")
        headers = {"host": self.authority, "content-type": "application/vnd.amazon.eventstream"}
        headers |= options.get("headers", {})
        signed = signer.sign_request(
            "POST", path, headers, options.get("payload_hash", STREAMING), options.get("moment")
        )
        signed |= options.get("tampered", {})
        return self.request("POST", path, signed, signer, end=options.get("end", False))

    def request(self, method: str, path: str, headers: dict[str, str], signer: Signer, *, end: bool) -> BareStream:
        stream_id = self.h2.get_next_available_stream_id()
        stream = self.streams[stream_id] = BareStream(self, stream_id, signer)
        pseudo = [(":method", method), (":scheme", "https"), (":authority", self.authority), (":path", path)]
        rest = [(name, value) for name, value in headers.items() if name != "host"]
        self.h2.send_headers(stream_id, pseudo + rest, end_stream=end)
        self.flush()
        return stream

    async def send_data(self, stream_id: int, data: bytes, *, end: bool) -> None:
        rest = data
        async with asyncio.timeout(self.deadline):
            while rest:
                window = min(self.h2.local_flow_control_window(stream_id), self.h2.max_outbound_frame_size)
                if window == 0:
                    self.windows.clear()
                    await self.windows.wait()
                    continue
                self.h2.send_data(stream_id, rest[:window])
                rest = rest[window:]
                self.flush()
            if end:
                self.h2.end_stream(stream_id)
                self.flush()
            await self.writer.drain()

    def reset(self, stream: BareStream, code: int = 8) -> None:
        self.h2.reset_stream(stream.stream_id, code)
        self.flush()

    def flush(self) -> None:
        if data := self.h2.data_to_send():
            self.writer.write(data)

    async def _pump(self) -> None:
        try:
            while data := await self.reader.read(65536):
                for event in self.h2.receive_data(self._without_goaway(data)):
                    self._on_event(event)
                self.flush()
        except (ConnectionError, ssl.SSLError) as error:
            self.loss = error
        self.closed.set()
        for stream in self.streams.values():
            stream.changed.set()

    def _without_goaway(self, data: bytes) -> bytes:
        """Read GOAWAY here: h2 takes the connection for closed after it, RFC 9113 lets open streams go on."""
        self._partial += data
        kept = bytearray()
        while len(self._partial) >= 9 and len(self._partial) >= (size := 9 + int.from_bytes(self._partial[:3])):
            frame_bytes = bytes(self._partial[:size])
            del self._partial[:size]
            if frame_bytes[3] == GOAWAY_FRAME:
                self.last_stream_id, self.goaway = struct.unpack_from("!II", frame_bytes, 9)
                for stream in self.streams.values():
                    stream.changed.set()
            else:
                kept += frame_bytes
        return bytes(kept)

    def _on_event(self, event: h2.events.Event) -> None:
        if isinstance(event, h2.events.PingAckReceived):
            self.pongs += 1
        if isinstance(event, h2.events.WindowUpdated | h2.events.RemoteSettingsChanged):
            self.windows.set()
        stream = self.streams.get(getattr(event, "stream_id", 0) or 0)
        if stream is None:
            return
        match event:
            case h2.events.ResponseReceived():
                stream.headers = {str(name): str(value) for name, value in event.headers or []}
                stream.status = int(stream.headers[":status"])
            case h2.events.DataReceived():
                stream.body += event.data or b""
                if stream.headers.get("content-type") == "application/vnd.amazon.eventstream":
                    events = cut_events(stream.body)
                    stream.events += [event for event in events if event.sound]
                    stream.corrupt += sum(not event.sound for event in events)
                if self.acknowledging and event.flow_controlled_length:
                    self.h2.acknowledge_received_data(event.flow_controlled_length, stream.stream_id)
            case h2.events.StreamEnded():
                stream.ended = True
            case h2.events.StreamReset():
                stream.reset = int(event.error_code or 0)
        stream.changed.set()


@contextlib.asynccontextmanager
async def bare_connection(
    url: str, ca_bundle: Path, signer: Signer, *, window: int | None = None
) -> AsyncIterator[BareConnection]:
    authority = url.removeprefix("https://")
    host, _, port = authority.rpartition(":")
    context = ssl.create_default_context(cafile=str(ca_bundle))
    context.set_alpn_protocols(["h2"])
    async with asyncio.timeout(DEADLINE):
        reader, writer = await asyncio.open_connection(host, int(port), ssl=context)
    connection = BareConnection(reader, writer, authority, signer)
    if window is not None:
        connection.h2.local_settings = Settings(
            client=True, initial_values={SettingCodes.INITIAL_WINDOW_SIZE: window, SettingCodes.ENABLE_PUSH: 0}
        )
    connection.h2.initiate_connection()
    connection.flush()
    try:
        yield connection
    finally:
        writer.transport.abort()
        connection.pump.cancel()
        await asyncio.gather(connection.pump, return_exceptions=True)
