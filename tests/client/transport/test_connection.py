"""A shared connection: what a server does to it as a whole, and how its streams get along."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trustme
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import DataReceived, RequestReceived
from h2.settings import SettingCodes, Settings
from smithy_aws_event_stream.events import EventMessage

from voice_client.errors import ConnectError, ConnectionLostError, VoiceError
from voice_client.transport import Identity, StaticIdentity, StreamTarget, TransportSettings, VoiceTransport

type Behaviour = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def served(behave: Behaviour, folder: Path, **settings: float) -> AsyncIterator[VoiceTransport]:
    """Serve HTTP/2 over TLS in this process; gives a transport to it."""
    authority = trustme.CA()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.set_alpn_protocols(["h2"])
    authority.issue_cert("127.0.0.1").configure_cert(context)
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    handlers: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        handlers[task] = writer
        with contextlib.suppress(ConnectionError):
            await behave(reader, writer)
        writer.transport.abort()

    server = await asyncio.start_server(accept, "127.0.0.1", 0, ssl=context)
    url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    target = StreamTarget("ear", "us-east-1", url, folder / "ca.pem")
    identity = StaticIdentity(Identity("AKIAEXAMPLE", "secret"))
    try:
        async with VoiceTransport(target, settings=TransportSettings(**settings), identity=identity) as transport:  # type: ignore[arg-type]
            yield transport
    finally:
        server.close()
        for writer in handlers.values():
            writer.transport.abort()
        await asyncio.gather(*handlers)


def wire(**settings: int) -> H2Connection:
    """The server's side of a connection, with settings by their names."""
    connection = H2Connection(H2Configuration(client_side=False, header_encoding="utf-8"))
    values = {getattr(SettingCodes, name): value for name, value in settings.items()}
    connection.local_settings = Settings(client=False, initial_values=values)
    connection.initiate_connection()
    return connection


async def closes_at_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    del reader, writer


async def takes_no_stream(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(wire(MAX_CONCURRENT_STREAMS=0).data_to_send())
    while await reader.read(65536):
        pass


async def talks_nonsense(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"\r\n" * 10_000)
    while await reader.read(65536):
        pass


async def leaves_at_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    connection = wire()
    connection.close_connection(ErrorCodes.ENHANCE_YOUR_CALM)
    writer.write(connection.data_to_send())
    while await reader.read(65536):
        pass


@pytest.mark.parametrize(
    ("behave", "said"),
    [
        (closes_at_once, "the server closed it"),
        (takes_no_stream, "the server takes no stream"),
        (talks_nonsense, "broke the HTTP/2 protocol"),
        (leaves_at_once, "the server is leaving: ENHANCE_YOUR_CALM"),
    ],
)
async def test_a_server_that_takes_no_stream_is_not_tried_for_ever(
    behave: Behaviour, said: str, tmp_path: Path
) -> None:
    connections = 0

    async def counted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        await behave(reader, writer)

    async with served(counted, tmp_path) as transport, asyncio.timeout(20):
        with pytest.raises((ConnectError, ConnectionLostError), match=said):
            await transport.open_stream("echo")
    assert connections <= 2


@pytest.mark.parametrize(
    "last",
    [b"", b"\x17\x03\x03\x40\x00half of a record", b"\x17\x03\x03\x00\x20" + b"q" * 32, b"no record of TLS at all"],
)
async def test_a_tls_connection_that_ends_in_any_way_is_a_loss(last: bytes, tmp_path: Path) -> None:
    async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = wire()
        writer.write(connection.data_to_send())
        while data := await reader.read(65536):
            for event in connection.receive_data(data):
                match event:
                    case RequestReceived(stream_id=int() as stream):
                        connection.send_headers(stream, [(":status", "200")])
                    case DataReceived():
                        if last:
                            tcp = writer.transport._ssl_protocol._transport  # type: ignore[attr-defined]
                            tcp.write(last)
                            tcp.close()
                        else:
                            writer.close()  # close_notify, and no GOAWAY
            if not writer.is_closing():
                writer.write(connection.data_to_send())

    async with served(behave, tmp_path, close_seconds=0.5) as transport, asyncio.timeout(5):
        stream = await transport.open_stream("echo")
        await stream.send_text("end it")
        with pytest.raises(ConnectionLostError):
            await anext(stream)
        with pytest.raises(ConnectionLostError):
            await stream.send_text("x")


async def test_a_server_that_breaks_the_protocol_is_told_and_named(tmp_path: Path) -> None:
    async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = wire()
        writer.write(connection.data_to_send())
        while data := await reader.read(65536):
            for event in connection.receive_data(data):
                if isinstance(event, RequestReceived):
                    assert event.stream_id is not None
                    connection.send_headers(event.stream_id, [(":status", "200")])
                    # A frame longer than the client allows.
                    writer.write(connection.data_to_send() + bytes([0, 200, 0, 0, 0, 0, 0, 0, 1]) + bytes(51_200))
            writer.write(connection.data_to_send())

    async with served(behave, tmp_path) as transport, asyncio.timeout(5):
        with pytest.raises(ConnectionLostError, match="broke the HTTP/2 protocol"):
            async with await transport.open_stream("echo") as stream:
                await anext(stream)


async def test_a_busy_stream_leaves_its_siblings_their_share(tmp_path: Path) -> None:
    """The server takes 16 KiB of all streams together every 2 ms; one stream alone could use all of it."""
    received: dict[int, int] = {}
    enough = asyncio.Event()

    async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = wire(INITIAL_WINDOW_SIZE=10_000_000)  # of each stream; all together have the protocol's 64 KiB
        writer.write(connection.data_to_send())
        untaken: list[tuple[int, int]] = []

        async def take_slowly() -> None:
            while True:
                await asyncio.sleep(0.002)
                left = 16_384
                while untaken and left > 0:
                    stream, size = untaken.pop(0)
                    received[stream] = received.get(stream, 0) + size
                    if sum(received.values()) > 1_000_000:
                        enough.set()
                    connection.acknowledge_received_data(size, stream)
                    left -= size
                writer.write(connection.data_to_send())

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(take_slowly())
            while data := await reader.read(65536):
                for event in connection.receive_data(data):
                    match event:
                        case RequestReceived(stream_id=int() as stream):
                            connection.send_headers(stream, [(":status", "200")])
                        case DataReceived(stream_id=int() as stream, flow_controlled_length=int() as size):
                            untaken.append((stream, size))
                writer.write(connection.data_to_send())
            raise ConnectionError

    async with served(behave, tmp_path, close_seconds=0.2) as transport, asyncio.timeout(20):
        streams = [await transport.open_stream("sink") for _ in range(3)]

        async def pour(stream: int) -> None:
            with contextlib.suppress(VoiceError):
                while True:
                    await streams[stream].send_bytes(bytes(64_000 if stream == 0 else 3_000))

        pouring = [asyncio.create_task(pour(number)) for number in range(3)]
        await enough.wait()
        for task in pouring:
            task.cancel()
        await asyncio.gather(*pouring, return_exceptions=True)
    shares = sorted(received.values())
    assert len(shares) == 3
    assert shares[0] > 150_000, shares  # of a million: without turns the first stream takes most of it


async def test_a_stream_goes_on_while_its_server_is_leaving(tmp_path: Path) -> None:
    """After a GOAWAY that names it, a stream works in both directions to its end; the next one has a new connection."""
    connections = 0

    async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        first = connections == 1
        connection = wire()
        writer.write(connection.data_to_send())
        while data := await reader.read(65536):
            for event in connection.receive_data(data):
                match event:
                    case RequestReceived(stream_id=int() as stream):
                        connection.send_headers(stream, [(":status", "200")])
                        if first:  # h2 would say nothing more after a GOAWAY of its own
                            writer.write(connection.data_to_send() + b"\0\0\x08\7\0\0\0\0\0\0\0\0\1\0\0\0\0")
                    case DataReceived(stream_id=int() as stream, stream_ended=None):
                        headers = {":message-type": "event", ":event-type": "PayloadPart", "DataType": "UTF8"}
                        connection.send_data(stream, EventMessage(headers=headers, payload=b"heard").encode())
                    case DataReceived(stream_id=int() as stream):
                        connection.end_stream(stream)
            writer.write(connection.data_to_send())

    async with (
        asyncio.timeout(10),
        served(behave, tmp_path) as transport,
        await transport.open_stream("echo") as stream,
    ):
        for _ in range(3):
            await stream.send_text("still here")
            assert await anext(stream) == "heard"
        async with await transport.open_stream("echo") as another:
            await another.send_text("elsewhere")
            assert await anext(another) == "heard"
        assert connections == 2
        await stream.send_text("and still")
        assert await anext(stream) == "heard"
