"""A thousand streams opened and dropped in every way leave no socket, no task and no memory behind."""

import asyncio
import gc
import random
import tracemalloc
from collections.abc import Iterator
from contextlib import AsyncExitStack
from typing import Any

import psutil
import pytest
from websockets.asyncio.client import ClientConnection

from tests.local.data_plane.conftest import MakeSite, Site, make_site, tls
from tests.local.data_plane.waiting import until
from voice_local.data_plane import Fault
from voice_local.data_plane.bidirectional import BidirectionalRelay
from voice_local.data_plane.fault_plan import StreamTriggers
from voice_local.data_plane.http2 import Http2Connection, Http2Stream

__all__ = ["make_site", "tls"]  # fixtures of the quick tests

pytestmark = [pytest.mark.soak, pytest.mark.timeout(240)]

STREAMS = 1000
PER_CONNECTION = 25
DROPS = ("end", "reset", "connection", "half a frame", "container", "fault")
OURS = (BidirectionalRelay, Http2Connection, Http2Stream, StreamTriggers, ClientConnection)
GROWTH = 100 * 1024
"""Bytes of Python memory that may come on top after the warm-up, for caches: 100 bytes a stream. A stream that is kept
holds some 20 KB."""
FAULTS = (
    "reset-stream,random=0..2,seed={seed}",
    "kill-connection,random=0..2,seed={seed}",
    "go-away-now,random=0..2,seed={seed}",
    "go-away,random=0..2,seed={seed}",
    "stop-writing,random=0..2,seed={seed}",
    "model-stream-error,random=0..2,seed={seed}",
    "corrupt-frame,random=0..2,seed={seed}",
    "kill-connection,before-headers",
    "refuse",
)


async def drop(stream: Any, how: str) -> None:
    """Use a stream a little and leave it."""
    await stream.send(b"x" * 3000)
    match how:
        case "end":
            await stream.next_event()
            await stream.end_input()
            await stream.end()
        case "reset":
            stream.connection.reset(stream)
        case "half a frame":
            await stream.send_raw(stream.signer.sign_event(b"")[:7])
        case _:
            pass  # the connection, the container or a fault ends it


async def many(site: Site, streams: int, draws: random.Random) -> None:
    """Open streams on connections of 25, one after the other, and drop each in a way of its own."""
    for _ in range(streams // PER_CONNECTION):
        how = [draws.choice(DROPS) for _ in range(PER_CONNECTION)]
        if "fault" in how:
            site.plane.faults.arm(Fault.parse(draws.choice(FAULTS).format(seed=draws.randrange(1000))))
        async with AsyncExitStack() as held:
            connection = await held.enter_async_context(site.connect())
            for each in how:
                path = {"x-amzn-sagemaker-model-invocation-path": "die-after/1"} if each == "container" else {}
                try:
                    async with asyncio.timeout(5):
                        stream = await connection.open(site.endpoint, headers=path)
                        if await stream.response() == 200:
                            await drop(stream, each)
                except (AssertionError, ConnectionError, TimeoutError):
                    break  # a fault ended the connection; the rest of it cannot be opened
        site.plane.faults.clear()


def ours() -> Iterator[object]:
    gc.collect()
    return (kept for kept in gc.get_objects() if type(kept) in OURS)


def forget(site: Site) -> None:
    """Empty what the scripted container wrote down, and the garbage."""
    for log in (site.container.received, site.container.requests, site.container.close_codes):
        log.clear()
    gc.collect()


async def quiet(site: Site) -> None:
    await until(lambda: site.plane.connection_count == 0 and site.container.open_sockets == 0, 60)


async def test_dropped_streams_leave_nothing(make_site: MakeSite) -> None:
    draws = random.Random(4)  # noqa: S311 - no secret
    process = psutil.Process()
    async with make_site(websocket_close_seconds=0.5, farewell_seconds=0.5, request_end_seconds=0.5) as site:
        tracemalloc.start()
        try:
            await many(site, 200, draws)
            await quiet(site)
            forget(site)
            tasks, files = len(asyncio.all_tasks()), process.num_fds()
            before, _ = tracemalloc.get_traced_memory()
            await many(site, STREAMS, draws)
            await quiet(site)
            forget(site)
            kept = [type(each).__name__ for each in ours()]
            after, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        await until(lambda: len(asyncio.all_tasks()) <= tasks, 30)
        await until(lambda: process.num_fds() <= files, 30)
    assert kept == []
    assert after - before < GROWTH
