"""Ten minutes of speech over a stream that breaks fifty times: every sample is heard once, or was skipped as pause."""

import asyncio
import base64
import json
import random
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from voice_client.session import Final, Notice, Retry, SessionStarted, Transcriber, TranscriberSettings, Turns
from voice_client.transport import BidiStream, VoiceTransport

pytestmark = [pytest.mark.soak, pytest.mark.timeout(400)]

MODEL = "mistralai/Voxtral-Mini-4B-Realtime-2602"
RATE = 16_000
CUTS = 50


class Audio:
    """PCM16 that is in memory."""

    live = False

    def __init__(self, pcm: bytes) -> None:
        self.pcm = pcm

    @asynccontextmanager
    async def open(self, *, rate: int, chunk_bytes: int) -> AsyncIterator[AsyncIterator[bytes]]:
        assert rate == RATE

        async def chunks() -> AsyncIterator[bytes]:
            for at in range(0, len(self.pcm), chunk_bytes):
                yield self.pcm[at : at + chunk_bytes]

        yield chunks()


@dataclass
class Container:
    """A WebSocket in front of the stand-in vLLM which notes the audio of every utterance that came to its `done`."""

    vllm_port: int
    heard: list[bytes] = field(default_factory=list)
    port: int = 0

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Container"]:
        async with serve(self._relay, "127.0.0.1", 0, compression=None, max_size=None, close_timeout=1) as server:
            self.port = server.sockets[0].getsockname()[1]
            yield self

    async def _relay(self, client: ServerConnection) -> None:
        uri = f"ws://127.0.0.1:{self.vllm_port}/v1/realtime"
        async with connect(uri, compression=None, max_size=None, close_timeout=1) as vllm:
            audio = bytearray()

            async def up() -> None:
                async for message in client:
                    event = json.loads(message)
                    if event["type"].endswith(".append"):
                        audio.extend(base64.b64decode(event["audio"]))
                    await vllm.send(message)

            async def down() -> None:
                async for message in vllm:
                    if "transcription.done" in str(message):
                        self.heard.append(bytes(audio))
                        audio.clear()
                    await client.send(message)

            pumps = [asyncio.create_task(up()), asyncio.create_task(down())]
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            for pump in pumps:
                pump.cancel()
            for result in await asyncio.gather(*pumps, return_exceptions=True):
                assert result is None or isinstance(result, (ConnectionClosed, asyncio.CancelledError)), result


class CountingStream:
    """Counts the audio of a stream and calls back as each message of it goes up."""

    def __init__(self, stream: BidiStream, on_audio: Callable[[int], None]) -> None:
        self._stream = stream
        self._on_audio = on_audio
        self.end_input = stream.end_input
        self.close = stream.close

    async def send_text(self, text: str, /) -> None:
        if '"audio":' in text:
            self._on_audio(len(text))
        await self._stream.send_text(text)

    def __aiter__(self) -> AsyncIterator[str | bytes]:
        return aiter(self._stream)


async def hear(transport: VoiceTransport, pcm: bytes, settings: TranscriberSettings, on_audio: Any) -> list[Any]:
    async def opener() -> CountingStream:
        return CountingStream(await transport.open_stream(None), on_audio)

    # Unpaced, a whole turn goes up before its first word is back, so cuts in a row show no progress in between: the
    # budget is another test's (tests/client/session/test_long_sessions.py).
    retry = Retry(attempts=CUTS, first_wait=0.01, longest_wait=0.1)
    events: list[Any] = []
    async with transport, Transcriber(opener, model=MODEL, settings=settings, retry=retry) as ear:
        async with asyncio.timeout(180):
            async for event in ear.transcribe(Audio(pcm)):
                if not events or isinstance(event, (Final, Notice, SessionStarted)):
                    events.append(event)
    return events


def spans(finals: list[Final]) -> Iterator[tuple[int, int]]:
    for final in finals:
        yield round(final.start * RATE) * 2, round(final.end * RATE) * 2


@pytest.mark.parametrize(
    ("settings", "seed"),
    [
        (TranscriberSettings(paced=False, turns=Turns()), 20_261),
        (TranscriberSettings(paced=False, look_for_pause=5.0, longest_segment=15.0), 20_262),
    ],
    ids=["turns", "one-utterance"],
)
async def test_fifty_cuts_lose_no_sample_and_double_none(
    *, settings: TranscriberSettings, seed: int, vllm_port: int, platform_for: Any, make_wire: Any, ten_minutes: Any
) -> None:
    pcm = ten_minutes(seed)
    # The uncut run says how much audio goes up; places are drawn from all of it, replays not counted.
    uncut_messages = 0

    def count(_: int) -> None:
        nonlocal uncut_messages
        uncut_messages += 1

    async with Container(vllm_port).running() as container:
        platform = platform_for(container.port)
        uncut = await hear(platform.transport(), pcm, settings, count)
        expected = [event for event in uncut if isinstance(event, Final)]
        assert not [event for event in uncut if isinstance(event, Notice)]

        places = sorted(random.Random(seed).sample(range(1, int(uncut_messages * 1.2)), CUTS))  # noqa: S311 - places in a test
        sent = 0

        async with make_wire(platform.port) as wire:

            def cut(_: int) -> None:
                nonlocal sent
                sent += 1
                if places and sent >= places[0]:
                    places.pop(0)
                    wire.cut()

            container.heard.clear()
            events = await hear(platform.transport(wire.port), pcm, settings, cut)
            cuts = wire.cuts
    finals = [event for event in events if isinstance(event, Final)]
    # Every cut was made, and each broke the stream: those that fell into a wait before the next try apart.
    assert cuts == CUTS
    notices = [event for event in events if isinstance(event, Notice)]
    assert CUTS * 0.8 <= len(notices) <= CUTS

    assert [final.text for final in finals] == [final.text for final in expected]
    assert [(final.start, final.end) for final in finals] == [(final.start, final.end) for final in expected]

    # What reached completed utterances, in order, and the pauses in between are the input, sample for sample.
    whole = b""
    at = 0
    completed = iter(without_repeats(container.heard))
    for start, end in spans(finals):
        whole += pcm[at:start]
        heard = b""
        while len(heard) < end - start:
            heard += next(completed)
        whole += heard
        at = end
    assert next(completed, None) is None
    whole += pcm[at:]
    assert whole == pcm
    skipped = 1 - sum(end - start for start, end in spans(finals)) / len(pcm)
    print(f"{len(finals)} finals, {len(notices)} new streams, {skipped:.0%} skipped as pauses, {sent} messages")
    if settings.turns is None:
        assert skipped == 0
    else:
        assert 0.02 < skipped < 0.4


def without_repeats(heard: list[bytes]) -> list[bytes]:
    """Leave out an utterance whose `done` was lost on its way to the client: it was heard once more."""
    return [audio for audio, following in zip(heard, [*heard[1:], b""], strict=True) if audio != following]
