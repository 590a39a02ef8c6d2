"""Audio of any length over streams and models that have an end: nothing lost, nothing twice, no stall unnoticed."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection

from voice_client.errors import BadInputError
from voice_client.session import (
    Final,
    Notice,
    Partial,
    Retry,
    SessionStarted,
    Transcriber,
    TranscriberSettings,
    TranscriptionInterruptedError,
    Turns,
)

MODEL = "mistralai/Voxtral-Mini-4B-Realtime-2602"
QUICK_RETRY = Retry(attempts=3, first_wait=0.02, longest_wait=0.05)


def words(count: int) -> list[str]:
    """What the deterministic engine hears in `count` times 240 ms."""
    return [f"w{number}" for number in range(count)]


def utterances(messages: list[str]) -> list[bytes]:
    """The audio between a commit and its final commit, of each utterance that was sent to its end."""
    found = []
    audio = b""
    for message in messages:
        event = json.loads(message)
        if event["type"].endswith(".append"):
            audio += base64.b64decode(event["audio"])
        elif event["type"].endswith(".commit"):
            if event.get("final"):
                found.append(audio)
            audio = b""
    return found


async def hear(ear: Transcriber, source: Any) -> list[Any]:
    async with asyncio.timeout(60):
        return [event async for event in ear.transcribe(source)]


class TestRollover:
    async def test_long_audio_is_one_final_of_several_segments(self, stt_server: Any, talk: Any) -> None:
        endpoint = stt_server.endpoint()
        source = talk(*(3.6, -0.36) * 4)
        settings = TranscriberSettings(paced=False, look_for_pause=3.0, longest_segment=6.0)
        async with Transcriber(endpoint, model=MODEL, settings=settings) as ear:
            events = await hear(ear, source)
        finals = [event for event in events if isinstance(event, Final)]
        assert len(finals) == 1
        heard = utterances(endpoint.streams[0].sent)
        assert len(heard) >= 4
        assert b"".join(heard) == source.pcm
        assert finals[0].text.split() == [word for part in heard for word in words(len(part) // 7680)]
        assert (finals[0].start, finals[0].end) == (0.0, len(source.pcm) / 32_000)
        assert finals[0].metrics.audio_seconds == len(source.pcm) / 32_000
        assert finals[0].usage is not None
        assert finals[0].usage.prompt_tokens == len(heard)  # one a segment, in the stand-in
        partials = [event for event in events if isinstance(event, Partial)]
        assert "".join(partial.delta for partial in partials) == partials[-1].text
        assert partials[-1].text.split() == finals[0].text.split()

    async def test_the_models_length_is_never_reached(self, stt_server: Any, talk: Any) -> None:
        endpoint = stt_server.endpoint()
        source = talk(10.0)
        settings = TranscriberSettings(paced=False)
        async with Transcriber(endpoint, model=MODEL, settings=settings, max_model_len=50) as ear:
            await hear(ear, source)
        heard = utterances(endpoint.streams[0].sent)
        assert b"".join(heard) == source.pcm
        assert max(map(len, heard)) <= 0.9 * 50 * 0.08 * 32_000

    async def test_a_stream_is_left_before_the_platform_ends_it(
        self, stt_server: Any, talk: Any, virtual_clock: Any
    ) -> None:
        endpoint = stt_server.endpoint()
        source = talk(*(2.0, -0.5) * 12)
        settings = TranscriberSettings(look_for_pause=2.0, longest_segment=4.0, stream_lifetime=12.0)
        async with Transcriber(endpoint, model=MODEL, settings=settings, clock=virtual_clock) as ear:
            events = await hear(ear, source)
        assert not [event for event in events if isinstance(event, Notice)]
        heard = [utterances(stream.sent) for stream in endpoint.streams]
        assert b"".join(part for parts in heard for part in parts) == source.pcm
        assert len(endpoint.streams) >= 3
        assert all(sum(map(len, parts)) / 32_000 <= 12.0 for parts in heard)
        assert sum(isinstance(event, SessionStarted) for event in events) == len(endpoint.streams)

    async def test_a_source_that_stops_bringing_audio_holds_no_stream_open(self, stt_server: Any, talk: Any) -> None:
        endpoint = stt_server.endpoint()
        more = asyncio.Event()
        source = talk(2.0)

        class Halting:
            live = True

            @asynccontextmanager
            async def open(self, *, rate: int, chunk_bytes: int) -> AsyncIterator[AsyncIterator[bytes]]:
                async def chunks() -> AsyncIterator[bytes]:
                    yield source.pcm[:33_002]
                    await more.wait()
                    yield source.pcm[33_002:]

                yield chunks()

        settings = TranscriberSettings(idle_cut=0.3)
        async with Transcriber(endpoint, model=MODEL, settings=settings) as ear:
            hearing = asyncio.create_task(hear(ear, Halting()))
            async with asyncio.timeout(10):
                while not utterances(endpoint.streams[0].sent):  # noqa: ASYNC110 - another process hears it
                    await asyncio.sleep(0.02)
            more.set()
            events = await hearing
        heard = utterances(endpoint.streams[0].sent)
        assert [len(part) for part in heard] == [33_002, 64_000 - 33_002]
        assert events[-1].text.split() == words(4) + words(4)

    async def test_each_segment_has_a_budget_of_its_own(self, stt_wire: Any, stt_server: Any, talk: Any) -> None:
        endpoint = stt_server.endpoint(stt_wire.port)
        source = talk(*(2.0, -0.5) * 6)
        stt_wire.cut_after_up = [60_000, *[160_000] * 4]  # a segment takes about 100_000
        settings = TranscriberSettings(paced=False, look_for_pause=2.0, longest_segment=4.0)
        retry = Retry(attempts=1, first_wait=0.02, longest_wait=0.05)
        async with Transcriber(endpoint, model=MODEL, settings=settings, retry=retry) as ear:
            events = await hear(ear, source)
        assert events[-1].metrics.retries == 5
        assert events[-1].metrics.audio_seconds == len(source.pcm) / 32_000


class TestTurns:
    SETTINGS = TranscriberSettings(paced=False, turns=Turns())

    async def test_each_turn_is_an_utterance_and_pauses_are_not_sent(self, stt_server: Any, talk: Any) -> None:
        endpoint = stt_server.endpoint()
        source = talk(-2.0, 2.0, -3.0, 3.0, -2.0)
        async with Transcriber(endpoint, model=MODEL, settings=self.SETTINGS) as ear:
            events = await hear(ear, source)
            finals = [event for event in events if isinstance(event, Final)]
            assert [final.utterance for final in finals] == [0, 1]
            assert [event.utterance for event in await hear(ear, talk(2.0)) if isinstance(event, Final)] == [2]
        heard = utterances(endpoint.streams[0].sent)[:2]
        assert heard == [source.pcm[int(final.start * 32_000) : int(final.end * 32_000)] for final in finals]
        assert [final.text.split() for final in finals] == [words(len(part) // 7680) for part in heard]
        assert finals[0].start == pytest.approx(1.7, abs=0.05)
        assert finals[1].start == pytest.approx(6.7, abs=0.05)
        assert len(endpoint.streams) == 1

    async def test_a_turn_that_begins_before_the_last_one_is_heard_is_kept(
        self, scripted: Callable[..., Any], talk: Any
    ) -> None:
        received: list[list[str]] = []

        async def behave(socket: ServerConnection) -> None:
            await socket.send('{"type": "session.created", "id": "sess-1", "created": 1}')
            mine: list[str] = []
            received.append(mine)
            async for message in socket:
                mine.append(str(message))
                if '"final": true' in str(message):
                    seen = len(mine)
                    await asyncio.sleep(0.5)
                    assert len(mine) == seen, "something was sent between the final commit and done"
                    await socket.send('{"type": "transcription.done", "text": "so", "usage": null}')

        source = talk(1.0, -1.0, 1.0, -1.0, 1.0, -1.0)
        async with Transcriber(await scripted(behave), model=MODEL, settings=self.SETTINGS) as ear:
            events = await hear(ear, source)
        assert [event.text for event in events if isinstance(event, Final)] == ["so"] * 3
        assert sum(map(len, utterances(received[0]))) >= 3 * 1.7 * 32_000

    async def test_silence_has_no_final_and_no_samples_are_an_error(self, stt_server: Any, talk: Any) -> None:
        async with Transcriber(stt_server.endpoint(), model=MODEL, settings=self.SETTINGS) as ear:
            assert await hear(ear, talk(-5.0)) == []
            with pytest.raises(BadInputError, match="not a single sample"):
                await hear(ear, talk(-0.0))


class TestStall:
    """Speech goes in, and no word comes back."""

    SETTINGS = TranscriberSettings(paced=False, stall_speech=1.0, stall=0.5)

    @staticmethod
    def server(first: Callable[[ServerConnection], Any], calls: list[list[str]]) -> Callable[..., Any]:
        """Behave as `first` says on the first connection, and well on all others."""

        async def behave(socket: ServerConnection) -> None:
            await socket.send('{"type": "session.created", "id": "sess-1", "created": 1}')
            mine: list[str] = []
            calls.append(mine)
            babbling = asyncio.create_task(first(socket)) if len(calls) == 1 else None
            try:
                async for message in socket:
                    mine.append(str(message))
                    if len(calls) > 1 and '"final": true' in str(message):
                        await socket.send('{"type": "transcription.delta", "delta": "all of it"}')
                        await socket.send('{"type": "transcription.done", "text": "all of it", "usage": null}')
            finally:
                if babbling is not None:
                    babbling.cancel()

        return behave

    class Unending:
        """Speech that goes on until somebody noticed."""

        live = True

        def __init__(self, pcm: bytes, noticed: Callable[[], bool]) -> None:
            self.pcm = pcm
            self.given = b""
            self._noticed = noticed

        @asynccontextmanager
        async def open(self, *, rate: int, chunk_bytes: int) -> AsyncIterator[AsyncIterator[bytes]]:
            async def chunks() -> AsyncIterator[bytes]:
                while not self._noticed():
                    at = len(self.given) % len(self.pcm)
                    self.given += self.pcm[at : at + chunk_bytes]
                    yield self.pcm[at : at + chunk_bytes]
                    await asyncio.sleep(0.02)

            yield chunks()

    @pytest.mark.parametrize("empty_deltas", [False, True])
    async def test_a_fresh_session_hears_all_of_it(
        self, empty_deltas: bool, scripted: Callable[..., Any], talk: Any
    ) -> None:
        async def babble(socket: ServerConnection) -> None:
            while empty_deltas:
                await socket.send('{"type": "transcription.delta", "delta": ""}')
                await asyncio.sleep(0.02)

        calls: list[list[str]] = []
        endpoint = await scripted(self.server(babble, calls))
        source = self.Unending(talk(4.096).pcm, lambda: len(calls) > 1)
        async with Transcriber(endpoint, model=MODEL, settings=self.SETTINGS, retry=QUICK_RETRY) as ear:
            events = await hear(ear, source)
        assert events[-1].text == "all of it"
        (notice,) = [event for event in events if isinstance(event, Notice)]
        assert ("empty deltas" in notice.message) == empty_deltas
        assert utterances(calls[1]) == [source.given]

    async def test_music_without_words_is_tried_once_more_and_then_believed(
        self, scripted: Callable[..., Any], talk: Any
    ) -> None:
        calls = 0

        async def behave(socket: ServerConnection) -> None:
            nonlocal calls
            calls += 1
            await socket.send('{"type": "session.created", "id": "sess-1", "created": 1}')
            async for message in socket:
                await socket.send('{"type": "transcription.delta", "delta": ""}')
                if '"final": true' in str(message):
                    await socket.send('{"type": "transcription.done", "text": "", "usage": null}')

        settings = TranscriberSettings(stall_speech=0.5, stall=0.3)
        async with Transcriber(await scripted(behave), model=MODEL, settings=settings, retry=QUICK_RETRY) as ear:
            events = await hear(ear, talk(3.0))
        assert isinstance(events[-1], Final)
        assert events[-1].text == ""
        assert calls == 2

    async def test_a_model_that_stays_dumb_is_an_error_in_the_end(
        self, scripted: Callable[..., Any], talk: Any
    ) -> None:
        async def behave(socket: ServerConnection) -> None:
            await socket.send('{"type": "session.created", "id": "sess-1", "created": 1}')
            async for _ in socket:
                pass

        source = self.Unending(talk(4.096).pcm, lambda: False)
        async with Transcriber(await scripted(behave), model=MODEL, settings=self.SETTINGS, retry=QUICK_RETRY) as ear:
            with pytest.raises(TranscriptionInterruptedError, match=r"nothing came .* \(after 3 new streams\)"):
                await hear(ear, source)


def test_settings_that_cannot_be_are_named_together() -> None:
    with pytest.raises(BadInputError) as error:
        TranscriberSettings(chunk_bytes=4097, idle_cut=0.0, turns=Turns(pause=60.0))
    for part in ("4097", "idle_cut", "pause"):
        assert part in str(error.value)
