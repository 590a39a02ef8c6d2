"""Traps of vLLM's realtime server that the recordings do not hold, and its command line."""

import asyncio
import base64
import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import httpx
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from voice_local.containers.stand_in_vllm.command_line import CommandLineError, parse_serve_command

VOXTRAL = "mistralai/Voxtral-Mini-4B-Realtime-2602"
STEP_BYTES = 1280 * 2
"""One token: 80 ms of PCM16 at 16 kHz."""

VllmServer = Callable[..., AbstractContextManager[Any]]


async def send(stream: ClientConnection, kind: str, **fields: Any) -> None:
    await stream.send(json.dumps({"type": kind, **fields}))


async def append(stream: ClientConnection, steps: int) -> None:
    await send(stream, "input_audio_buffer.append", audio=base64.b64encode(bytes(steps * STEP_BYTES)).decode())


async def receive(stream: ClientConnection) -> dict[str, Any]:
    async with asyncio.timeout(5):
        event: dict[str, Any] = json.loads(await stream.recv())
    return event


async def rest_of_utterance(stream: ClientConnection) -> tuple[list[str], dict[str, Any]]:
    deltas = []
    while (event := await receive(stream))["type"] == "transcription.delta":
        deltas.append(event["delta"])
    return deltas, event


async def test_one_delta_for_each_80_ms_and_their_sum_is_the_text(vllm_027: Any) -> None:
    async with connect(vllm_027.url("/v1/realtime")) as stream:
        await receive(stream)
        await send(stream, "session.update", model=VOXTRAL)
        await send(stream, "input_audio_buffer.commit")
        for _ in range(20):
            await append(stream, 1)
            await asyncio.sleep(0.005)
        await send(stream, "input_audio_buffer.commit", final=True)
        deltas, done = await rest_of_utterance(stream)
    assert len(deltas) == 20
    assert "".join(deltas) == done["text"] == "w0 w1 w2 w3 w4 w5 "
    assert done["usage"] == {"prompt_tokens": 1, "completion_tokens": 20, "total_tokens": 21}


async def test_what_was_sent_ahead_never_comes_back(vllm_027: Any) -> None:
    async with connect(vllm_027.url("/v1/realtime")) as stream:
        await receive(stream)
        await send(stream, "session.update", model=VOXTRAL)
        for steps in (3, 30):
            await send(stream, "input_audio_buffer.commit")
            await append(stream, steps)
            await send(stream, "input_audio_buffer.commit", final=True)
        assert (await rest_of_utterance(stream))[1]["text"] == "w0 "
        await send(stream, "input_audio_buffer.commit")
        await append(stream, 6)
        await send(stream, "input_audio_buffer.commit", final=True)
        assert (await rest_of_utterance(stream))[1]["text"] == "w0 w1 "


async def test_a_message_over_16_mib_closes_the_socket(vllm_027: Any) -> None:
    async with connect(vllm_027.url("/v1/realtime"), compression=None) as stream:
        await receive(stream)
        sending = asyncio.create_task(stream.send("x" * (16 * 1024 * 1024 + 1)))
        with pytest.raises(ConnectionClosed) as closed:
            await receive(stream)
        await asyncio.gather(sending, return_exceptions=True)
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1009


async def test_a_client_that_vanishes_leaves_the_server_well(vllm_027: Any) -> None:
    stream = await connect(vllm_027.url("/v1/realtime"))
    await receive(stream)
    await send(stream, "session.update", model=VOXTRAL)
    await send(stream, "input_audio_buffer.commit")
    await append(stream, 3)
    stream.transport.abort()
    await test_one_delta_for_each_80_ms_and_their_sum_is_the_text(vllm_027)


async def test_at_the_length_limit_0_27_stops_listening_and_ends_normally(vllm_server: VllmServer) -> None:
    with vllm_server("0.27", "--max-model-len", "6") as server:
        async with connect(server.url("/v1/realtime")) as stream:
            await receive(stream)
            await send(stream, "session.update", model=VOXTRAL)
            await send(stream, "input_audio_buffer.commit")
            await append(stream, 60)
            deltas, done = await rest_of_utterance(stream)
        assert (len(deltas), done["type"], done["text"]) == (6, "transcription.done", "w0 w1 ")


async def test_at_the_length_limit_0_17_dies(vllm_server: VllmServer) -> None:
    with vllm_server("0.17", "--max-model-len", "6") as server:
        async with connect(server.url("/v1/realtime")) as stream:
            await receive(stream)
            await send(stream, "session.update", model=VOXTRAL)
            await send(stream, "input_audio_buffer.commit")
            await append(stream, 60)
            with pytest.raises(ConnectionClosed) as closed:
                await receive(stream)
        assert closed.value.rcvd is None
        assert await asyncio.to_thread(server.process.wait, 10) == 1


async def test_the_http_routes(vllm_027: Any) -> None:
    async with httpx.AsyncClient(base_url=vllm_027.url("", "http"), trust_env=False) as http:
        assert (await http.get("/health")).status_code == 200
        (model,) = (await http.get("/v1/models")).json()["data"]
    assert model["id"] == VOXTRAL


def test_flags_of_every_form_are_read() -> None:
    command = parse_serve_command(
        ["serve", "/opt/ml/model", "--host", "0.0.0.0", "--port=8081", "--max_model_len", "45000", "--enforce-eager",  # noqa: S104
         "--served-model-name", "one", "two", "--compilation-config", '{"cudagraph_mode": "PIECEWISE"}']
    )  # fmt: skip
    assert (command.model, command.port, command.max_model_len) == ("/opt/ml/model", 8081, 45000)
    assert command.served_model_names == ("one", "two")
    assert command.other_flags == {"enforce-eager": True, "compilation-config": '{"cudagraph_mode": "PIECEWISE"}'}


def test_every_problem_of_a_command_line_is_named() -> None:
    with pytest.raises(CommandLineError, match=r"--port .*'x'.*--max-model-len .*'0'.*no model"):
        parse_serve_command(["serve", "--port", "x", "--max-model-len", "0"])
    with pytest.raises(CommandLineError, match="vllm serve MODEL"):
        parse_serve_command(["bench"])
