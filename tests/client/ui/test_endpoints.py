"""What a user is promised of the endpoints that all tabs share: looked up once, and anew when they are refused."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from voice_client.cli.options import where
from voice_client.errors import ConnectError, CredentialsError, EndpointNotFoundError, VoiceError
from voice_client.session.connection import MessageStream
from voice_client.session.endpoint import Endpoint, EndpointAddress
from voice_client.ui import endpoints
from voice_client.ui.endpoints import SharedEndpoints


@pytest.mark.parametrize(
    ("refusal", "look_ups"),
    [(CredentialsError("expired"), 2), (EndpointNotFoundError("gone"), 2), (ConnectError("no network"), 1)],
)
async def test_who_logs_in_again_need_not_start_the_page_anew(
    monkeypatch: pytest.MonkeyPatch, refusal: VoiceError, look_ups: int
) -> None:
    looked_up: list[EndpointAddress] = []
    closed: list[str] = []

    @asynccontextmanager
    async def look_up(address: EndpointAddress, *, invocation_path: str | None) -> AsyncIterator[Endpoint]:
        looked_up.append(address)

        async def refused() -> MessageStream:
            raise refusal

        yield Endpoint(f"ear-{len(looked_up)}", invocation_path, refused)
        closed.append("closed")

    monkeypatch.setattr(endpoints, "open_endpoint", look_up)
    place = where(stage=None, endpoint="ear", region=None, endpoint_url=None, ca_bundle=None, model=None)
    async with SharedEndpoints(place, place) as shared:
        ear = await shared.ear()
        assert (await shared.ear()).opener is ear.opener, "one connection for all tabs"
        with pytest.raises(type(refusal)):
            await ear.opener()

        assert (await shared.ear()).name == f"ear-{look_ups}"
        assert not closed, "other tabs may still speak"
    assert len(closed) == look_ups
