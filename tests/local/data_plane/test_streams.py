"""Many streams, flow control both ways, clients that vanish, and the end of the data plane itself."""

import asyncio
import logging
import socket
import ssl
from pathlib import Path
from typing import Any

import pytest

from voice_local.data_plane import DataPlane, DataPlaneError, DataPlaneSettings, TlsMaterial, TlsMaterialError
from voice_local.data_plane.settings import MIB
from voice_local.identity import LocalIdentity

from .bare_client import DEADLINE
from .conftest import Directory, MakeSite, Site
from .waiting import until

PATH = "x-amzn-sagemaker-model-invocation-path"


async def opened(connection: Any, site: Site, path: str = "") -> Any:
    stream = await connection.open(site.endpoint, headers={PATH: path} if path else {})
    assert await stream.response() == 200
    return stream


# Flow control


async def test_a_container_that_does_not_read_stops_its_client_and_no_other(make_site: MakeSite) -> None:
    async with make_site(receive_window=256 * 1024) as site, site.connect() as connection:
        blocked = await opened(connection, site, "no-read")
        sibling = await opened(connection, site)
        sent = 0

        async def push() -> None:
            nonlocal sent
            for _ in range(400):
                await blocked.send(bytes(64 * 1024))
                sent += 1

        pushing = asyncio.create_task(push())
        # Sending goes on until every buffer on the way is full, then stands still.
        before = -1
        while before != sent:
            before = sent
            await asyncio.sleep(0.3)
        assert 4 <= sent < 400, "the client was never held back"
        await sibling.send(b"unharmed")
        assert (await sibling.next_event()).payload == b"unharmed"

        site.container.reading.set()
        await asyncio.wait_for(pushing, 2 * DEADLINE)
        await until(lambda: len(site.container.received) == 401)


async def test_a_client_that_does_not_read_holds_only_its_own_stream(make_site: MakeSite) -> None:
    """The client's windows are respected: no byte is sent beyond them, and siblings with room go on."""
    window = 100_000
    async with make_site() as site, site.connect(window=window) as connection:
        connection.acknowledging = False
        flooded = await opened(connection, site, "flood/3")
        # The connection's own window is 65,535 bytes, below the stream's.
        await until(lambda: len(flooded.body) >= 65_000)
        await asyncio.sleep(0.2)
        assert len(flooded.body) <= 65_535
        # Room for the sibling only: the connection's window opens, the flooded stream's stays shut.
        connection.h2.increment_flow_control_window(1_000_000)
        connection.flush()
        await until(lambda: len(flooded.body) == window)
        sibling = await opened(connection, site)
        await sibling.send(b"unharmed")
        assert (await sibling.next_event()).payload == b"unharmed"
        assert len(flooded.body) == window

        connection.acknowledging = True
        connection.h2.increment_flow_control_window(4 * MIB, flooded.stream_id)
        connection.h2.increment_flow_control_window(4 * MIB)
        connection.flush()
        await flooded.end()
        assert [len(event.payload) for event in flooded.events] == [MIB] * 3


async def test_a_message_larger_than_every_window(make_site: MakeSite) -> None:
    async with make_site(receive_window=65_535) as site, site.connect(window=70_000) as connection:
        stream = await opened(connection, site)
        message = bytes(range(256)) * 8192
        await stream.send(message)
        assert (await stream.next_event()).payload == message


async def test_a_client_that_never_reads_the_last_words_is_reset(make_site: MakeSite) -> None:
    async with make_site(longest_stream_seconds=0.3, farewell_seconds=0.2) as site, site.connect() as connection:
        connection.acknowledging = False
        stream = await opened(connection, site, "flood/1")
        await stream.wait(lambda: stream.reset is not None)
        assert stream.reset == 8


async def test_a_fault_never_cuts_a_message_that_is_under_way(make_site: MakeSite) -> None:
    """The stream's time is up while half a message waits for the client's window: the rest comes before the error."""
    async with make_site(longest_stream_seconds=0.3, farewell_seconds=5.0) as site, site.connect() as connection:
        connection.acknowledging = False
        stream = await opened(connection, site, "flood/1")
        await asyncio.sleep(0.6)
        assert (len(stream.body), stream.events) == (65_535, [])
        connection.acknowledging = True
        for stream_id in (None, stream.stream_id):
            connection.h2.increment_flow_control_window(2 * MIB, stream_id)
        connection.flush()
        assert (await stream.next_event()).payload == bytes(MIB)
        assert (await stream.next_event()).json()["ErrorCode"] == "ModelInvocationTimeExceeded"
        await stream.end()


# Clients that vanish


async def test_a_reset_closes_the_containers_socket_and_spares_the_siblings(site: Site) -> None:
    async with site.connect() as connection:
        sibling, gone = await opened(connection, site), await opened(connection, site)
        assert site.container.open_sockets == 2
        connection.reset(gone)
        await until(lambda: site.container.open_sockets == 1)
        assert site.container.close_codes == [1001]
        await sibling.send(b"unharmed")
        assert (await sibling.next_event()).payload == b"unharmed"


@pytest.mark.parametrize("path", ["", "no-read", "flood/50", "silent"])
async def test_a_connection_that_drops_closes_every_socket(make_site: MakeSite, path: str) -> None:
    async with make_site(websocket_close_seconds=0.2) as site:
        async with site.connect() as connection:
            for _ in range(5):
                await (await opened(connection, site, path)).send(bytes(100_000))
        site.container.reading.set()
        await until(lambda: site.container.open_sockets == 0)
        await until(lambda: site.plane.connection_count == 0)


async def test_a_client_that_vanishes_while_the_container_is_slow_to_accept(make_site: MakeSite) -> None:
    async with make_site() as site:
        async with site.connect() as connection:
            await connection.open(site.endpoint, headers={PATH: "accept-after/800"})
            await asyncio.sleep(0.1)
        await until(lambda: site.plane.connection_count == 0)


async def test_bytes_that_are_no_http2_end_the_connection(site: Site) -> None:
    async with site.connect() as connection:
        stream = await opened(connection, site)
        connection.writer.write(bytes(9))  # DATA on stream 0, which RFC 9113 forbids
        await asyncio.wait_for(connection.closed.wait(), DEADLINE)
        assert connection.goaway is not None
        assert connection.goaway != 0
        assert not stream.ended
    await until(lambda: site.container.open_sockets == 0)


async def test_more_streams_than_allowed_wait_for_room(make_site: MakeSite) -> None:
    async with make_site(concurrent_streams=2) as site, site.connect() as connection:
        first, _ = await opened(connection, site), await opened(connection, site)
        assert connection.h2.remote_settings.max_concurrent_streams == 2
        await first.end_input()
        await first.end()
        await opened(connection, site)


async def test_a_failure_of_our_own_is_told_as_such(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """A defect of the data plane ends one stream with the error AWS has for it; the others go on."""
    async with site.connect() as connection:
        sibling = await opened(connection, site)

        def defect(*_: object) -> bytes:
            raise ZeroDivisionError

        with monkeypatch.context() as patch:
            patch.setattr("voice_local.data_plane.bidirectional.encode_message", defect)
            stream = await opened(connection, site)
            await stream.send(b"x")
            event = await stream.next_event()
            await stream.end()
        assert event.headers[":exception-type"] == "InternalStreamFailure"
        with monkeypatch.context() as patch:
            patch.setattr("voice_local.data_plane.operations.find_container", defect)
            stream = await connection.open(site.endpoint)
            assert (await stream.error())[:2] == (500, "InternalServerError")
        await sibling.send(b"unharmed")
        assert (await sibling.next_event()).payload == b"unharmed"


# Many at once


async def test_fifty_streams_in_step_on_one_connection(site: Site) -> None:
    async with site.connect() as connection:
        streams = [await opened(connection, site) for _ in range(50)]

        async def talk(number: int, stream: Any) -> None:
            for turn in range(10):
                text = b"%d/%d" % (number, turn)
                await stream.send(text)
                assert (await stream.next_event()).payload == text
            await stream.end_input()
            await stream.end()

        async with asyncio.timeout(2 * DEADLINE), asyncio.TaskGroup() as group:
            for number, stream in enumerate(streams):
                group.create_task(talk(number, stream))
    assert len(site.container.received) == 500
    assert site.container.close_codes == [1000] * 50


async def test_streams_opened_and_dropped_leave_nothing(make_site: MakeSite) -> None:
    async with make_site(websocket_close_seconds=0.5) as site:
        before = len(asyncio.all_tasks())
        for _ in range(4):
            async with site.connect() as connection:
                for number in range(25):
                    stream = await opened(connection, site)
                    await stream.send(b"x")
                    if number % 2:
                        connection.reset(stream)
        await until(lambda: site.plane.connection_count == 0 and site.container.open_sockets == 0)
        await until(lambda: len(asyncio.all_tasks()) <= before)


# Connections


async def test_an_idle_connection_is_closed(make_site: MakeSite) -> None:
    async with make_site(idle_connection_seconds=0.8) as site, site.connect() as connection:
        stream = await opened(connection, site)
        await asyncio.sleep(1.2)
        assert not connection.closed.is_set(), "a connection with a stream is not idle"
        await stream.end_input()
        await stream.end()
        await asyncio.wait_for(connection.closed.wait(), DEADLINE)
        assert connection.goaway == 0


async def test_a_client_without_http2_is_turned_away(site: Site) -> None:
    context = ssl.create_default_context(cafile=str(site.ca_bundle))
    port = int(site.plane.url.rpartition(":")[2])
    async with asyncio.timeout(DEADLINE):
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
        assert await reader.read() == b""
        writer.close()


async def test_a_client_that_does_not_know_the_ca_refuses(site: Site) -> None:
    port = int(site.plane.url.rpartition(":")[2])
    with pytest.raises(ssl.SSLCertVerificationError):
        await asyncio.open_connection("127.0.0.1", port, ssl=ssl.create_default_context())


async def test_the_certificate_names_every_loopback_address(site: Site) -> None:
    context = ssl.create_default_context(cafile=str(site.ca_bundle))
    context.set_alpn_protocols(["h2"])
    port = int(site.plane.url.rpartition(":")[2])
    for name in ("127.0.0.1", "localhost", "::1"):
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname=name)
        assert writer.get_extra_info("ssl_object").selected_alpn_protocol() == "h2"
        writer.close()


async def test_stop_ends_open_streams(make_site: MakeSite) -> None:
    async with make_site() as site, site.connect() as connection:
        streams = [await opened(connection, site) for _ in range(3)]
        started = asyncio.get_running_loop().time()
        await site.plane.stop()
        assert asyncio.get_running_loop().time() - started < 3
        await asyncio.wait_for(connection.closed.wait(), DEADLINE)
        assert connection.goaway == 0
        assert [stream.reset for stream in streams] == [8, 8, 8]
        await until(lambda: site.container.open_sockets == 0)
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", int(site.plane.url.rpartition(":")[2]))
        await site.plane.stop()


async def test_a_port_that_is_taken_is_named(tls: TlsMaterial) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        plane = DataPlane(Directory(), LocalIdentity(), tls=tls, port=port)
        with pytest.raises(DataPlaneError, match=f"cannot listen on 127.0.0.1:{port}.*choose another"):
            await plane.start()


# Files, settings, logs


def test_the_ca_bundle_is_for_its_owner_alone(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "tls"
    material = TlsMaterial.create(folder)
    assert material.ca_bundle.stat().st_mode & 0o777 == 0o600
    assert folder.stat().st_mode & 0o777 == 0o700
    assert [path.name for path in folder.iterdir()] == ["ca.pem"]
    assert b"PRIVATE KEY" not in material.ca_bundle.read_bytes()


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(TlsMaterialError, match="file/tls"):
        TlsMaterial.create(tmp_path / "file" / "tls")


def test_settings_report_every_value_that_cannot_work() -> None:
    with pytest.raises(ValueError, match="accept_seconds, receive_window"):
        DataPlaneSettings(accept_seconds=0, receive_window=-1)


async def test_no_word_of_a_stream_is_logged(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with site.connect() as connection:
        stream = await opened(connection, site, "close-after/2/1011")
        await stream.send(b"a secret sentence", DataType="UTF8")
        await stream.send(b"\xffsecret bytes", DataType="BINARY")
        assert (await stream.next_event()).payload == b"a secret sentence"
        await stream.next_event()
        await stream.next_event()
        request_id = stream.headers["x-amzn-requestid"]
        await stream.send_raw(b"")
    # The scripted container logs too, in the websockets library's own server logger; it is no part of the product.
    ours = [record.getMessage() for record in caplog.records if record.name != "websockets.server"]
    assert any(f"stream open request={request_id}" in line for line in ours)
    assert all("secret" not in line for line in ours)
    assert site.identity.secret_access_key not in caplog.text
