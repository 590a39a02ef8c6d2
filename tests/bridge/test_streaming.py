"""The stream through the bridge: what goes in comes out, unchanged and whole, whatever the far side does."""

import asyncio
import json
import signal
import socket
from time import monotonic

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests.bridge.staging import (
    APPEND,
    COMMIT,
    FINAL,
    UPDATE,
    Process,
    Stage,
    Vllm,
    client,
    eventually,
    hear,
    hear_until,
    hear_until_close,
    say,
)


@pytest.mark.parametrize("path", ["/invocations-bidirectional-stream", "/v1/realtime"])
async def test_utterances_on_both_paths(running: tuple[Vllm, Process], path: str) -> None:
    vllm, bridge = running
    async with client(bridge, path) as ear:
        assert (await hear(ear))["type"] == "session.created"
        for _ in range(2):
            await say(ear, UPDATE, COMMIT, APPEND, APPEND, FINAL)
            events = await hear_until(ear, "transcription.done")
            assert [event["type"] for event in events] == ["transcription.delta"] * 2 + ["transcription.done"]
    assert ear.close_code == 1000
    [closed] = await eventually(lambda: bridge.log("session_closed"), "session is logged closed")
    assert (closed["reason"], closed["close_code"]) == ("completed", 1000)
    assert (closed["messages_in"], closed["audio_seconds"]) == (10, pytest.approx(4 * 0.08, abs=0.01))
    assert await eventually(lambda: vllm.notes("closed"), "vLLM's side is closed") == [
        {"event": "closed", "code": 1000}
    ]


async def test_text_passes_byte_for_byte_and_binary_as_text(running: tuple[Vllm, Process]) -> None:
    _, bridge = running
    odd = '{"type" : "x",\n "t":"\\u00e9 é 漢 \\ud83d", "a":1.0e5}'
    async with client(bridge, "/v1/realtime?echo=1") as ear:
        await hear(ear)
        await ear.send(odd)
        assert await ear.recv() == odd
        await ear.send(odd.encode())
        assert await ear.recv() == odd
        await ear.send([odd[:9], odd[9:20], odd[20:]])  # fragments of one message
        assert await ear.recv() == odd


async def test_invalid_binary_frame_gets_an_error_event_and_the_session_goes_on(running: tuple[Vllm, Process]) -> None:
    vllm, bridge = running
    async with client(bridge) as ear:
        await hear(ear)
        await ear.send(b"\xff\x00\xfe")
        event = await hear(ear)
        assert (event["type"], event["code"]) == ("error", "invalid_frame")
        assert isinstance(event["error"], str)
        await say(ear, UPDATE, COMMIT, APPEND, FINAL)
        assert (await hear_until(ear, "transcription.done"))[-1]["text"] == "w "
    assert not [note for note in vllm.notes() if note["event"] == "error"]


async def test_large_messages_pass_both_ways(running: tuple[Vllm, Process]) -> None:
    _, bridge = running
    async with client(bridge, "/v1/realtime?echo=1") as ear:
        await hear(ear)
        large = json.dumps({"type": "x", "data": "z" * 12_000_000})
        await ear.send(large)
        assert await ear.recv() == large


async def test_too_large_a_message_of_vllm_is_told(stage: Stage) -> None:
    stage.vllm()
    bridge = stage.bridge(BRIDGE_MAX_MESSAGE_BYTES="100000")
    async with client(bridge, "/v1/realtime?big=200000") as ear:
        await say(ear, UPDATE, COMMIT, APPEND, FINAL)
        events = await hear_until_close(ear)
    assert events[-1]["code"] == "upstream_message_too_big"
    assert ear.close_code == 1011


async def test_too_large_a_message_is_refused_with_a_reason(stage: Stage) -> None:
    stage.vllm()
    bridge = stage.bridge(BRIDGE_MAX_MESSAGE_BYTES="100000")
    async with client(bridge) as ear:
        await hear(ear)
        await ear.send("z" * 3_000_000)
        events = await hear_until_close(ear)
    assert [event["code"] for event in events] == ["message_too_big"]
    assert ear.close_code == 1009
    [closed] = await eventually(lambda: bridge.log("session_closed"), "closed")
    assert closed["reason"] == "client_protocol_error"


async def test_half_close_with_output_still_to_come_loses_nothing(running: tuple[Vllm, Process]) -> None:
    """vLLM has 3 s of output to send when the client closes its side with the audio not even ended."""
    vllm, bridge = running
    async with client(bridge, "/v1/realtime?tail=3&big=2000000") as ear:
        await say(ear, UPDATE, COMMIT, APPEND)
        await hear_until(ear, "transcription.delta")
        closing = asyncio.create_task(ear.close())
        events = await hear_until_close(ear)
        await closing
    assert [event["delta"] for event in events[:-1]] == [f"t{step} " for step in range(30)]
    assert events[-1]["type"] == "transcription.done"
    assert events[-1]["text"] == "b" * 2_000_000
    assert ear.close_code == 1000
    assert [note["final"] for note in vllm.notes("input_audio_buffer.commit")] == [False, True]


@pytest.mark.parametrize("half_close_tcp", [False, True])
async def test_half_close_answers_pings_meanwhile(running: tuple[Vllm, Process], half_close_tcp: bool) -> None:
    """SageMaker pings the container and gives it up when it stays silent; a proxy may close its half of TCP too."""
    _, bridge = running
    reader, writer = await asyncio.open_connection("127.0.0.1", bridge.port)
    writer.write(
        b"GET /v1/realtime?tail=1 HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )

    async with asyncio.timeout(10):
        assert b" 101 " in await reader.readuntil(b"\r\n\r\n")

        def masked(opcode: int, payload: bytes) -> bytes:
            return bytes([0x80 | opcode, 0x80 | len(payload), 0, 0, 0, 0]) + payload

        writer.write(masked(1, json.dumps(COMMIT).encode()) + masked(8, b"\x03\xe8") + masked(9, b"still there?"))
        if half_close_tcp:
            writer.write_eof()
        everything = await reader.read(-1)
    writer.close()
    assert everything.index(b"\x8a\x0cstill there?") < everything.index(b"transcription.done")
    assert everything.endswith(b"\x88\x0b\x03\xe8completed")


@pytest.mark.parametrize("way", ["reset", "eof"])
async def test_vanished_client_leaves_no_request_running(running: tuple[Vllm, Process], way: str) -> None:
    """vLLM up to 0.30 never aborts the request of a vanished client, and an abrupt close once crashed it."""
    vllm, bridge = running
    ear = await client(bridge, "/v1/realtime?tail=0.5")
    await say(ear, UPDATE, COMMIT, APPEND)
    await hear_until(ear, "transcription.delta")
    if way == "reset":
        ear.transport.abort()
    else:
        raw = ear.transport.get_extra_info("socket")
        raw.shutdown(socket.SHUT_WR)
    await eventually(lambda: vllm.notes("closed"), "vLLM's side is closed")
    assert vllm.notes()[-2]["final"] is True
    assert vllm.notes()[-1] == {"event": "closed", "code": 1000}
    [closed] = await eventually(lambda: bridge.log("session_closed"), "closed")
    assert closed["reason"] == "client_gone"
    await ear.close()


async def test_client_gone_between_utterances_sends_no_final_commit(running: tuple[Vllm, Process]) -> None:
    """It would end the next utterance at once (a trap of vLLM)."""
    vllm, bridge = running
    async with client(bridge) as ear:
        await say(ear, UPDATE)
        await hear(ear)
    await eventually(lambda: vllm.notes("closed"), "closed")
    assert vllm.notes("input_audio_buffer.commit") == []


async def test_slow_reader_slows_the_engine_and_gets_everything(stage: Stage) -> None:
    stage.vllm()
    bridge = stage.bridge()
    async with client(bridge, "/v1/realtime?flood=400", max_queue=1) as ear:
        await say(ear, COMMIT)
        before = memory_kb(bridge.popen.pid)
        await asyncio.sleep(1.5)
        grown = memory_kb(bridge.popen.pid) - before
        await say(ear, FINAL)
        events = await hear_until(ear, "transcription.done")
    assert len(events) == 402
    assert grown < 8_000, "26 MB were on their way, and the bridge kept them"


async def test_slow_engine_slows_the_client(stage: Stage) -> None:
    """And one that reads nothing at all is given up, with the client told."""
    stage.vllm()
    bridge = stage.bridge(BRIDGE_STALL_TIMEOUT="1.2", BRIDGE_CLOSE_TIMEOUT="0.2")
    async with client(bridge, "/v1/realtime?deaf=1") as ear:
        await hear(ear)
        before, sent = memory_kb(bridge.popen.pid), 0

        async def pour() -> None:
            nonlocal sent
            while True:
                await ear.send("x" * 65536)
                sent += 65536

        pouring = asyncio.create_task(pour())
        await asyncio.sleep(1.0)
        assert memory_kb(bridge.popen.pid) - before < 8_000
        assert sent < 40_000_000
        events = await hear_until_close(ear)
        with pytest.raises(ConnectionClosed):
            await pouring
    assert [event["code"] for event in events] == ["upstream_stalled"]
    assert ear.close_code == 1011


async def test_handshake_is_answered_while_vllm_is_slow(running: tuple[Vllm, Process]) -> None:
    """Within 250 ms; a machine that is busy elsewhere gets a few tries."""
    _, bridge = running
    for tries_left in range(4, -1, -1):
        started = monotonic()
        async with client(bridge, "/v1/realtime?accept_delay=1") as ear:
            if monotonic() - started >= 0.25 and tries_left:
                continue
            assert monotonic() - started < 0.25
            await say(ear, UPDATE, COMMIT, APPEND, FINAL)
            assert (await hear_until(ear, "transcription.done"))[-1]["text"] == "w "
            return


async def test_other_websocket_paths_are_refused(stage: Stage) -> None:
    bridge = stage.bridge(healthy=False)
    with pytest.raises(InvalidStatus, match="404"):
        await client(bridge, "/v1/other")


async def test_many_sessions_leave_nothing_behind(stage: Stage) -> None:
    vllm, bridge = stage.vllm(), stage.bridge()

    async def one(number: int) -> None:
        async with client(bridge) as ear:
            await say(ear, UPDATE, COMMIT, APPEND)
            await hear_until(ear, "transcription.delta")
            if number % 2:
                ear.transport.abort()

    for number in range(20):
        await one(number)
    await eventually(lambda: len(vllm.notes("closed")) == 20, "warm")
    files, memory = open_files(bridge.popen.pid), memory_kb(bridge.popen.pid)
    for start in range(0, 100, 10):
        async with asyncio.TaskGroup() as tasks:
            for number in range(start, start + 10):
                tasks.create_task(one(number))
    await eventually(lambda: len(vllm.notes("closed")) == 120, "every upstream session is closed")
    await eventually(lambda: len(bridge.log("session_closed")) == 120, "every session is closed")
    await eventually(lambda: open_files(bridge.popen.pid) <= files, "no socket is left")
    assert memory_kb(bridge.popen.pid) - memory < 3_000


async def test_stopped_bridge_lets_a_generation_finish(stage: Stage) -> None:
    stage.vllm()
    bridge = stage.bridge()
    async with client(bridge, "/v1/realtime?tail=0.5") as ear, client(bridge) as idle:
        await hear(idle)
        await say(ear, UPDATE, COMMIT, APPEND, FINAL)
        await hear_until(ear, "transcription.delta")
        bridge.signal(signal.SIGTERM)
        events = await hear_until_close(ear)
        told = await hear_until_close(idle)
    assert [event["type"] for event in events[-2:]] == ["transcription.done", "error"]
    assert [event["code"] for event in told] == ["shutting_down"]
    assert (ear.close_code, idle.close_code) == (1012, 1012)
    assert bridge.wait() == 0


async def test_stopped_bridge_ends_a_generation_at_its_limit(stage: Stage) -> None:
    vllm = stage.vllm()
    bridge = stage.bridge(BRIDGE_SHUTDOWN_DRAIN="0.5")
    async with client(bridge) as ear:
        await say(ear, UPDATE, COMMIT, APPEND)
        await hear_until(ear, "transcription.delta")
        bridge.signal(signal.SIGTERM)
        events = await hear_until_close(ear)
    assert [event["type"] for event in events] == ["transcription.done", "error"]
    assert vllm.notes("input_audio_buffer.commit")[-1]["final"] is True
    assert bridge.wait() == 0


def memory_kb(pid: int) -> int:
    import psutil

    return int(psutil.Process(pid).memory_info().rss) // 1024


def open_files(pid: int) -> int:
    import psutil

    return int(psutil.Process(pid).num_fds())
