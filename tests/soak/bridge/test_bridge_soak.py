"""The bridge over hundreds of sessions and over an hour of speech: nothing is left behind, nothing grows."""

import asyncio
import gc
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from websockets.exceptions import ConnectionClosed

from tests.bridge.staging import (
    APPEND,
    COMMIT,
    FINAL,
    UPDATE,
    Process,
    Stage,
    client,
    eventually,
    free_port,
    hear,
    hear_until,
    say,
)
from voxtral_bridge.port import Bridge
from voxtral_bridge.session import Session
from voxtral_bridge.settings import BridgeSettings
from voxtral_bridge.web_socket import WebSocket

pytestmark = [pytest.mark.soak, pytest.mark.timeout(240)]

ROOT = Path(__file__).parents[3]
CYCLES = 300
WAYS = ("closed", "reset", "half-closed", "at once", "vLLM closes", "idle")
APPENDS_OF_AN_HOUR = int(3600 / 0.08)
APPENDS_OF_AN_UTTERANCE = 15 * 100 // 8


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    it = Stage(tmp_path)
    try:
        yield it
    finally:
        it.close()


async def one_session(port_of: Process, way: str) -> None:
    """Open a session and leave it in one of the ways in which sessions end."""
    path = "/v1/realtime?close=1000" if way == "vLLM closes" else "/invocations-bidirectional-stream"
    async with client(port_of, path) as ear:
        if way == "at once":
            return
        await hear(ear)
        if way == "idle":
            return
        await say(ear, UPDATE, COMMIT, APPEND)
        if way == "vLLM closes":
            with pytest.raises(ConnectionClosed):
                await hear_until(ear, "never")
            return
        await hear_until(ear, "transcription.delta")
        if way == "reset":
            ear.transport.abort()
        elif way == "closed":
            await say(ear, FINAL)
            await hear_until(ear, "transcription.done")


async def test_sessions_leave_no_socket_and_no_memory(stage: Stage) -> None:
    vllm, bridge = stage.vllm(), stage.bridge()
    process = psutil.Process(bridge.popen.pid)

    async def cycle(first: int, last: int) -> None:
        for number in range(first, last):
            await one_session(bridge, WAYS[number % len(WAYS)])
        await eventually(lambda: len(bridge.log("session_closed")) == last, "every session is closed")
        await eventually(lambda: len(vllm.notes("closed")) == len(vllm.notes("opened")), "and on vLLM's side")

    await cycle(0, 60)
    files, memory = process.num_fds(), process.memory_info().rss
    await cycle(60, 60 + CYCLES)
    await eventually(lambda: process.num_fds() <= files, "no socket is left")
    assert process.num_threads() == 1
    assert process.memory_info().rss - memory < 1_000_000


async def test_sessions_leave_no_task_and_no_object(stage: Stage) -> None:
    """The same in this process, where tasks and objects can be counted."""
    vllm = stage.vllm()
    settings = BridgeSettings(port=free_port(), vllm_port=vllm.port)
    here = Process(vllm.popen, settings.port, vllm.output)
    stop = asyncio.Event()
    serving = asyncio.create_task(Bridge(settings).run(stop))
    await asyncio.sleep(0.2)

    def left() -> list[str]:
        gc.collect()
        objects = [type(it).__name__ for it in gc.get_objects() if isinstance(it, Session | WebSocket)]
        return sorted([str(task.get_coro()).split()[2] for task in asyncio.all_tasks()] + objects)

    before = left()
    for number in range(CYCLES // 3):
        await one_session(here, WAYS[number % len(WAYS)])
    for _ in range(100):
        await asyncio.sleep(0.1)
        if left() == before:
            break
    assert left() == before
    stop.set()
    await serving


async def test_an_hour_of_speech_in_one_session(stage: Stage) -> None:
    """As fast as it goes, in utterances of 15 s; vLLM answers every piece."""
    stage.vllm()
    bridge = stage.bridge(SM_VLLM_MAX_MODEL_LEN="45000")
    process = psutil.Process(bridge.popen.pid)
    memory: list[int] = []
    async with client(bridge) as ear:
        await say(ear, UPDATE)
        for _ in range(APPENDS_OF_AN_HOUR // APPENDS_OF_AN_UTTERANCE):
            await say(ear, COMMIT)
            async with asyncio.TaskGroup() as tasks:
                hearing = tasks.create_task(hear_until(ear, "transcription.done"))
                await say(ear, *[APPEND] * APPENDS_OF_AN_UTTERANCE, FINAL)
            deltas = [event for event in hearing.result() if event["type"] == "transcription.delta"]
            assert len(deltas) == APPENDS_OF_AN_UTTERANCE
            memory.append(process.memory_info().rss)
    [closed] = await eventually(lambda: bridge.log("session_closed"), "closed")
    assert closed["audio_seconds"] == pytest.approx(3600, rel=0.01)
    assert closed["reason"] == "completed"
    warm = memory[len(memory) // 10]
    assert max(memory[len(memory) // 10 :]) - warm < 1_000_000, "memory grows with the audio"


def test_the_benchmark_runs() -> None:
    command = [sys.executable, str(ROOT / "benchmarks" / "bridge.py"), "--quick", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    figures = json.loads(done.stdout)
    plain = figures.pop("plain")
    promised = {
        "added_p50_ms",
        "added_p99_ms",
        "cpu_us_per_round_trip",
        "cpu_percent_100_sessions",
        "rss_mb_idle",
        "rss_kb_per_session",
        "messages_per_s_one_way",
    }
    assert promised <= set(figures)
    assert set(figures) == set(plain)
    assert figures["rss_mb_idle"] <= 32
    assert figures["rss_kb_per_session"] <= 34
