"""vLLM dies, hangs or refuses; clients are idle, too many, or talk too long: everybody is told, nothing hangs."""

import asyncio
import re
import signal
from collections.abc import Iterator
from contextlib import suppress
from time import monotonic

import pytest
from websockets.utils import accept_key

from tests.bridge.staging import (
    APPEND,
    COMMIT,
    FINAL,
    UPDATE,
    Stage,
    client,
    eventually,
    hear,
    hear_until,
    hear_until_close,
    ping,
    say,
    wait_until,
)


async def test_vllm_killed_mid_stream(stage: Stage) -> None:
    vllm, bridge = stage.vllm(), stage.bridge()
    async with client(bridge) as ear:
        await say(ear, UPDATE, COMMIT, APPEND)
        await hear_until(ear, "transcription.delta")
        vllm.signal(signal.SIGKILL)
        killed = monotonic()
        events = await hear_until_close(ear)
        assert monotonic() - killed < 1.0
    assert [event["code"] for event in events] == ["upstream_died"]
    assert isinstance(events[0]["error"], str)
    assert (ear.close_code, ear.close_reason) == (1011, "upstream_died")
    await eventually(lambda: ping(bridge.port) == 503, "/ping says so")


async def test_vllm_killed_after_the_client_ended_its_input(stage: Stage) -> None:
    """The session is being drained: the output is cut short, so it must not look complete."""
    vllm, bridge = stage.vllm(), stage.bridge()
    async with client(bridge, "/v1/realtime?tail=5") as ear:
        await say(ear, UPDATE, COMMIT, APPEND, FINAL)
        await hear_until(ear, "transcription.delta")
        closing = asyncio.create_task(ear.close())
        await asyncio.sleep(0.3)
        vllm.signal(signal.SIGKILL)
        events = await hear_until_close(ear)
        await closing
    assert events[-1]["code"] == "upstream_closed"
    [closed] = await eventually(lambda: bridge.log("session_closed"), "closed")
    assert closed["close_code"] == 1011


async def test_vllm_closing_is_told(stage: Stage) -> None:
    stage.vllm()
    bridge = stage.bridge()
    for code in (1000, 1008):
        async with client(bridge, f"/v1/realtime?close={code}") as ear:
            await say(ear, UPDATE, APPEND)
            events = await hear_until_close(ear)
        assert events[-1]["code"] == "upstream_closed"
        assert str(code) in events[-1]["error"]
        assert ear.close_code == 1011


async def test_stopped_vllm_is_found_by_ping_and_by_its_sessions(stage: Stage) -> None:
    """SIGSTOP: it still accepts TCP connections and answers nothing."""
    vllm, bridge = stage.vllm(), stage.bridge(BRIDGE_UNRESPONSIVE_TIMEOUT="0.7", BRIDGE_CLOSE_TIMEOUT="0.3")
    async with client(bridge) as ear:
        await say(ear, UPDATE, COMMIT, APPEND)
        await hear_until(ear, "transcription.delta")
        vllm.signal(signal.SIGSTOP)
        stopped = monotonic()
        await eventually(lambda: ping(bridge.port) == 503, "/ping is 503")
        assert monotonic() - stopped < 5.0
        events = await hear_until_close(ear)
    assert events[-1]["code"] == "upstream_unresponsive"
    assert ear.close_code == 1011
    vllm.signal(signal.SIGCONT)
    await eventually(lambda: ping(bridge.port) == 200, "/ping is 200 again")
    async with client(bridge) as ear:
        assert (await hear(ear))["type"] == "session.created"


async def test_engine_gone_silent_is_found(stage: Stage) -> None:
    """The server answers pings, its engine gives nothing (vLLM #36015)."""
    vllm = stage.vllm()
    bridge = stage.bridge(BRIDGE_STALL_TIMEOUT="0.6")
    async with client(bridge, "/v1/realtime?silent=1") as ear:
        await say(ear, UPDATE, COMMIT, *[APPEND] * 20)
        events = await hear_until_close(ear)
    assert events[-1]["code"] == "upstream_stalled"
    assert ear.close_code == 1011
    await eventually(lambda: vllm.notes("closed"), "vLLM's side is closed")
    assert vllm.notes()[-2]["final"] is True


async def test_client_that_pauses_is_not_taken_for_a_stall(stage: Stage) -> None:
    stage.vllm()
    bridge = stage.bridge(BRIDGE_STALL_TIMEOUT="0.4")
    async with client(bridge) as ear:
        await say(ear, UPDATE, COMMIT, APPEND)
        await hear_until(ear, "transcription.delta")
        await asyncio.sleep(1.0)
        await say(ear, APPEND, FINAL)
        assert (await hear_until(ear, "transcription.done"))[-1]["text"] == "w w "


async def test_engine_that_never_finishes_does_not_hold_a_client_that_ended(stage: Stage) -> None:
    stage.vllm()
    bridge = stage.bridge(BRIDGE_DRAIN_TIMEOUT="0.5")
    async with client(bridge, "/v1/realtime?silent=1") as ear:
        await say(ear, UPDATE, COMMIT, APPEND)
        closing = asyncio.create_task(ear.close())
        events = await hear_until_close(ear)
        await closing
    assert events[-1]["code"] == "drain_timeout"


async def test_no_vllm_at_all(stage: Stage) -> None:
    bridge = stage.bridge(healthy=False)
    assert ping(bridge.port) == 503
    async with client(bridge) as ear:
        events = await hear_until_close(ear)
    assert [event["code"] for event in events] == ["upstream_unavailable"]
    assert (ear.close_code, ear.close_reason) == (1011, "upstream_unavailable")


@pytest.fixture(scope="module")
def impatient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """A stage for what is no vLLM, with a bridge that waits for it no longer than 0.4 s."""
    stage = Stage(tmp_path_factory.mktemp("impatient"))
    try:
        stage.bridge(healthy=False, BRIDGE_CONNECT_TIMEOUT="0.4", BRIDGE_CLOSE_TIMEOUT="0.2")
        yield stage
    finally:
        stage.close()


ACCEPTED = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: "


@pytest.mark.parametrize(
    ("answer", "code", "why"),
    [
        (b"", "upstream_unavailable", "did not answer in time"),
        (b"HTTP/1.1 101 Switch", "upstream_unavailable", "did not answer in time"),
        (b"HTTP/1.1 403 Forbidden\r\nContent-Length: 8\r\n\r\nnot here", "upstream_unavailable", "HTTP 403"),
        (b"\x00\x01garbage\r\n\r\n", "upstream_unavailable", "valid HTTP"),
        (b"x" * 70_000, "upstream_unavailable", "8192 bytes"),
        (ACCEPTED + b"another\r\n\r\n", "upstream_unavailable", "Sec-WebSocket-Accept"),
        (ACCEPTED + b"KEY\r\n\r\n\x81\x82\0\0\0\0{}", "upstream_unavailable", "before a session was open"),  # masked
        (
            ACCEPTED + b"KEY\r\n\r\n\x88\x02\x00\x01",
            "upstream_unavailable",
            "before a session was open",
        ),  # no close code
    ],
)
async def test_what_is_no_vllm_is_told_as_a_failure_of_vllm(
    impatient: Stage, answer: bytes, code: str, why: str
) -> None:
    """Whatever stands on vLLM's port, the client gets an error event and a close code, and the bridge goes on."""

    async def impostor(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        key = re.search(rb"(?i)sec-websocket-key: (\S+)", head)
        writer.write(answer.replace(b"KEY", accept_key(key[1].decode()).encode() if key else b""))
        with suppress(ConnectionError):
            await reader.read()  # until the bridge has had enough
        writer.close()

    [bridge] = impatient.started
    server = await asyncio.start_server(impostor, "127.0.0.1", impatient.vllm_port)
    try:
        async with client(bridge) as ear:
            [event] = await hear_until_close(ear)
    finally:
        server.close()
    assert (event["code"], ear.close_code) == (code, 1011)
    assert why in event["error"]


def test_ping_follows_vllm(stage: Stage) -> None:
    bridge = stage.bridge(healthy=False)
    assert ping(bridge.port) == 503
    vllm = stage.vllm()
    wait_until(lambda: ping(bridge.port) == 200, "healthy once vLLM answers")
    vllm.signal(signal.SIGKILL)
    wait_until(lambda: ping(bridge.port) == 503, "down once vLLM is gone")
    vllm.wait()
    stage.vllm(SCRIPTED_VLLM_HEALTH="503")
    wait_until(lambda: any("503" in line["detail"] for line in bridge.log("health")), "vLLM's own 503 is seen")
    assert ping(bridge.port) == 503


async def test_idle_client_is_finished_and_told(stage: Stage) -> None:
    """vLLM #46815: it would hold the KV cache for ever."""
    vllm = stage.vllm()
    bridge = stage.bridge(BRIDGE_IDLE_TIMEOUT="0.8")
    async with client(bridge) as ear:
        await say(ear, UPDATE, COMMIT, APPEND)
        events = await hear_until_close(ear)
    assert [event["type"] for event in events[-2:]] == ["transcription.done", "error"]
    assert events[-1]["code"] == "idle_timeout"
    assert (ear.close_code, ear.close_reason) == (1008, "idle_timeout")
    assert await eventually(lambda: vllm.notes("closed"), "vLLM's side is closed") == [
        {"event": "closed", "code": 1000}
    ]


async def test_one_session_too_many_is_told_at_once(stage: Stage) -> None:
    """vLLM #38233: it would hang. The place is free again when a session ends."""
    stage.vllm()
    bridge = stage.bridge(SM_VLLM_MAX_NUM_SEQS="2")
    async with client(bridge) as first, client(bridge) as second:
        await hear(first)
        await hear(second)
        started = monotonic()
        async with client(bridge) as third:
            events = await hear_until_close(third)
        assert monotonic() - started < 1.0
        assert [event["code"] for event in events] == ["session_limit"]
        assert third.close_code == 1013
    await eventually(lambda: len(bridge.log("session_closed")) == 2, "both are closed")
    async with client(bridge) as fourth:
        assert (await hear(fourth))["type"] == "session.created"


async def test_audio_beyond_the_models_length_ends_the_session_before_the_engine_does(stage: Stage) -> None:
    """MAX_MODEL_LEN 100 is 8 s of audio, 2.88 s with the margin: 36 pieces of 80 ms go in, the 37th does not."""
    vllm = stage.vllm()
    bridge = stage.bridge(SM_VLLM_MAX_MODEL_LEN="100")
    async with client(bridge) as ear:
        await say(ear, UPDATE, COMMIT, *[APPEND] * 60)
        events = await hear_until_close(ear)
    assert events[-1]["code"] == "session_length_limit"
    assert events[-2]["type"] == "transcription.done"
    assert ear.close_code == 1008
    assert len(vllm.notes("input_audio_buffer.append")) == 35
    assert vllm.notes("input_audio_buffer.commit")[-1]["final"] is True


async def test_the_length_counts_for_each_utterance(stage: Stage) -> None:
    stage.vllm()
    bridge = stage.bridge(SM_VLLM_MAX_MODEL_LEN="100")
    async with client(bridge) as ear:
        await say(ear, UPDATE)
        for _ in range(3):
            await say(ear, COMMIT, *[APPEND] * 30, FINAL)
            assert (await hear_until(ear, "transcription.done"))[-1]["type"] == "transcription.done"


async def test_client_that_reads_nothing_is_given_up(stage: Stage) -> None:
    vllm = stage.vllm()
    bridge = stage.bridge(BRIDGE_STALL_TIMEOUT="0.6", BRIDGE_DRAIN_TIMEOUT="0.3", BRIDGE_CLOSE_TIMEOUT="0.2")
    async with client(bridge, "/v1/realtime?flood=400", max_queue=1) as ear:
        await say(ear, COMMIT)
        [closed] = await eventually(lambda: bridge.log("session_closed"), "the session is closed")
        ear.transport.abort()
    assert bridge.log("session_error")[0]["code"] in ("client_stalled", "drain_timeout")
    assert closed["seconds"] < 8
    await eventually(lambda: vllm.notes("closed"), "vLLM's side is closed")
