"""Speech to text against the stand-in vLLM, over sockets that hold and sockets that break."""

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection

from voice_client.errors import BadInputError, ConnectionLostError, DeadlineError, ModelError, ProtocolError
from voice_client.session import (
    Final,
    Notice,
    Partial,
    Retry,
    SessionStarted,
    Transcriber,
    TranscriberSettings,
    TranscriptionInterruptedError,
)

MODEL = "mistralai/Voxtral-Mini-4B-Realtime-2602"
FAST = TranscriberSettings(paced=False)
QUICK_RETRY = Retry(attempts=3, first_wait=0.02, longest_wait=0.05)


def words(count: int) -> str:
    """What the deterministic engine hears in `count` times 240 ms."""
    return "".join(f"w{number} " for number in range(count))


def audio_of(messages: list[str]) -> bytes:
    events = [json.loads(message) for message in messages]
    return b"".join(base64.b64decode(event["audio"]) for event in events if event["type"].endswith(".append"))


async def hear(ear: Transcriber, source: Any, on_event: Callable[[Any], Awaitable[None]] | None = None) -> list[Any]:
    events = []
    async with asyncio.timeout(30):
        async for event in ear.transcribe(source):
            events.append(event)
            if on_event is not None:
                await on_event(event)
    return events


async def test_an_utterance_from_start_to_final(stt_server: Any, sound: Any) -> None:
    source = sound(4.0)
    endpoint = stt_server.endpoint()
    async with Transcriber(endpoint, model=MODEL, settings=FAST) as ear:
        events = await hear(ear, source)
    assert isinstance(events[0], SessionStarted)
    assert events[0].session_id
    final = events[-1]
    assert isinstance(final, Final)
    assert final.text.split() == words(16).split()
    partials = [event for event in events if isinstance(event, Partial)]
    assert "".join(partial.delta for partial in partials) == final.text == partials[-1].text
    assert all(later.text.startswith(earlier.text) for earlier, later in pairwise(partials))
    assert final.usage is not None
    assert final.usage.completion_tokens > 0
    assert final.metrics.audio_seconds == 4.0
    assert final.metrics.retries == 0
    assert final.metrics.connect_ms > 0
    assert final.metrics.first_partial_ms is not None

    sent = [json.loads(message) for message in endpoint.streams[0].sent]
    assert [event["type"] for event in sent[:2]] == ["session.update", "input_audio_buffer.commit"]
    assert sent[0]["model"] == MODEL
    assert sent[-1] == {"type": "input_audio_buffer.commit", "final": True}
    assert audio_of(endpoint.streams[0].sent) == source.pcm
    assert {len(base64.b64decode(event["audio"])) for event in sent[2:-2]} == {4096}


async def test_audio_goes_at_the_speed_of_speech_while_words_come_back(stt_server: Any, sound: Any) -> None:
    async with Transcriber(stt_server.endpoint(), model=MODEL) as ear:
        started = time.monotonic()
        events = await hear(ear, sound(1.5, lead_silence=0.5))
        took = time.monotonic() - started
    final = events[-1]
    assert 1.5 <= took < 10
    assert next(event.at for event in events if isinstance(event, Partial)) < took - 0.3
    assert final.metrics.finalization_ms < 5_000
    assert 0.9 < final.metrics.rtf < 6
    # The deterministic engine "hears" silence too, so its first word comes before anything audible was sent.
    assert final.metrics.first_partial_ms is not None


async def test_the_next_utterance_on_the_same_connection(stt_server: Any, sound: Any) -> None:
    endpoint = stt_server.endpoint()
    async with Transcriber(endpoint, model=MODEL, settings=FAST) as ear:
        first = await hear(ear, sound(1.0))
        second = await hear(ear, sound(2.0))
    assert first[-1].text.split() == words(4).split()
    assert second[-1].text.split() == words(8).split()
    assert [first[-1].utterance, second[-1].utterance] == [0, 1]
    assert not any(isinstance(event, SessionStarted) for event in second)
    assert len(endpoint.streams) == 1


@pytest.mark.parametrize("bytes_up", [3_000, 40_000, 120_000])
async def test_a_lost_stream_is_replayed_and_nothing_is_missing(
    bytes_up: int, stt_wire: Any, stt_server: Any, sound: Any
) -> None:
    source = sound(4.0)
    stt_wire.cut_after_up = [bytes_up]
    endpoint = stt_server.endpoint(stt_wire.port)
    async with Transcriber(endpoint, model=MODEL, settings=FAST, retry=QUICK_RETRY) as ear:
        events = await hear(ear, source)
    final = events[-1]
    assert final.text.split() == words(16).split()
    assert final.metrics.retries == 1
    assert [event.kind for event in events if isinstance(event, Notice)] == ["reconnecting"]
    assert sum(isinstance(event, SessionStarted) for event in events) == 2
    assert len(endpoint.streams) == 2
    assert audio_of(endpoint.streams[1].sent) == source.pcm
    partials = [event for event in events if isinstance(event, Partial)]
    assert "".join(partial.delta for partial in partials) == final.text


async def test_without_retry_the_first_loss_is_an_error_with_the_text_so_far(
    stt_wire: Any, stt_server: Any, sound: Any
) -> None:
    stt_wire.cut_after_up = [90_000]
    async with Transcriber(stt_server.endpoint(stt_wire.port), model=MODEL, settings=FAST, retry=None) as ear:
        shown = [""]

        async def look(event: Any) -> None:
            if isinstance(event, Partial):
                shown.append(event.text)

        with pytest.raises(TranscriptionInterruptedError) as error:
            await hear(ear, sound(10.0), look)
        assert error.value.text_so_far == shown[-1]
        assert error.value.exit_code == 4
        assert isinstance(error.value.__cause__, ConnectionLostError)
        assert stt_wire.connections == 1
        # The next call starts anew.
        assert (await hear(ear, sound(1.0)))[-1].text.split() == words(4).split()


async def test_a_killed_server_is_an_error_within_seconds(mortal_stt_server: Any, sound: Any) -> None:
    async with Transcriber(mortal_stt_server.endpoint(), model=MODEL, retry=None) as ear:
        killed = 0.0

        async def kill(event: Any) -> None:
            nonlocal killed
            if isinstance(event, Partial) and not killed and "w1 " in event.text:
                await asyncio.to_thread(mortal_stt_server.kill)
                killed = time.monotonic()

        with pytest.raises(TranscriptionInterruptedError) as error:
            await hear(ear, sound(30.0), kill)
        assert killed
        assert time.monotonic() - killed < 10
        assert "w1" in error.value.text_so_far
        assert "w1" not in str(error.value)


async def test_the_retry_budget_ends(mortal_stt_server: Any, sound: Any) -> None:
    async with Transcriber(mortal_stt_server.endpoint(), model=MODEL, retry=QUICK_RETRY) as ear:
        notices = 0

        async def kill(event: Any) -> None:
            nonlocal notices
            notices += isinstance(event, Notice)
            if isinstance(event, Partial):
                await asyncio.to_thread(mortal_stt_server.kill)

        with pytest.raises(TranscriptionInterruptedError, match="after 3 new streams") as error:
            await hear(ear, sound(30.0), kill)
        assert notices == 3
        assert error.value.text_so_far.startswith("w0")


async def test_leaving_the_loop_early_ends_the_utterance(stt_server: Any, sound: Any) -> None:
    endpoint = stt_server.endpoint()
    async with Transcriber(endpoint, model=MODEL) as ear:
        async for event in ear.transcribe(sound(20.0)):
            if isinstance(event, Partial):
                break
        events = await hear(ear, sound(0.5))
    assert events[-1].text.split() == words(2).split()
    assert len(endpoint.streams) == 2


async def test_two_utterances_at_once_are_refused(stt_server: Any, sound: Any) -> None:
    async with Transcriber(stt_server.endpoint(), model=MODEL) as ear:
        first = ear.transcribe(sound(5.0))
        await anext(aiter(first))
        with pytest.raises(ProtocolError, match="still being heard"):
            await hear(ear, sound(1.0))
        await first.aclose()


async def test_an_unknown_model_is_named(stt_server: Any, sound: Any) -> None:
    async with Transcriber(stt_server.endpoint(), model="no/such-model", settings=FAST) as ear:
        with pytest.raises(TranscriptionInterruptedError) as error:
            await hear(ear, sound(1.0))
    assert isinstance(error.value.__cause__, ModelError)
    assert error.value.__cause__.error_code == "model_not_found"
    assert not error.value.retryable


async def test_no_audio_is_bad_input(stt_server: Any, sound: Any) -> None:
    async with Transcriber(stt_server.endpoint(), model=MODEL, settings=FAST) as ear:
        with pytest.raises(BadInputError, match="not a single sample"):
            await hear(ear, sound(0.0))
        assert (await hear(ear, sound(1.0)))[-1].text.split() == words(4).split()


async def test_a_wrong_file_is_bad_input(stt_server: Any, tmp_path: Any) -> None:
    from voice_client.audio import AudioFile

    path = tmp_path / "note.wav"
    path.write_text("no sound\n" * 100)
    async with Transcriber(stt_server.endpoint(), model=MODEL, settings=FAST) as ear:
        with pytest.raises(BadInputError, match="is not audio"):
            await hear(ear, AudioFile(path))


async def test_a_file_that_turns_out_damaged_is_bad_input(stt_server: Any, sound: Any) -> None:
    class Damaged(sound):
        @asynccontextmanager
        async def open(self, *, rate: int, chunk_bytes: int) -> AsyncIterator[AsyncIterator[bytes]]:
            async with super().open(rate=rate, chunk_bytes=chunk_bytes) as reader:

                async def chunks() -> AsyncIterator[bytes]:
                    yield await anext(reader)
                    raise BadInputError("the file is damaged")

                yield chunks()

    async with Transcriber(stt_server.endpoint(), model=MODEL, settings=FAST) as ear:
        with pytest.raises(BadInputError, match="damaged"):
            await hear(ear, Damaged(2.0))
        assert (await hear(ear, sound(1.0)))[-1].text.split() == words(4).split()


class TestServersThatMisbehave:
    """What the stand-in never does, but real servers did."""

    @staticmethod
    async def created(socket: ServerConnection) -> None:
        await socket.send('{"type": "session.created", "id": "sess-1", "created": 1}')

    async def test_done_never_comes(self, scripted: Callable[..., Any], sound: Any) -> None:
        async def behave(socket: ServerConnection) -> None:
            await self.created(socket)
            await socket.send('{"type": "transcription.delta", "delta": "half a "}')
            async for _ in socket:
                pass

        settings = TranscriberSettings(paced=False, done_silence=0.3)
        async with Transcriber(await scripted(behave), model=MODEL, settings=settings, retry=None) as ear:
            with pytest.raises(TranscriptionInterruptedError, match=r"no transcription\.done") as error:
                await hear(ear, sound(1.0))
        assert isinstance(error.value.__cause__, DeadlineError)
        assert error.value.text_so_far == "half a "

    async def test_a_done_that_never_comes_is_asked_for_anew(self, scripted: Callable[..., Any], sound: Any) -> None:
        sockets = 0

        async def behave(socket: ServerConnection) -> None:
            nonlocal sockets
            sockets += 1
            number = sockets
            await self.created(socket)
            await socket.send('{"type": "transcription.delta", "delta": "all"}')
            async for message in socket:
                if "final" in str(message) and number > 1:
                    await socket.send('{"type": "transcription.done", "text": "all of it", "usage": null}')

        source = sound(1.0)
        settings = TranscriberSettings(paced=False, done_silence=0.5)
        endpoint = await scripted(behave)
        async with Transcriber(endpoint, model=MODEL, settings=settings, retry=QUICK_RETRY) as ear:
            events = await hear(ear, source)
            (final,) = [event for event in events if isinstance(event, Final)]
            assert final.text == "all of it"
            assert [event.kind for event in events if isinstance(event, Notice)] == ["reconnecting"]
            assert [audio_of(stream.sent) for stream in endpoint.streams] == [source.pcm, source.pcm]
            assert (await hear(ear, source))[-1].text == "all of it"
        assert sockets == 2

    async def test_empty_deltas_for_ever_after_the_end(self, scripted: Callable[..., Any], sound: Any) -> None:
        async def behave(socket: ServerConnection) -> None:
            await self.created(socket)

            async def babble() -> None:
                while True:
                    await socket.send('{"type": "transcription.delta", "delta": ""}')
                    await asyncio.sleep(0.05)

            babbling = asyncio.create_task(babble())
            await socket.wait_closed()
            babbling.cancel()

        settings = TranscriberSettings(paced=False, done_silence=0.3, done_slack=0.2)
        async with Transcriber(await scripted(behave), model=MODEL, settings=settings, retry=None) as ear:
            with pytest.raises(TranscriptionInterruptedError, match=r"no transcription\.done"):
                await hear(ear, sound(0.3))

    async def test_no_session_is_created(self, scripted: Callable[..., Any]) -> None:
        async def behave(socket: ServerConnection) -> None:
            await socket.wait_closed()

        settings = TranscriberSettings(session_created=0.2)
        with pytest.raises(DeadlineError, match=r"no session\.created"):
            async with Transcriber(await scripted(behave), model=MODEL, settings=settings):
                pass

    async def test_the_reason_of_a_break_is_told_and_not_only_the_break(
        self, scripted: Callable[..., Any], sound: Any
    ) -> None:
        async def behave(socket: ServerConnection) -> None:
            await self.created(socket)
            async for message in socket:
                if "append" in str(message):
                    await socket.send('{"type": "error", "error": "engine dead", "code": "engine_failure"}')
                    socket.transport.close()
                    return

        async with Transcriber(await scripted(behave), model=MODEL, settings=FAST) as ear:
            with pytest.raises(TranscriptionInterruptedError, match="engine dead") as error:
                await hear(ear, sound(5.0))
        assert isinstance(error.value.__cause__, ModelError)

    async def test_an_end_before_the_audio_is_over_is_no_success(
        self, scripted: Callable[..., Any], sound: Any
    ) -> None:
        async def behave(socket: ServerConnection) -> None:
            await self.created(socket)
            async for message in socket:
                if "append" in str(message):
                    await socket.send('{"type": "transcription.done", "text": "the first part", "usage": null}')
                    break
            await socket.wait_closed()

        async with Transcriber(await scripted(behave), model=MODEL) as ear:
            with pytest.raises(TranscriptionInterruptedError, match="before its end") as error:
                await hear(ear, sound(20.0))
        assert error.value.text_so_far == "the first part"

    async def test_a_processing_error_is_tried_again(self, scripted: Callable[..., Any], sound: Any) -> None:
        calls = 0

        async def behave(socket: ServerConnection) -> None:
            nonlocal calls
            calls += 1
            await self.created(socket)
            async for message in socket:
                if "final" in str(message):
                    if calls == 1:
                        await socket.send('{"type": "error", "error": "try again", "code": "processing_error"}')
                    else:
                        await socket.send('{"type": "transcription.done", "text": "well", "usage": null}')

        async with Transcriber(await scripted(behave), model=MODEL, settings=FAST, retry=QUICK_RETRY) as ear:
            events = await hear(ear, sound(0.5))
        assert events[-1].text == "well"
        assert calls == 2
