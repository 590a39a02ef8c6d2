"""Traps of vLLM-Omni's speech server that the recordings do not hold."""

import asyncio
import io
import json
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

import av
import httpx
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from voice_local.containers.serving import server_for
from voice_local.containers.stand_in_omni.audio_formats import ResponseFormat, encode
from voice_local.containers.stand_in_omni.limits import SpeechLimits
from voice_local.containers.stand_in_omni.server import omni_app
from voice_local.containers.stand_in_omni.session import SpeechService
from voice_local.engines.deterministic import ToneVoice
from voice_local.engines.interfaces import EngineError

PATH = "/v1/audio/speech/stream"
STREAMED = {"type": "session.config", "response_format": "pcm", "stream_audio": True}


async def receive(stream: ClientConnection) -> Any:
    async with asyncio.timeout(5):
        received = await stream.recv()
    return json.loads(received) if isinstance(received, str) else received


async def say(stream: ClientConnection, text: str) -> list[Any]:
    """Speak one utterance and return all that came, `session.done` last."""
    await stream.send(json.dumps({"type": "input.text", "text": text}))
    await stream.send(json.dumps({"type": "input.done"}))
    received = [await receive(stream)]
    while isinstance(received[-1], bytes) or received[-1]["type"] != "session.done":
        received.append(await receive(stream))
    return received


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"voice": "Nobody"}, "Nobody"),
        ({"language": "en"}, "'en'"),
        ({"task_type": "Base"}, "ref_audio"),
        ({"task_type": "Opera"}, "Opera"),
        ({"instructions": "x" * 501}, "500"),
        ({"max_new_tokens": 5000}, "4096"),
    ],
)
async def test_what_the_model_refuses_ends_in_session_done(omni: Any, fields: dict[str, Any], message: str) -> None:
    async with connect(omni.url(PATH)) as stream:
        await stream.send(json.dumps({**STREAMED, **fields}))
        start, error, done, session = await say(stream, "Hello.")
        assert [event["type"] for event in (start, error, done, session)] == [
            "audio.start",
            "error",
            "audio.done",
            "session.done",
        ]
        assert message in error["message"]
        assert (done["total_bytes"], done["error"]) == (0, True)
        # The connection lives on: a good configuration repairs it.
        await stream.send(json.dumps(STREAMED))
        assert (await say(stream, "Hello."))[-2]["error"] is False


@pytest.mark.parametrize("voice", ["vivian", "UNCLE_FU", "Ono_Anna"])
async def test_voices_are_known_in_any_case(omni: Any, voice: str) -> None:
    async with connect(omni.url(PATH)) as stream:
        await stream.send(json.dumps({**STREAMED, "voice": voice}))
        assert (await say(stream, "Hello."))[-2]["error"] is False


async def test_after_a_good_config_mistakes_are_only_reported(omni: Any) -> None:
    async with connect(omni.url(PATH)) as stream:
        await stream.send(json.dumps(STREAMED))
        for mistake in (
            "hello",
            "[1]",
            json.dumps({**STREAMED, "speed": 9}),
            json.dumps({**STREAMED, "model": "nope"}),
        ):
            await stream.send(mistake)
            assert (await receive(stream))["type"] == "error"
        await stream.send(json.dumps({"type": "input.text", "text": 7}))
        assert "string" in (await receive(stream))["message"]
        assert (await say(stream, "Hello."))[0]["sample_rate"] == 24000


async def test_speed_is_refused_where_audio_streams_and_taken_where_it_does_not(omni: Any) -> None:
    async with connect(omni.url(PATH)) as stream:
        await stream.send(json.dumps({**STREAMED, "speed": 1.5}))
        assert "speed" in (await receive(stream))["message"]
        with pytest.raises(ConnectionClosed):
            await receive(stream)
    async with connect(omni.url(PATH)) as stream:
        await stream.send(json.dumps({"type": "session.config", "response_format": "wav", "speed": 1.5}))
        assert (await say(stream, "Hello."))[-2]["error"] is False


async def test_a_binary_frame_is_fatal_at_any_time(omni: Any) -> None:
    async with connect(omni.url(PATH)) as stream:
        await stream.send(json.dumps(STREAMED))
        await stream.send(b"\0\1")
        assert (await receive(stream))["type"] == "error"
        with pytest.raises(ConnectionClosed) as closed:
            await receive(stream)
    assert closed.value.rcvd is None


@pytest.mark.parametrize(
    ("response_format", "codec"), [("wav", "pcm_s16le"), ("mp3", "mp3float"), ("flac", "flac"), ("opus", "opus")]
)
async def test_whole_files_decode_to_the_length_of_the_speech(omni: Any, response_format: str, codec: str) -> None:
    async with connect(omni.url(PATH)) as stream:
        await stream.send(json.dumps({"type": "session.config", "response_format": response_format}))
        _, file, done, _ = await say(stream, "one two three four")
    assert done["total_bytes"] == len(file)
    with av.open(io.BytesIO(file)) as container:
        (audio,) = container.streams.audio
        assert audio.codec_context.name in {codec, codec.removesuffix("float"), f"lib{codec}"}
        seconds = sum(frame.samples / frame.sample_rate for frame in container.decode(audio))
    assert seconds == pytest.approx(1.0, abs=0.12)


@pytest.mark.parametrize(
    ("response_format", "head"), [("wav", b"RIFF"), ("pcm", b""), ("mp3", b""), ("flac", b"fLaC"), ("opus", b"")]
)
def test_no_sound_at_all_is_no_failure(response_format: ResponseFormat, head: bytes) -> None:
    assert encode(b"", response_format)[: len(head)] == head


async def test_nothing_is_read_while_speech_is_made(omni: Any) -> None:
    async with connect(omni.url(PATH)) as stream:
        await stream.send(json.dumps(STREAMED))
        await stream.send(json.dumps({"type": "input.text", "text": "word " * 200}))
        await stream.send(json.dumps({"type": "input.done"}))
        await stream.send(json.dumps({"type": "session.close"}))
        received = []
        with pytest.raises(ConnectionClosed) as closed:  # noqa: PT012 - all is read until the server closes
            while True:
                received.append(await receive(stream))
    assert sum(isinstance(frame, bytes) for frame in received) == 200
    assert received[-1]["type"] == "session.done"
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1000


async def test_the_voices_are_listed(omni: Any) -> None:
    async with httpx.AsyncClient(base_url=omni.url("", "http"), trust_env=False) as http:
        voices = (await http.get("/v1/audio/voices")).json()["voices"]
        assert (await http.get("/ping")).status_code == 200
    assert len(voices) == 9
    assert "Vivian" in voices


async def test_a_config_over_4_mib_is_fatal(omni: Any) -> None:
    async with connect(omni.url(PATH), compression=None, max_size=None) as stream:
        await stream.send(json.dumps({**STREAMED, "ref_audio": "A" * (4 * 1024 * 1024)}))
        assert "too large" in (await receive(stream))["message"]
        with pytest.raises(ConnectionClosed) as closed:
            await receive(stream)
    assert closed.value.rcvd is None


class EndlessVoice(ToneVoice):
    """Speaks until nobody listens any more."""

    def __init__(self) -> None:
        self.left = asyncio.Event()

    async def speak(self, text: str, *, voice: str, language: str, speed: float) -> AsyncGenerator[bytes]:
        try:
            while True:
                async for piece in super().speak(text, voice=voice, language=language, speed=speed):
                    yield piece
                    await asyncio.sleep(0.01)
        finally:
            self.left.set()


async def test_closing_the_socket_is_the_way_to_interrupt(free_port: int) -> None:
    voice = EndlessVoice()
    server = server_for(omni_app(SpeechService("a-model", voice, SpeechLimits())), free_port)
    serving = asyncio.create_task(server.serve())
    async with asyncio.timeout(20):
        while not server.started:  # noqa: ASYNC110 - uvicorn tells it by this flag only
            await asyncio.sleep(0.02)
        async with connect(f"ws://127.0.0.1:{free_port}{PATH}") as stream:
            for message in (STREAMED, {"type": "input.text", "text": "on and on"}, {"type": "input.done"}):
                await stream.send(json.dumps(message))
            assert (await receive(stream))["type"] == "audio.start"
            assert isinstance(await receive(stream), bytes)
        await voice.left.wait()
    server.should_exit = True
    await serving


class FailingVoice(ToneVoice):
    """Breaks off after the first piece."""

    async def speak(self, text: str, *, voice: str, language: str, speed: float) -> AsyncGenerator[bytes]:
        async for piece in super().speak(text, voice=voice, language=language, speed=speed):
            yield piece
            raise EngineError("the worker ended")


@pytest.fixture
async def impatient_server(free_port: int) -> AsyncIterator[str]:
    limits = SpeechLimits(config_seconds=0.3, idle_seconds=0.3)
    server = server_for(omni_app(SpeechService("a-model", FailingVoice(), limits)), free_port)
    serving = asyncio.create_task(server.serve())
    async with asyncio.timeout(10):
        while not server.started:  # noqa: ASYNC110 - uvicorn tells it by this flag only
            await asyncio.sleep(0.02)
    yield f"ws://127.0.0.1:{free_port}{PATH}"
    server.should_exit = True
    await serving


async def test_time_outs_are_said_and_end_without_a_close_frame(impatient_server: str) -> None:
    for first, word in ((None, "session.config"), (STREAMED, "Idle")):
        async with connect(impatient_server) as stream:
            if first:
                await stream.send(json.dumps(first))
            assert word in (await receive(stream))["message"]
            with pytest.raises(ConnectionClosed) as closed:
                await receive(stream)
        assert closed.value.rcvd is None


async def test_an_engine_that_fails_half_way_is_reported_with_the_bytes_sent(impatient_server: str) -> None:
    async with connect(impatient_server) as stream:
        await stream.send(json.dumps(STREAMED))
        start, piece, error, done, session = await say(stream, "one two")
    assert start["type"] == "audio.start"
    assert (done["total_bytes"], done["error"]) == (len(piece), True)
    assert "the worker ended" in error["message"]
    assert session["total_sentences"] == 1
