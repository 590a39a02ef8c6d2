"""InvokeEndpoint and InvokeEndpointWithResponseStream: by plain boto3 over HTTP/1.1, and over HTTP/2."""

import asyncio
import contextlib
import hashlib
import sys
from collections.abc import AsyncIterator, Callable
from typing import Any

import botocore.session
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError, EventStreamError

from voice_local.data_plane import DataPlaneSettings
from voice_local.interfaces import EndpointStatus, ServingContainer
from voice_local.isolation import connection_variables

from .bare_client import DEADLINE
from .conftest import MakeSite, Site

PIECE = b"0123456789" * 1000


async def _answer(head: str, body: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Upper-case the body, or do what it says."""

    def begin(status: str, *headers: str) -> None:
        writer.write("\r\n".join([f"HTTP/1.1 {status}", "content-type: text/x", *headers, "", ""]).encode())

    match body.split():
        case [b"refuse", status]:
            begin(f"{status.decode()} Refused", "content-length: 8")
            writer.write(b"bad body")
        case [b"hang"]:
            await reader.read()
        case [b"die"]:
            writer.transport.abort()
        case [b"headers"]:
            begin("200 OK", "x-amzn-sagemaker-custom-attributes: answered", f"content-length: {len(head)}")
            writer.write(head.encode())
        case [b"pieces", count]:
            begin("200 OK", "transfer-encoding: chunked")
            for _ in range(int(count)):
                writer.write(f"{len(PIECE):x}\r\n".encode() + PIECE + b"\r\n")
                await writer.drain()
            writer.write(b"0\r\n\r\n")
        case [b"half", ending]:
            begin("200 OK", "content-length: 100")
            writer.write(b"first half")
            await writer.drain()
            await (reader.read() if ending == b"hang" else asyncio.sleep(0.1))
        case _:
            begin("200 OK", f"content-length: {len(body)}")
            writer.write(body.upper())


@pytest.fixture
async def http_container() -> AsyncIterator[int]:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
            assert head.startswith("post /invocations http/1.1")
            body = await reader.readexactly(int(head.split("content-length: ")[1].split("\r\n")[0]))
            await _answer(head, body, reader, writer)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    yield server.sockets[0].getsockname()[1]
    server.close()


@contextlib.asynccontextmanager
async def site_of(make_site: MakeSite, http_container: int, **settings: float) -> AsyncIterator[Site]:
    async with make_site(**settings) as site:
        container = ServingContainer("AllTraffic", http_container, bidirectional=False)
        site.directory.put(site.endpoint, EndpointStatus.IN_SERVICE, container)
        yield site


@pytest.fixture
async def plain_site(make_site: MakeSite, http_container: int) -> AsyncIterator[Site]:
    async with site_of(make_site, http_container) as site:
        yield site


type Call = Callable[..., Any]


@pytest.fixture(scope="module")
def aws() -> botocore.session.Session:
    """One session, so that the description of the service is read from disk once."""
    return botocore.session.get_session()


@contextlib.asynccontextmanager
async def calls_to(site: Site, aws: botocore.session.Session) -> AsyncIterator[Call]:
    """Yield a way to call boto3's `sagemaker-runtime` in a thread: `await call("invoke_endpoint", Body=...)`."""
    client = aws.create_client(
        "sagemaker-runtime",
        region_name=site.identity.region,
        endpoint_url=site.plane.plain_url,
        aws_access_key_id=site.identity.access_key_id,
        aws_secret_access_key=site.identity.secret_access_key,
        config=Config(retries={"total_max_attempts": 1}, read_timeout=60, proxies={"http": ""}),
    )

    async def run(operation: str, **options: Any) -> Any:
        options.setdefault("EndpointName", site.endpoint)
        return await asyncio.to_thread(getattr(client, operation), **options)

    yield run
    client.close()


@pytest.fixture
async def call(plain_site: Site, aws: botocore.session.Session) -> AsyncIterator[Call]:
    async with calls_to(plain_site, aws) as run:
        yield run


@pytest.fixture
async def hasty_call(make_site: MakeSite, http_container: int, aws: botocore.session.Session) -> AsyncIterator[Call]:
    """The same to a data plane whose minutes are a second."""
    limits = {"plain_invocation_seconds": 1.0, "response_stream_seconds": 1.0}
    async with site_of(make_site, http_container, **limits) as site, calls_to(site, aws) as run:
        yield run


async def test_boto3_gets_the_answer_whole(call: Call) -> None:
    answer = await call("invoke_endpoint", Body=b"hello", ContentType="text/plain")
    assert answer["Body"].read() == b"HELLO"
    assert (answer["ContentType"], answer["InvokedProductionVariant"]) == ("text/x", "AllTraffic")
    assert len(answer["ResponseMetadata"]["RequestId"]) == 36


async def test_a_body_of_many_megabytes(call: Call) -> None:
    body = b"abcdefgh" * (DataPlaneSettings().largest_plain_body // 8)
    answer = await call("invoke_endpoint", Body=body)
    assert await asyncio.to_thread(answer["Body"].read) == body.upper()
    with pytest.raises(ClientError, match=r"ValidationError.*The body has more than"):
        await call("invoke_endpoint", Body=body + b"x")


async def test_only_the_headers_of_the_api_reach_the_container(call: Call) -> None:
    answer = await call(
        "invoke_endpoint", Body=b"headers", ContentType="a/b", Accept="c/d", CustomAttributes="route=/x", SessionId="s"
    )
    assert answer["CustomAttributes"] == "answered"
    lines = answer["Body"].read().decode().split("\r\n")
    assert {"content-type: a/b", "accept: c/d", "x-amzn-sagemaker-custom-attributes: route=/x"} < set(lines)
    assert not [line for line in lines if "authorization" in line or "session-id" in line or "amz-date" in line]


@pytest.mark.parametrize("status", [400, 500])
async def test_boto3_gets_a_model_error(call: Call, status: int) -> None:
    for operation in ("invoke_endpoint", "invoke_endpoint_with_response_stream"):
        with pytest.raises(ClientError) as failure:
            await call(operation, Body=b"refuse %d" % status)
        answer = failure.value.response
        assert answer["Error"]["Code"] == "ModelError"
        assert (answer["OriginalStatusCode"], answer["OriginalMessage"]) == (status, "bad body")
        assert answer["ResponseMetadata"]["HTTPStatusCode"] == 424


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"hang", "did not answer"),
        (b"half hang", "did not complete"),
        (b"half die", "broke off"),
        (b"die", "broke off"),
    ],
)
async def test_boto3_learns_how_a_container_failed(hasty_call: Call, body: bytes, words: str) -> None:
    with pytest.raises(ClientError, match=words) as failure:
        await hasty_call("invoke_endpoint", Body=body)
    assert failure.value.response["Error"]["Code"] == "ModelError"


async def test_the_names_of_errors_are_those_of_this_service(call: Call, plain_site: Site) -> None:
    with pytest.raises(ClientError) as failure:
        await call("invoke_endpoint", EndpointName="absent", Body=b"x")
    assert failure.value.response["Error"]["Code"] == "ValidationError"
    plain_site.directory.put(plain_site.endpoint, EndpointStatus.IN_SERVICE)
    with pytest.raises(ClientError) as failure:
        await call("invoke_endpoint", Body=b"x")
    assert failure.value.response["Error"]["Code"] == "ServiceUnavailable"


async def test_boto3_reads_a_response_stream(call: Call) -> None:
    answer = await call("invoke_endpoint_with_response_stream", Body=b"pieces 5", Accept="text/x")
    assert (answer["ContentType"], answer["InvokedProductionVariant"]) == ("text/x", "AllTraffic")
    parts = await asyncio.to_thread(lambda: [event["PayloadPart"]["Bytes"] for event in answer["Body"]])
    assert b"".join(parts) == PIECE * 5


@pytest.mark.parametrize(("ending", "words"), [(b"die", "broke off its answer"), (b"hang", "in the allotted time")])
async def test_a_response_stream_that_breaks_off(hasty_call: Call, ending: bytes, words: str) -> None:
    answer = await hasty_call("invoke_endpoint_with_response_stream", Body=b"half " + ending)
    events = iter(answer["Body"])
    first = await asyncio.to_thread(next, events)
    assert first["PayloadPart"]["Bytes"] == b"first half"
    with pytest.raises(EventStreamError) as failure:
        await asyncio.to_thread(next, events)
    assert failure.value.response["Error"]["Code"] == "ModelStreamError"
    assert words in failure.value.response["Error"]["Message"]


async def test_a_wrong_secret_and_a_changed_body(plain_site: Site) -> None:
    async with plain_site.connect() as connection:
        for body, sent in ((b"hello", b"hello"), (b"signed", b"forged")):
            path = f"/endpoints/{plain_site.endpoint}/invocations"
            stream = await connection.open(
                plain_site.endpoint, path=path, payload_hash=hashlib.sha256(body).hexdigest()
            )
            await stream.send_raw(sent, end=True)
            if body == sent:
                assert await stream.response() == 200
                await stream.end()
                assert bytes(stream.body) == b"HELLO"
            else:
                assert (await stream.error())[:2] == (403, "InvalidSignatureException")


# HTTP/1.1 itself


async def talk(site: Site, data: bytes, *, until_closed: bool = True) -> bytes:
    port = int(site.plane.plain_url.rpartition(":")[2])
    async with asyncio.timeout(DEADLINE):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(data)
        answer = await (reader.read() if until_closed else reader.readuntil(b"}"))
        writer.close()
    return answer


def request(*lines: str, body: bytes = b"") -> bytes:
    return "\r\n".join([*lines, "host: x", "", ""]).encode() + body


async def test_requests_in_a_row_are_answered_in_a_row(site: Site) -> None:
    again = request("GET /one HTTP/1.1")
    last = request("GET /two HTTP/1.1", "connection: close")
    answer = await talk(site, again + again + last)
    assert [answer.count(word) for word in (b"HTTP/1.1 404", b"GET /one", b"GET /two")] == [3, 2, 1]


async def test_a_bidirectional_stream_needs_http2(site: Site) -> None:
    path = f"/endpoints/{site.endpoint}/invocations-bidirectional-stream"
    answer = await talk(site, request(f"POST {path} HTTP/1.1", "connection: close", "content-length: 0"))
    assert b"HTTP/1.1 404" in answer
    assert b"UnknownOperationException" in answer


async def test_a_client_that_asks_before_it_sends_is_told_to_go_on(site: Site) -> None:
    head = request("POST /faults HTTP/1.1", "connection: close", "expect: 100-continue", "content-length: 3")
    port = int(site.plane.plain_url.rpartition(":")[2])
    async with asyncio.timeout(DEADLINE):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(head)
        assert await reader.readline() == b"HTTP/1.1 100 \r\n"
        writer.write(b"abc")
        assert b"HTTP/1.1 401" in await reader.read()
        writer.close()


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01 this is TLS\r\n\r\n",
        b"GET /faults HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: x\r\nbad header\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: x\r\nx: " + b"y" * 70_000,
    ],
)
async def test_bytes_that_are_no_http1_are_refused(site: Site, data: bytes) -> None:
    answer = await talk(site, data)
    assert answer.startswith(b"HTTP/1.1 4")
    assert b"connection: close" in answer.lower()


async def test_a_client_that_leaves_in_the_middle(site: Site) -> None:
    port = int(site.plane.plain_url.rpartition(":")[2])
    for data in (b"", b"GET /", request("POST /faults HTTP/1.1", "content-length: 10", body=b"abc")):
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(data)
        await writer.drain()
        await asyncio.sleep(0.05)
        writer.transport.abort()
    async with asyncio.timeout(DEADLINE):
        while site.plane.connection_count:  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0.01)


async def test_stop_ends_requests_under_way(plain_site: Site, call: Call) -> None:
    calling = asyncio.create_task(call("invoke_endpoint", Body=b"hang"))
    async with asyncio.timeout(DEADLINE):
        while not plain_site.plane.connection_count:  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        await plain_site.plane.stop()
        with pytest.raises(Exception, match=r"[Cc]onnection|closed"):
            await calling


PROGRAM = """
import boto3
answer = boto3.client("sagemaker-runtime").invoke_endpoint(EndpointName="test-voice-stt", Body=b"hello")
print(answer["Body"].read().decode(), end="")
"""


async def test_a_program_in_the_environment_of_the_cloud_reaches_the_container(plain_site: Site) -> None:
    """Plain boto3, told nothing but the variables that `voice local env` prints."""
    variables = connection_variables(
        identity=plain_site.identity,
        control_plane_url="http://127.0.0.1:1",
        data_plane_url=plain_site.plane.url,
        runtime_url=plain_site.plane.plain_url,
        ca_bundle=plain_site.ca_bundle,
    )
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", PROGRAM), env=variables, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    output, errors = await asyncio.wait_for(process.communicate(), 60)
    assert output == b"HELLO", errors.decode()
