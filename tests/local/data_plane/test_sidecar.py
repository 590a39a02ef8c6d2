"""A variant without an inference AMI: as on AWS, where the sidecar that opens the socket is missing, streams hang."""

import asyncio
import logging
from dataclasses import replace

import pytest

from voice_local.interfaces import EndpointStatus

from .conftest import MakeSite, Site


def without_sidecar(site: Site) -> None:
    [serving] = site.directory.endpoints[site.endpoint].containers
    site.directory.put(site.endpoint, EndpointStatus.IN_SERVICE, replace(serving, sidecar=False))


async def test_a_stream_is_not_answered_and_never_reaches_the_container(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    without_sidecar(site)
    async with site.connect() as connection:
        with caplog.at_level(logging.WARNING, "voice_local.data_plane"):
            stream = await connection.open(site.endpoint)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(stream.response(), 0.5)
    assert "names no InferenceAmiVersion" in caplog.text, "the one who runs the local cloud is told the cause"
    assert site.container.received == []


async def test_it_hangs_no_longer_than_a_stream_may_last(make_site: MakeSite) -> None:
    async with make_site(longest_stream_seconds=0.2) as site, site.connect() as connection:
        without_sidecar(site)
        stream = await connection.open(site.endpoint)

        assert await stream.response() == 503
