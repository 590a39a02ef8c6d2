"""Endpoints, paths, parts, and how a stream begins and ends, byte by byte."""

import asyncio
import time
from http import HTTPStatus
from typing import Any

import pytest

from voice_local.data_plane import InputEnd
from voice_local.interfaces import EndpointStatus, ServingContainer

from .bare_client import frame, payload_part, string_header
from .conftest import MakeSite, Site
from .scripted_container import late_closer

PATH = "x-amzn-sagemaker-model-invocation-path"
QUERY = "x-amzn-sagemaker-model-query-string"
VARIANT = "x-amzn-sagemaker-target-variant"


async def error_of(site: Site, endpoint: str | None = None, **headers: str) -> tuple[int, str, dict[str, Any]]:
    async with site.connect() as connection:
        stream = await connection.open(
            endpoint or site.endpoint, headers={name.replace("_", "-"): value for name, value in headers.items()}
        )
        return await stream.error()


async def opened(connection: Any, site: Site, path: str = "") -> Any:
    stream = await connection.open(site.endpoint, headers={PATH: path} if path else {})
    assert await stream.response() == 200
    return stream


# Beginning


async def test_response_headers(site: Site) -> None:
    async with site.connect() as connection:
        stream = await opened(connection, site)
        assert stream.headers["content-type"] == "application/vnd.amazon.eventstream"
        assert stream.headers["x-amzn-invoked-production-variant"] == "AllTraffic"
        assert len(stream.headers["x-amzn-requestid"]) == 36


async def test_an_empty_path_header_means_the_default_path(site: Site) -> None:
    async with site.connect() as connection:
        stream = await connection.open(site.endpoint, headers={PATH: "", QUERY: ""})
        assert await stream.response() == 200
    assert site.container.requests == ["/invocations-bidirectional-stream"]


async def test_the_longest_path_and_query_are_taken(site: Site) -> None:
    path, query = "p" * 100, "q=" + "1" * 2046
    async with site.connect() as connection:
        stream = await connection.open(site.endpoint, headers={PATH: path, QUERY: query})
        assert await stream.response() == 200
    assert site.container.requests == [f"/{path}?{query}"]


async def test_every_problem_of_the_target_is_reported_at_once(site: Site) -> None:
    async with site.connect() as connection:
        stream = await connection.open(site.endpoint, headers={PATH: "/" + "p" * 100, QUERY: "q" * 2049})
        status, kind, body = await stream.error()
    assert (status, kind) == (400, "InputValidationError")
    assert body["Message"].startswith("3 validation error(s) detected: ")
    for words in ("must not begin with a slash", "at most 100", "at most 2048"):
        assert words in body["Message"]
    assert site.container.requests == []


@pytest.mark.parametrize("path", ["v1/re altime", "v1/real#time", "v1/real%time", 'v1/"quoted"'])
async def test_a_path_that_is_no_url_path_is_refused(site: Site, path: str) -> None:
    async with site.connect() as connection:
        stream = await connection.open(site.endpoint, headers={PATH: path})
        status, kind, _ = await stream.error()
    assert (status, kind) == (400, "InputValidationError")


async def test_an_unknown_endpoint(site: Site) -> None:
    status, kind, body = await error_of(site, "absent")
    assert (status, kind) == (400, "ValidationError")
    assert body["Message"] == f"Endpoint absent of account {site.identity.account_id} not found."


@pytest.mark.parametrize("state", [state for state in EndpointStatus if state is not EndpointStatus.IN_SERVICE])
async def test_only_an_endpoint_in_service_takes_streams(site: Site, state: EndpointStatus) -> None:
    site.directory.put(site.endpoint, state, ServingContainer("AllTraffic", site.container.port, True))
    status, kind, body = await error_of(site)
    assert (status, kind) == (400, "ValidationError")
    assert site.endpoint in body["Message"]
    assert body["Message"].endswith(f"is not InService: its status is {state}.")


async def test_an_endpoint_without_a_container(site: Site) -> None:
    site.directory.put(site.endpoint, EndpointStatus.IN_SERVICE)
    assert (await error_of(site))[:2] == (503, "ServiceUnavailableError")


async def test_the_target_variant_chooses_the_container(site: Site) -> None:
    dead = ServingContainer("Other", 1, True)
    alive = ServingContainer("Wanted", site.container.port, True)
    site.directory.put(site.endpoint, EndpointStatus.IN_SERVICE, dead, alive)
    async with site.connect() as connection:
        stream = await connection.open(site.endpoint, headers={VARIANT: "Wanted"})
        assert await stream.response() == 200
        assert stream.headers["x-amzn-invoked-production-variant"] == "Wanted"
    status, kind, body = await error_of(site, **{VARIANT: "Absent"})
    assert (status, kind) == (400, "ValidationError")
    assert "Variant Absent" in body["Message"]


async def test_without_the_label_no_socket_is_opened(make_site: MakeSite) -> None:
    async with make_site(accept_seconds=0.25) as site:
        site.directory.put(
            site.endpoint, EndpointStatus.IN_SERVICE, ServingContainer("AllTraffic", site.container.port, False)
        )
        started = asyncio.get_running_loop().time()
        status, kind, body = await error_of(site)
        assert asyncio.get_running_loop().time() - started >= 0.25
        assert (status, kind) == (424, "ModelError")
        assert "com.amazonaws.sagemaker.capabilities.bidirectional-streaming=true" in body["Message"]
        assert site.container.requests == []


async def test_a_container_that_accepts_too_late(make_site: MakeSite) -> None:
    async with make_site(accept_seconds=0.25) as site:
        status, kind, body = await error_of(site, **{PATH: "accept-after/800"})
    assert (status, kind) == (424, "ModelError")
    assert "did not accept the WebSocket connection on /accept-after/800 within 250 ms" in body["Message"]


async def test_the_deadline_of_a_container_begins_with_its_own_turn(make_site: MakeSite) -> None:
    """Four opens that wait for one another take longer than the deadline; none of them is late."""
    async with make_site(accept_seconds=0.5, concurrent_accepts=1) as site, site.connect() as connection:
        streams = [await connection.open(site.endpoint, headers={PATH: "accept-after/200"}) for _ in range(4)]
        assert [await stream.response() for stream in streams] == [200] * 4


async def test_the_deadline_stands_still_while_the_machine_does(make_site: MakeSite) -> None:
    """Half a second in which neither side may run is not the container's fault."""
    async with make_site(accept_seconds=0.25) as site, site.connect() as connection:
        stream = await connection.open(site.endpoint, headers={PATH: "accept-after/50"})
        asyncio.get_running_loop().call_later(0.03, time.sleep, 0.5)
        assert await stream.response() == 200


async def test_a_container_that_refuses(site: Site) -> None:
    status, kind, body = await error_of(site, **{PATH: "refuse"})
    assert (status, kind) == (424, "ModelError")
    assert (body["OriginalStatusCode"], body["OriginalMessage"]) == (403, "no such model here")
    assert body["Message"].startswith('Received client error (403) from primary with message "no such model here".')
    assert body["LogStreamArn"] == (
        f"arn:aws:logs:{site.identity.region}:{site.identity.account_id}:log-group:/aws/sagemaker/Endpoints/{site.endpoint}"
    )


async def test_a_redirect_is_not_followed(site: Site) -> None:
    status, _, body = await error_of(site, **{PATH: "redirect"})
    assert (status, body["OriginalStatusCode"]) == (424, HTTPStatus.FOUND)
    assert site.container.requests == []


async def test_nobody_listens(site: Site) -> None:
    site.directory.put(site.endpoint, EndpointStatus.IN_SERVICE, ServingContainer("AllTraffic", 1, True))
    status, kind, body = await error_of(site)
    assert (status, kind) == (424, "ModelError")
    assert "does not take connections" in body["Message"]


async def test_an_unknown_operation(site: Site) -> None:
    async with site.connect() as connection:
        stream = await connection.open(site.endpoint, path=f"/endpoints/{site.endpoint}/invocations-else", end=True)
        assert (await stream.error())[:2] == (404, "UnknownOperationException")


# Parts


async def test_the_parts_of_a_response(site: Site) -> None:
    async with site.connect() as connection:
        stream = await opened(connection, site)
        await stream.send(b"\x00\x01")
        await stream.send("naïve".encode(), DataType="UTF8", CompletionState="COMPLETE", P="pad")
        binary, text = await stream.next_event(), await stream.next_event()
    common = {":message-type": "event", ":event-type": "PayloadPart"}
    assert common.items() <= binary.headers.items()
    assert (binary.payload, binary.headers["DataType"]) == (b"\x00\x01", "BINARY")
    assert (text.payload, text.headers["DataType"]) == ("naïve".encode(), "UTF8")
    assert site.container.received == [b"\x00\x01", "naïve"]


async def test_empty_parts_are_messages_too(site: Site) -> None:
    async with site.connect() as connection:
        stream = await opened(connection, site)
        await stream.send(b"", DataType="UTF8")
        assert (await stream.next_event()).payload == b""
    assert site.container.received == [""]


@pytest.mark.parametrize(
    ("inner", "words"),
    [
        (payload_part(b"x", DataType="TEXT"), "DataType must be"),
        (payload_part(b"x", CompletionState="DONE"), "CompletionState must be"),
        (payload_part(b"\xff", DataType="UTF8"), "is not UTF-8"),
        (frame(string_header(":message-type", "event") + string_header(":event-type", "Other"), b""), "PayloadPart"),
        (b"no frame at all", "cannot be read"),
        (payload_part(b"x")[:-1], "cannot be read"),
        (payload_part(b"x") + b"y", "cannot be read"),
    ],
)
async def test_an_event_that_means_nothing_ends_the_stream(site: Site, inner: bytes, words: str) -> None:
    async with site.connect() as connection:
        stream = await opened(connection, site)
        await stream.send_raw(stream.signer.sign_event(inner))
        event = await stream.next_event()
        assert (event.headers[":message-type"], event.headers[":error-code"]) == ("error", "InputValidationError")
        assert words in event.headers[":error-message"]
        await stream.end()
    assert site.container.received == []


async def test_a_run_of_parts_keeps_its_type(site: Site) -> None:
    async with site.connect() as connection:
        stream = await opened(connection, site)
        await stream.send(b"a", DataType="UTF8", CompletionState="PARTIAL")
        await stream.send(b"b")
        assert "goes on as BINARY" in (await stream.next_event()).headers[":error-message"]


async def test_a_corrupt_frame_ends_only_its_own_stream(site: Site) -> None:
    async with site.connect() as connection:
        sibling = await opened(connection, site)
        broken = await opened(connection, site)
        signed = bytearray(broken.signer.sign_event(payload_part(b"x")))
        signed[-1] ^= 1
        await broken.send_raw(bytes(signed))
        assert "checksum" in (await broken.next_event()).headers[":error-message"]
        await sibling.send(b"unharmed")
        assert (await sibling.next_event()).payload == b"unharmed"


async def test_a_message_over_the_limit_is_refused(make_site: MakeSite) -> None:
    async with make_site(largest_message=1000) as site, site.connect() as connection:
        stream = await opened(connection, site)
        await stream.send(bytes(1000))
        assert len((await stream.next_event()).payload) == 1000
        await stream.send(bytes(600), CompletionState="PARTIAL")
        await stream.send(bytes(600))
        assert "more than 1000 bytes" in (await stream.next_event()).headers[":error-message"]


# Ending


async def test_the_client_ends_its_input(site: Site) -> None:
    async with site.connect() as connection:
        stream = await opened(connection, site)
        await stream.send(b"last")
        assert (await stream.next_event()).payload == b"last"
        await stream.end_input()
        await stream.end()
    assert site.container.close_codes == [1000]


async def test_answers_after_the_end_of_input_still_arrive(site: Site) -> None:
    """A container may hold its closing frame back until it has sent what it still had."""
    async with late_closer(b"said after the close frame") as port, site.connect() as connection:
        site.directory.put(site.endpoint, EndpointStatus.IN_SERVICE, ServingContainer("AllTraffic", port, True))
        stream = await opened(connection, site)
        await stream.end_input()
        assert (await stream.next_event()).payload == b"said after the close frame"
        await stream.end()


async def test_a_container_that_never_answers_the_close_frame(make_site: MakeSite) -> None:
    async with (
        make_site(half_close_seconds=0.2) as site,
        late_closer(b"bye", close=False) as port,
        site.connect() as connection,
    ):
        site.directory.put(site.endpoint, EndpointStatus.IN_SERVICE, ServingContainer("AllTraffic", port, True))
        stream = await opened(connection, site)
        await stream.end_input()
        assert (await stream.next_event()).payload == b"bye"
        assert "did not complete the closing handshake" in (await stream.next_event()).json()["Message"]
        await stream.end()


async def test_without_the_close_frame_the_container_ends_the_stream(make_site: MakeSite) -> None:
    async with make_site(input_end=InputEnd.WAIT_FOR_CONTAINER) as site, site.connect() as connection:
        stream = await opened(connection, site, "close-after/2/1000")
        await stream.send(b"1")
        await stream.send(b"2")
        await stream.end_input()
        assert [(await stream.next_event()).payload for _ in range(2)] == [b"1", b"2"]
        await stream.end()


async def test_an_input_that_ends_without_the_signed_frame(site: Site) -> None:
    """Older releases of the SDK end their input with END_STREAM alone."""
    async with site.connect() as connection:
        stream = await opened(connection, site)
        await stream.send_raw(stream.signer.sign_event(payload_part(b"x")), end=True)
        await stream.end()
    assert site.container.received == [b"x"]


@pytest.mark.parametrize("where", ["frame", "run"])
async def test_an_input_cut_short_is_told(site: Site, where: str) -> None:
    async with site.connect() as connection:
        stream = await opened(connection, site)
        if where == "frame":
            await stream.send_raw(stream.signer.sign_event(payload_part(b"x"))[:-5], end=True)
        else:
            await stream.send(b"x", CompletionState="PARTIAL")
            await stream.end_input()
        assert "The input ended inside" in (await stream.next_event()).headers[":error-message"]
        await stream.end()


async def test_the_container_ends_normally(site: Site) -> None:
    async with site.connect() as connection:
        stream = await opened(connection, site, "close-after/1/1000")
        await stream.send(b"only")
        assert (await stream.next_event()).payload == b"only"
        await stream.end()
        assert stream.events == []


async def test_a_client_that_goes_on_after_the_end_is_stopped(make_site: MakeSite) -> None:
    async with make_site(request_end_seconds=0.1) as site, site.connect() as connection:
        stream = await opened(connection, site, "close-after/0/1000")
        await stream.end()
        await stream.wait(lambda: stream.reset is not None)
        assert stream.reset == 0


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("close-after/1/1011", "code 1011 (as told)"),
        ("close-after/1/1001", "code 1001"),
        ("die-after/1", "without a close frame"),
    ],
)
async def test_the_container_breaks_off(site: Site, path: str, words: str) -> None:
    async with site.connect() as connection:
        stream = await opened(connection, site, path)
        await stream.send(b"x")
        assert (await stream.next_event()).payload == b"x"
        event = await stream.next_event()
        await stream.end()
    assert event.headers[":message-type"] == "exception"
    assert event.headers[":exception-type"] == "ModelStreamError"
    assert event.json()["ErrorCode"] == "StreamBroken"
    assert words in event.json()["Message"]


async def test_the_longest_stream_is_cut(make_site: MakeSite) -> None:
    async with make_site(longest_stream_seconds=1.0) as site, site.connect() as connection:
        stream = await opened(connection, site)
        await stream.send(b"x")
        assert (await stream.next_event()).payload == b"x"
        event = await stream.next_event()
        await stream.end()
    assert event.headers[":exception-type"] == "ModelStreamError"
    assert event.json()["ErrorCode"] == "ModelInvocationTimeExceeded"
    assert site.container.close_codes == [1001]


async def test_a_container_that_answers_no_ping_is_given_up(make_site: MakeSite) -> None:
    async with (
        make_site(ping_interval_seconds=0.05, unanswered_pings=3, websocket_close_seconds=0.1) as site,
        site.connect() as connection,
    ):
        started = asyncio.get_running_loop().time()
        stream = await opened(connection, site, "deaf")
        event = await stream.next_event()
        assert asyncio.get_running_loop().time() - started >= 0.2
        assert event.headers[":exception-type"] == "ModelStreamError"
        assert "3 WebSocket pings" in event.json()["Message"]


async def test_a_container_that_answers_pings_is_kept(make_site: MakeSite) -> None:
    async with make_site(ping_interval_seconds=0.1, unanswered_pings=2) as site, site.connect() as connection:
        stream = await opened(connection, site, "silent")
        await asyncio.sleep(1.0)
        await stream.send(b"still open")
        await stream.end_input()
        await stream.end()
    assert site.container.received == [b"still open"]
