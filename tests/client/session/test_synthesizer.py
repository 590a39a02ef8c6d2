"""Text to speech against the stand-in vLLM-Omni, over sockets that hold and sockets that break."""

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection

from voice_client.errors import BadInputError, ConnectionLostError, DeadlineError, ModelError, ProtocolError, VoiceError
from voice_client.session import (
    Restarted,
    Retry,
    SpeakingInterruptedError,
    Speech,
    SpeechChunk,
    Synthesizer,
    SynthesizerSettings,
)

MODEL = "Qwen/Qwen3-TTS-12Hz-1.7B-CustomVoice"
WORD_BYTES = 12_000
LONG = "One two three four five six seven eight nine ten. " * 20
"""50 s of speech: more than waits for a listener, so that the server is still speaking when its beginning is heard."""
TEXT = "Good morning. How are you today? I am well!"
QUICK_RETRY = Retry(attempts=2, first_wait=0.02, longest_wait=0.05)


async def listen(speech: Speech, heard: list[SpeechChunk] | None = None) -> list[SpeechChunk]:
    """Return what a player would have played: what a restart made void is taken back."""
    chunks = heard if heard is not None else []
    async with asyncio.timeout(20):
        async for event in speech:
            if isinstance(event, Restarted):
                chunks[:] = [chunk for chunk in chunks if chunk.sentence != event.sentence]
            else:
                chunks.append(event)
    return chunks


def with_config(endpoint: Any, **fields: Any) -> Callable[[], Any]:
    """Open streams whose configuration says something that the client itself would not."""

    async def opener() -> Any:
        stream = await endpoint()
        send = stream.send_text

        async def send_text(text: str, /) -> None:
            event = json.loads(text)
            await send(json.dumps(event | fields) if event["type"] == "session.config" else text)

        stream.send_text = send_text
        return stream

    return opener


@contextmanager
def interrupted(cause: type[VoiceError], match: str = "interrupted") -> Iterator[None]:
    """Expect a speech to be interrupted by something."""
    with pytest.raises(SpeakingInterruptedError, match=match) as error:
        yield
    assert isinstance(error.value.__cause__, cause), repr(error.value.__cause__)


def bytes_by_sentence(chunks: list[SpeechChunk]) -> dict[int, int]:
    sizes: dict[int, int] = {}
    for chunk in chunks:
        sizes[chunk.sentence] = sizes.get(chunk.sentence, 0) + len(chunk.pcm)
    return sizes


async def test_a_text_is_spoken_sentence_by_sentence_on_one_connection(tts_server: Any) -> None:
    endpoint = tts_server.endpoint()
    async with Synthesizer(endpoint, model=MODEL, voice="vivian", language="en") as voice:
        speech = voice.speak(TEXT)
        chunks = await listen(speech)
    assert speech.sentences == ("Good morning.", "How are you today?", "I am well!")
    assert bytes_by_sentence(chunks) == {0: 2 * WORD_BYTES, 1: 4 * WORD_BYTES, 2: 3 * WORD_BYTES}
    assert all(chunk.utterance == 0 and len(chunk.pcm) % 2 == 0 for chunk in chunks)
    metrics = speech.metrics
    assert metrics.bytes == 9 * WORD_BYTES
    assert metrics.seconds == 9 * 0.25
    assert metrics.chunks == len(chunks) > 3
    assert [round(sentence.seconds, 2) for sentence in metrics.sentences] == [0.5, 1.0, 0.75]
    assert metrics.ttfa_ms is not None
    assert metrics.first_byte_ms is not None
    assert 0 < metrics.first_byte_ms <= metrics.ttfa_ms
    assert metrics.retries == 0

    sent = [json.loads(message) for message in endpoint.streams[0].sent]
    assert sent[0] == {
        "type": "session.config",
        "model": MODEL,
        "voice": "Vivian",
        "language": "English",
        "response_format": "pcm",
        "stream_audio": True,
    }
    assert [event["type"] for event in sent[1:]] == ["input.text", "input.done"] * 3
    assert len(endpoint.streams) == 1


async def test_two_texts_on_one_connection(tts_server: Any) -> None:
    endpoint = tts_server.endpoint()
    async with Synthesizer(endpoint, model=MODEL) as voice:
        first = await listen(voice.speak("One two."))
        second = await listen(voice.speak("Three."))
    assert {chunk.utterance for chunk in first} == {0}
    assert {chunk.utterance for chunk in second} == {1}
    assert bytes_by_sentence(second) == {0: WORD_BYTES}
    assert len(endpoint.streams) == 1


async def test_a_sentence_lost_before_its_first_audio_is_spoken_again(tts_wire: Any, tts_server: Any) -> None:
    # The handshake and the config pass, the text does not.
    tts_wire.cut_after_up = [600]
    endpoint = tts_server.endpoint(tts_wire.port)
    async with Synthesizer(endpoint, model=MODEL, retry=QUICK_RETRY) as voice:
        speech = voice.speak("word " * 90 + "end. Then another one.")
        chunks = await listen(speech)
    assert bytes_by_sentence(chunks) == {0: 91 * WORD_BYTES, 1: 3 * WORD_BYTES}
    assert speech.metrics.retries == 1
    assert [notice.kind for notice in speech.notices] == ["reconnecting"]
    assert len(endpoint.streams) == 2


async def test_a_sentence_lost_in_the_middle_is_spoken_again_from_its_start(tts_wire: Any, tts_server: Any) -> None:
    tts_wire.cut_after_down = [60_000]
    async with Synthesizer(tts_server.endpoint(tts_wire.port), model=MODEL, retry=QUICK_RETRY) as voice:
        speech = voice.speak("One. Two three four five six seven eight nine ten.")
        async with asyncio.timeout(20):
            events = [event async for event in speech]
        restarts = [index for index, event in enumerate(events) if isinstance(event, Restarted)]
        assert [events[index] for index in restarts] == [Restarted(utterance=0, sentence=1)]
        before = [event for event in events[: restarts[0]] if isinstance(event, SpeechChunk)]
        after = [event for event in events[restarts[0] :] if isinstance(event, SpeechChunk)]
        assert bytes_by_sentence(before)[0] == WORD_BYTES
        assert 0 < bytes_by_sentence(before)[1] < 9 * WORD_BYTES
        assert bytes_by_sentence(after) == {1: 9 * WORD_BYTES}
        assert speech.metrics.bytes == 10 * WORD_BYTES
        assert speech.metrics.retries == 1
        assert [sentence.retries for sentence in speech.metrics.sentences] == [0, 1]


async def test_an_error_carries_what_was_spoken(tts_wire: Any, tts_server: Any) -> None:
    tts_wire.cut_after_down = [60_000]
    async with Synthesizer(tts_server.endpoint(tts_wire.port), model=MODEL, retry=None) as voice:
        speech = voice.speak("One two. Three four five six seven eight nine ten.")
        with pytest.raises(SpeakingInterruptedError) as error:
            await listen(speech)
        assert error.value.spoken == ("One two.",)
        assert 0.5 < error.value.seconds < 1.5
        assert "One" not in str(error.value)
        assert bytes_by_sentence(await listen(voice.speak("Well."))) == {0: WORD_BYTES}


async def test_without_retry_the_first_loss_is_an_error(tts_wire: Any, tts_server: Any) -> None:
    tts_wire.cut_after_up = [600]
    async with Synthesizer(tts_server.endpoint(tts_wire.port), model=MODEL, retry=None) as voice:
        with interrupted(ConnectionLostError):
            await listen(voice.speak("word " * 90))


async def test_leaving_the_loop_early_stops_the_voice(tts_server: Any) -> None:
    endpoint = tts_server.endpoint()
    async with Synthesizer(endpoint, model=MODEL) as voice:
        async for _ in voice.speak(LONG):
            break
        assert bytes_by_sentence(await listen(voice.speak("Next."))) == {0: WORD_BYTES}
    assert len(endpoint.streams) == 2


async def test_a_text_is_spoken_once_and_alone(tts_server: Any) -> None:
    async with Synthesizer(tts_server.endpoint(), model=MODEL) as voice:
        speech = voice.speak("one two three")
        await listen(speech)
        with pytest.raises(ProtocolError, match="spoken already"):
            await listen(speech)
        first = aiter(voice.speak(LONG))
        await anext(first)
        with pytest.raises(ProtocolError, match="another text"):
            await listen(voice.speak("four"))
        await first.aclose()


async def test_leaving_the_synthesizer_in_the_middle_of_a_text(tts_server: Any) -> None:
    async with Synthesizer(tts_server.endpoint(), model=MODEL) as voice:
        async for _ in voice.speak(LONG):
            break


async def test_a_stream_that_ended_while_idle_is_replaced(tts_wire: Any, tts_server: Any) -> None:
    endpoint = tts_server.endpoint(tts_wire.port)
    async with Synthesizer(endpoint, model=MODEL, retry=None) as voice:
        await listen(voice.speak("One."))
        await endpoint.streams[0].close()
        await asyncio.sleep(0.05)
        assert bytes_by_sentence(await listen(voice.speak("Two."))) == {0: WORD_BYTES}
    assert len(endpoint.streams) == 2


async def test_a_listener_that_ends_at_any_moment_leaves_no_stream(tts_server: Any) -> None:
    endpoint = tts_server.endpoint()
    async with Synthesizer(endpoint, model=MODEL) as voice:
        for turns in range(120):
            listening = asyncio.create_task(listen(voice.speak("One two.")))
            for _ in range(turns % 12):
                await asyncio.sleep(0)
            if turns % 2:
                await voice.cancel()
            listening.cancel()
            await asyncio.wait([listening])
        assert bytes_by_sentence(await listen(voice.speak("Next."))) == {0: WORD_BYTES}
    # Streams that were not closed leave readers, which `nothing_left_behind` finds.


async def test_a_stream_that_opened_for_someone_who_has_gone_is_for_the_next(tts_server: Any) -> None:
    endpoint, opened = tts_server.endpoint(), asyncio.Event()

    async def opener() -> Any:
        stream = await endpoint()
        send = stream.send_text

        async def send_text(text: str, /) -> None:
            await send(text)
            opened.set()

        stream.send_text = send_text
        return stream

    async with Synthesizer(opener, model=MODEL) as voice:
        voice.streams.leave()
        opened.clear()
        waiting = asyncio.create_task(voice.ready())
        await opened.wait()
        for _ in range(3):  # the opening is over, and who waits for it is about to be told
            waiting.cancel()
            await asyncio.sleep(0)
        await asyncio.wait([waiting])
        await voice.ready()
    assert len(endpoint.streams) == 2


async def test_a_closed_synthesizer_opens_nothing(tts_server: Any) -> None:
    endpoint = tts_server.endpoint()
    async with Synthesizer(endpoint, model=MODEL) as voice:
        pass
    with interrupted(ProtocolError, "closed"):
        await listen(voice.speak("Hello."))
    with pytest.raises(ProtocolError, match="closed"):
        await voice.ready()
    assert len(endpoint.streams) == 1


@pytest.mark.parametrize("text", ["", "  \n "])
async def test_no_text_is_bad_input(text: str, tts_server: Any) -> None:
    async with Synthesizer(tts_server.endpoint(), model=MODEL) as voice:
        with pytest.raises(BadInputError, match="no text"):
            voice.speak(text)


@pytest.mark.parametrize(
    ("voice", "language", "message"),
    [
        ("Vivain", None, "Did you mean Vivian"),
        (None, "Englisch", "Did you mean English"),
        (None, "tlh", "no language 'tlh'"),
    ],
)
def test_a_wrong_voice_or_language_is_found_before_connecting(
    voice: str | None, language: str | None, message: str
) -> None:
    async def never() -> Any:
        raise AssertionError

    with pytest.raises(BadInputError, match=message):
        Synthesizer(never, model=MODEL, voice=voice, language=language)


async def test_a_voice_the_server_refuses_is_an_error_though_the_session_is_done(tts_server: Any) -> None:
    # A model that is not known by name: its voices are for the server to judge.
    async with Synthesizer(with_config(tts_server.endpoint(), voice="Nobody"), retry=QUICK_RETRY) as voice:
        with interrupted(ModelError, "sentence 1.*Nobody"):
            await listen(voice.speak("Hello there."))


@pytest.mark.parametrize("fields", [{"response_format": "wav"}, {"speed": 9}, {"speed": 1.5}, {"model": "nope"}])
async def test_a_configuration_the_server_refuses_is_an_error_and_no_loss(
    fields: dict[str, Any], tts_server: Any
) -> None:
    endpoint = tts_server.endpoint()
    async with Synthesizer(with_config(endpoint, **fields), retry=QUICK_RETRY) as voice:
        speech = voice.speak("Hello there.")
        with interrupted(ModelError, "sentence 1"):
            await listen(speech)
    assert speech.notices == []


async def test_a_model_the_server_does_not_have_is_an_error(tts_server: Any) -> None:
    async with Synthesizer(tts_server.endpoint(), model="nope", retry=QUICK_RETRY) as voice:
        with interrupted(ModelError, "nope"):
            await listen(voice.speak("Hello."))


class TestServersThatMisbehave:
    """What the stand-in never does."""

    @staticmethod
    async def speak(scripted: Callable[..., Any], frames: list[str | bytes], **settings: float) -> list[SpeechChunk]:
        async def behave(socket: ServerConnection) -> None:
            async for message in socket:
                if "input.done" in str(message):
                    for frame in frames:
                        await socket.send(frame)

        endpoint = await scripted(behave)
        limits = SynthesizerSettings(**settings)  # type: ignore[arg-type]
        async with Synthesizer(endpoint, model=MODEL, retry=None, settings=limits) as voice:
            return await listen(voice.speak("Hello there."))

    START = '{"type": "audio.start", "utterance_index": 0, "sentence_index": 0, "format": "pcm", "sample_rate": 24000}'
    DONE = '{"type": "session.done", "utterance_index": 0, "total_sentences": 1}'

    @staticmethod
    def end(size: int, *, error: bool = False) -> str:
        return json.dumps({"type": "audio.done", "utterance_index": 0, "total_bytes": size, "error": error})

    async def test_odd_frames_become_whole_samples(self, scripted: Callable[..., Any]) -> None:
        data = bytes(range(200)) * 5
        chunks = await self.speak(scripted, [self.START, data[:1], data[1:334], data[334:], self.end(1000), self.DONE])
        assert b"".join(chunk.pcm for chunk in chunks) == data
        assert all(len(chunk.pcm) % 2 == 0 for chunk in chunks)

    async def test_audio_that_went_missing(self, scripted: Callable[..., Any]) -> None:
        with interrupted(ProtocolError, "10 bytes of audio arrived but 4000 were sent"):
            await self.speak(scripted, [self.START, bytes(10), self.end(4000), self.DONE])

    async def test_done_without_audio(self, scripted: Callable[..., Any]) -> None:
        with interrupted(ModelError, "without any audio"):
            await self.speak(scripted, [self.DONE])

    async def test_an_error_flag_without_an_error_event(self, scripted: Callable[..., Any]) -> None:
        with interrupted(ModelError, "broke off"):
            await self.speak(scripted, [self.START, bytes(10), self.end(10, error=True), self.DONE])

    async def test_another_sample_rate(self, scripted: Callable[..., Any]) -> None:
        with interrupted(ProtocolError, "16000 Hz instead of 24000"):
            await self.speak(scripted, [self.START.replace("24000", "16000")])

    async def test_silence_instead_of_a_voice(self, scripted: Callable[..., Any]) -> None:
        with interrupted(DeadlineError, "no audio within"):
            await self.speak(scripted, [self.START], first_audio=0.2)

    async def test_a_voice_that_stops_halfway(self, scripted: Callable[..., Any]) -> None:
        with interrupted(DeadlineError, "no more audio within"):
            await self.speak(scripted, [self.START, bytes(100)], next_audio=0.2)

    @pytest.mark.parametrize("frame", ['{"type": "ping"}', b"", START])
    async def test_signs_of_life_are_no_audio(self, frame: str | bytes, scripted: Callable[..., Any]) -> None:
        async def behave(socket: ServerConnection) -> None:
            async for message in socket:
                while "input.done" in str(message):
                    await socket.send(frame)
                    await asyncio.sleep(0.02)

        limits = SynthesizerSettings(first_audio=0.2)
        async with Synthesizer(await scripted(behave), model=MODEL, retry=None, settings=limits) as voice:
            with interrupted(DeadlineError, "no audio within"):
                await listen(voice.speak("Hello there."))

    async def test_streams_that_end_as_soon_as_they_are_open(self) -> None:
        opened = 0

        class Gone:
            async def send_text(self, text: str, /) -> None:
                await asyncio.sleep(0)

            async def __aiter__(self) -> Any:
                for _ in ():
                    yield _

            async def end_input(self) -> None: ...

            async def close(self) -> None: ...

        async def opener() -> Gone:
            nonlocal opened
            opened += 1
            return Gone()

        async with Synthesizer(opener, model=MODEL, retry=QUICK_RETRY) as voice:
            with interrupted(ConnectionLostError):
                await listen(voice.speak("Hello there."))
        assert opened <= QUICK_RETRY.attempts + 2

    async def test_silence_in_front_counts_for_the_first_sound(self, scripted: Callable[..., Any]) -> None:
        silence, tone = bytes(24_000), b"\x00\x40" * 1000

        async def behave(socket: ServerConnection) -> None:
            async for message in socket:
                if "input.done" in str(message):
                    for frame in (self.START, silence + tone, self.end(26_000), self.DONE):
                        await socket.send(frame)

        async with Synthesizer(await scripted(behave), model=MODEL) as voice:
            speech = voice.speak("Hello.")
            await listen(speech)
        assert speech.metrics.first_byte_ms is not None
        assert speech.metrics.ttfa_ms == pytest.approx(speech.metrics.first_byte_ms + 500)
