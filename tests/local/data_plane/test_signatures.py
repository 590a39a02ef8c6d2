"""SigV4 of the request and of every event: what is refused, and in which words."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from voice_local.interfaces import EndpointStatus

from .bare_client import Signer, bytes_header, date_header, frame, payload_part
from .conftest import MakeSite, Site


async def test_an_unknown_key_is_refused(site: Site) -> None:
    async with site.connect() as connection:
        stream = await connection.open(site.endpoint, signer=Signer("AKIAUNKNOWN", site.identity.secret_access_key))
        status, kind, body = await stream.error()
    assert (status, kind) == (403, "UnrecognizedClientException")
    assert body == {"Message": "The security token included in the request is invalid."}
    assert stream.headers["x-amzn-requestid"]


async def test_a_wrong_secret_is_refused(site: Site) -> None:
    async with site.connect() as connection:
        stream = await connection.open(site.endpoint, signer=Signer(site.identity.access_key_id, "wrong"))
        status, kind, body = await stream.error()
    assert (status, kind) == (403, "InvalidSignatureException")
    assert body["Message"].startswith("The request signature we calculated does not match the signature you provided.")


@pytest.mark.parametrize(
    ("changed", "value"),
    [
        ("x-amzn-sagemaker-model-invocation-path", "v1/realtime"),
        ("content-type", "text/plain"),
        ("x-amz-content-sha256", "UNSIGNED-PAYLOAD"),
    ],
)
async def test_a_header_changed_after_signing_is_refused(site: Site, changed: str, value: str) -> None:
    async with site.connect() as connection:
        stream = await connection.open(
            site.endpoint,
            headers={"x-amzn-sagemaker-model-invocation-path": "as/signed"},
            tampered={changed: value},
        )
        status, kind, _ = await stream.error()
    assert (status, kind) == (403, "InvalidSignatureException")


async def test_an_unsigned_request_is_refused(site: Site) -> None:
    async with site.connect() as connection:
        path = f"/endpoints/{site.endpoint}/invocations-bidirectional-stream"
        stream = connection.request("POST", path, {}, site.signer(), end=True)
        status, kind, body = await stream.error()
    assert (status, kind, body["Message"]) == (
        403,
        "MissingAuthenticationTokenException",
        "Missing Authentication Token",
    )


@pytest.mark.parametrize(
    ("tampered", "kind", "words"),
    [
        ({"authorization": "Bearer token"}, "IncompleteSignatureException", "'Credential' parameter"),
        ({"x-amz-date": "yesterday"}, "IncompleteSignatureException", "X-Amz-Date"),
        ({"x-amz-security-token": "session"}, "UnrecognizedClientException", "security token"),
        ({"x-amz-extra": "unsigned"}, "InvalidSignatureException", "'x-amz-extra' must be a 'SignedHeader'"),
    ],
)
async def test_malformed_authentication_is_named(site: Site, tampered: dict[str, str], kind: str, words: str) -> None:
    async with site.connect() as connection:
        stream = await connection.open(site.endpoint, tampered=tampered)
        status, error_type, body = await stream.error()
    assert (status, error_type) == (403, kind)
    assert words in body["Message"]


@pytest.mark.parametrize(("minutes", "words"), [(-6, "Signature expired: "), (6, "Signature not yet current: ")])
async def test_a_clock_that_is_off_is_refused(site: Site, minutes: int, words: str) -> None:
    async with site.connect() as connection:
        moment = datetime.now(UTC) + timedelta(minutes=minutes)
        stream = await connection.open(site.endpoint, moment=moment)
        status, kind, body = await stream.error()
    assert (status, kind) == (403, "InvalidSignatureException")
    assert body["Message"].startswith(words)
    assert moment.strftime("%Y%m%dT%H%M%SZ") in body["Message"]


async def test_a_clock_four_minutes_off_is_taken(site: Site) -> None:
    async with site.connect() as connection:
        stream = await connection.open(site.endpoint, moment=datetime.now(UTC) - timedelta(minutes=4))
        assert await stream.response() == 200


@pytest.mark.parametrize(
    ("field", "value", "words"), [("region", "eu-west-1", "'eu-west-1'"), ("service", "s3", "correct service")]
)
async def test_a_foreign_scope_is_refused(site: Site, field: str, value: str, words: str) -> None:
    async with site.connect() as connection:
        signer = site.signer()
        setattr(signer, field, value)
        stream = await connection.open(site.endpoint, signer=signer)
        status, kind, body = await stream.error()
    assert (status, kind) == (403, "InvalidSignatureException")
    assert words in body["Message"]


async def test_the_signature_comes_before_the_endpoint(site: Site) -> None:
    """Whoever has no valid key learns nothing about endpoints."""
    async with site.connect() as connection:
        stream = await connection.open("absent", signer=Signer(site.identity.access_key_id, "wrong"))
        assert (await stream.error())[0] == 403


async def refused_event(site: Site, stream: Any) -> str:
    event = await stream.next_event()
    assert event.headers[":message-type"] == "error"
    await stream.end()
    await_count = len(site.container.received)
    assert await_count == len(site.container.received)
    assert event.headers[":error-code"] == "InvalidSignatureException"
    return str(event.headers[":error-message"])


async def test_a_replayed_event_is_refused_and_not_delivered(site: Site) -> None:
    async with site.connect() as connection:
        stream = await connection.open(site.endpoint)
        await stream.response()
        signed = stream.signer.sign_event(payload_part(b"once"))
        await stream.send_raw(signed)
        assert (await stream.next_event()).payload == b"once"
        await stream.send_raw(signed)
        assert "does not match" in await refused_event(site, stream)
    assert site.container.received == [b"once"]


async def test_reordered_events_are_refused(site: Site) -> None:
    async with site.connect() as connection:
        stream = await connection.open(site.endpoint)
        await stream.response()
        first, second = (stream.signer.sign_event(payload_part(text)) for text in (b"1", b"2"))
        await stream.send_raw(second + first)
        assert "does not match" in await refused_event(site, stream)
    assert site.container.received == []


async def test_a_changed_payload_is_refused(site: Site) -> None:
    async with site.connect() as connection:
        stream = await connection.open(site.endpoint)
        await stream.response()
        signer, now = stream.signer, datetime.now(UTC)
        signer.sign_event(payload_part(b"as signed"), now)
        forged = frame(
            date_header(now) + bytes_header(":chunk-signature", bytes.fromhex(signer.previous)), payload_part(b"other")
        )
        await stream.send_raw(forged)
        assert "does not match" in await refused_event(site, stream)
    assert site.container.received == []


async def test_an_event_with_an_old_date_is_refused(site: Site) -> None:
    async with site.connect() as connection:
        stream = await connection.open(site.endpoint)
        await stream.response()
        await stream.send_raw(stream.signer.sign_event(payload_part(b"late"), datetime.now(UTC) - timedelta(minutes=6)))
        assert (await refused_event(site, stream)).startswith("Signature expired: ")


async def test_an_unsigned_event_is_refused(site: Site) -> None:
    async with site.connect() as connection:
        stream = await connection.open(site.endpoint)
        await stream.response()
        await stream.send_raw(payload_part(b"bare"))
        assert ":chunk-signature" in await refused_event(site, stream)


async def test_a_forged_end_of_input_is_refused(site: Site) -> None:
    async with site.connect() as connection:
        stream = await connection.open(site.endpoint)
        await stream.response()
        now = datetime.now(UTC)
        await stream.send_raw(frame(date_header(now) + bytes_header(":chunk-signature", bytes(32)), b""))
        assert "does not match" in await refused_event(site, stream)


async def test_events_signed_on_the_next_day_use_that_day(make_site: MakeSite) -> None:
    """A stream that runs past midnight UTC goes on: each event is signed with the key of its own day."""
    async with make_site(clock_skew_seconds=3 * 86400.0) as site, site.connect() as connection:
        stream = await connection.open(site.endpoint)
        await stream.response()
        tomorrow = datetime.now(UTC) + timedelta(days=1)
        await stream.send_raw(stream.signer.sign_event(payload_part(b"after midnight"), tomorrow))
        assert (await stream.next_event()).payload == b"after midnight"
    assert site.directory.endpoints[site.endpoint].status is EndpointStatus.IN_SERVICE
