"""Text that is yet to come, and a voice that stops at once: what a conversation needs of a speech."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection

from voice_client.errors import BadInputError, ConnectionLostError, ModelError, ProtocolError
from voice_client.session import (
    Notice,
    Restarted,
    Retry,
    SpeakingInterruptedError,
    Speech,
    SpeechChunk,
    SpeechEvent,
    Synthesizer,
    SynthesizerSettings,
)
from voice_client.session.runaway import RunawayError, longest_speech

MODEL = "Qwen/Qwen3-TTS-12Hz-1.7B-CustomVoice"
WORD_BYTES = 12_000
LONG = "One two three four five six seven eight nine ten. " * 20
"""50 s of speech: more than waits for a listener, so that the server is still speaking when its beginning is heard."""
RETRY = Retry(attempts=2, first_wait=0.01, longest_wait=0.02)


async def collect(speech: Speech, heard: list[SpeechEvent] | None = None) -> list[SpeechEvent]:
    events = heard if heard is not None else []
    async with asyncio.timeout(20):
        async for event in speech:
            events.append(event)
    return events


def spoken_bytes(events: list[SpeechEvent]) -> dict[int, int]:
    """Bytes by sentence, what a restart made void left out."""
    sizes: dict[int, int] = {}
    for event in events:
        sizes[event.sentence] = 0 if isinstance(event, Restarted) else sizes.get(event.sentence, 0) + len(event.pcm)
    return sizes


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 - what is waited for knows no event
            await asyncio.sleep(0.005)


@pytest.fixture
async def voice(tts_server: Any) -> AsyncIterator[Synthesizer]:
    """A voice straight to the stand-in server; `voice.endpoint` knows its streams."""
    endpoint = tts_server.endpoint()
    async with Synthesizer(endpoint, model=MODEL, retry=RETRY) as synthesizer:
        synthesizer.endpoint = endpoint  # type: ignore[attr-defined]
        yield synthesizer


def asked(voice: Any) -> list[str]:
    """The texts the server was sent, on all streams."""
    events = [json.loads(message) for stream in voice.endpoint.streams for message in stream.sent]
    return [event["text"] for event in events if event["type"] == "input.text"]


class TestTextAsItComes:
    async def test_a_sentence_is_asked_for_when_its_end_is_known_and_not_when_the_text_ends(self, voice: Any) -> None:
        speech = voice.open_speech()
        heard: list[SpeechEvent] = []
        listening = asyncio.create_task(collect(speech, heard))
        for word in ("Good ", "morn", "ing, ", "you. "):
            speech.push_text(word)
            await asyncio.sleep(0.01)
        assert asked(voice) == []  # it could go on: "you. said he"
        speech.push_text("How ")
        await until(lambda: spoken_bytes(heard) == {0: 3 * WORD_BYTES})
        assert asked(voice) == ["Good morning, you."]
        speech.push_text("are you")
        speech.flush()
        await until(lambda: spoken_bytes(heard) == {0: 3 * WORD_BYTES, 1: 3 * WORD_BYTES})
        assert not listening.done()
        speech.end()
        await listening
        assert speech.sentences == ("Good morning, you.", "How are you")
        assert not speech.cancelled

    async def test_letter_by_letter_is_as_at_once(self, voice: Any) -> None:
        text = 'Dr. Smith paid 3.14 dollars. "Stop!" he said. Then he left...'
        speech = voice.open_speech()
        for letter in text:
            speech.push_text(letter)
        speech.end()
        speech.end()
        await collect(speech)
        assert speech.sentences == voice.speak(text).sentences == tuple(asked(voice))
        assert len(speech.sentences) == 3

    async def test_text_that_takes_its_time_costs_no_retry_though_the_stream_ended_meanwhile(self, voice: Any) -> None:
        speech = voice.open_speech()
        heard: list[SpeechEvent] = []
        listening = asyncio.create_task(collect(speech, heard))
        speech.push_text("One. ")
        speech.flush()
        await until(lambda: 0 in spoken_bytes(heard))
        await voice.endpoint.streams[0].close()  # as the server does after 30 s
        await asyncio.sleep(0.05)
        speech.push_text("Two.")
        speech.end()
        await listening
        assert spoken_bytes(heard) == {0: WORD_BYTES, 1: WORD_BYTES}
        assert speech.metrics.retries == 0
        assert speech.metrics.underruns == 0, "a gap in the text is no underrun of the model"
        assert len(voice.endpoint.streams) == 2

    async def test_no_text_at_all_is_bad_input(self, voice: Any) -> None:
        speech = voice.open_speech()
        speech.push_text("  \n ... ")
        speech.end()
        with pytest.raises(BadInputError, match="no text"):
            await collect(speech)
        assert len(await collect(voice.speak("Next."))) == 1

    async def test_text_after_the_end_and_too_much_text_are_errors(self, voice: Any) -> None:
        speech = voice.open_speech()
        with pytest.raises(BadInputError, match="more than 200000"):
            speech.push_text("x" * 200_001)
        speech.push_text("Well.")
        speech.end()
        with pytest.raises(ProtocolError, match="after its end"):
            speech.push_text("more")
        assert spoken_bytes(await collect(speech)) == {0: WORD_BYTES}

    async def test_the_sentence_after_is_asked_for_while_one_is_spoken_and_no_further(self, voice: Any) -> None:
        speech = voice.speak(LONG)
        async for _ in speech:
            await until(lambda: len(asked(voice)) > 1)
            break
        assert 2 <= len(asked(voice)) < len(speech.sentences)

    async def test_a_listener_that_takes_nothing_makes_the_model_wait(self, voice: Any) -> None:
        speech = voice.speak(LONG)
        async for _ in speech:
            await until(lambda: speech.metrics.seconds > 29)
            await asyncio.sleep(0.1)
            assert speech.metrics.seconds < 31
            break


class TestBargeIn:
    async def test_nothing_is_delivered_after_cancel_and_the_loop_ends_well(self, voice: Any) -> None:
        speech = voice.speak(LONG)
        heard: list[SpeechEvent] = []
        listening = asyncio.create_task(collect(speech, heard))
        await until(lambda: heard)
        before = len(heard)
        await speech.cancel()
        assert speech.cancelled
        await listening
        await asyncio.sleep(0.05)
        assert len(heard) == before
        await speech.cancel()  # idempotent

    async def test_the_next_text_is_spoken_at_once_and_hears_nothing_of_the_old_one(self, voice: Any) -> None:
        first = voice.speak(LONG)
        async for _ in first:
            await voice.cancel()
        began = time.monotonic()
        second = voice.speak("Next.")
        events = await collect(second)
        assert time.monotonic() - began < 5
        assert {event.utterance for event in events} == {second.utterance} != {first.utterance}
        assert spoken_bytes(events) == {0: WORD_BYTES}
        assert len(voice.endpoint.streams) == 2

    async def test_a_speech_that_has_not_begun_stays_silent(self, voice: Any) -> None:
        speech = voice.open_speech()
        speech.push_text("Hello there. And")
        await voice.cancel()
        speech.push_text("nobody listens")  # the writer need not know
        speech.end()
        assert await collect(speech) == []
        assert speech.cancelled
        assert asked(voice) == []

    async def test_audio_that_waits_for_its_listener_is_dropped_though_the_model_is_done(self, voice: Any) -> None:
        speech = voice.speak("one two three four")
        async for _ in speech:
            await until(lambda: speech._work is not None and speech._work.done())
            await speech.cancel()
        assert speech.cancelled
        assert spoken_bytes(await collect(voice.speak("Next."))) == {0: WORD_BYTES}
        assert len(voice.endpoint.streams) == 1, "a stream on which nothing is spoken is kept"

    async def test_cancel_while_text_is_awaited_and_while_a_stream_is_opened(self, tts_server: Any) -> None:
        endpoint = tts_server.endpoint()
        gate = asyncio.Event()
        gate.set()

        async def opener() -> Any:
            await gate.wait()
            return await endpoint()

        async with Synthesizer(opener, model=MODEL) as voice:
            waiting = voice.open_speech()
            listening = asyncio.create_task(collect(waiting))
            await asyncio.sleep(0.02)
            await waiting.cancel()
            assert await listening == []

            await endpoint.streams[0].close()
            await asyncio.sleep(0.05)
            gate.clear()
            blocked = voice.speak("One.")
            listening = asyncio.create_task(collect(blocked))
            await asyncio.sleep(0.02)
            await blocked.cancel()
            assert await listening == []
            gate.set()
            assert spoken_bytes(await collect(voice.speak("Two."))) == {0: WORD_BYTES}
        assert len(endpoint.streams) == 2, "the stream that was being opened is used"

    async def test_a_listener_that_is_cancelled_stops_the_voice(self, voice: Any) -> None:
        speech = voice.speak(LONG)
        heard: list[SpeechEvent] = []
        listening = asyncio.create_task(collect(speech, heard))
        await until(lambda: heard)
        listening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await listening
        assert speech.cancelled
        assert spoken_bytes(await collect(voice.speak("Next."))) == {0: WORD_BYTES}

    async def test_a_spare_stream_saves_the_opening_and_is_kept_alive(self, tts_server: Any) -> None:
        endpoint = tts_server.endpoint()
        settings = SynthesizerSettings(keep_alive=0.05)
        async with Synthesizer(endpoint, model=MODEL, spare_stream=True, settings=settings) as voice:
            await until(lambda: len(endpoint.streams) == 2 and all(len(stream.sent) > 2 for stream in endpoint.streams))
            async for _ in voice.speak(LONG):
                await voice.cancel()
            assert spoken_bytes(await collect(voice.speak("Next."))) == {0: WORD_BYTES}
            assert any("input.text" in message for message in endpoint.streams[1].sent), "spoken on the spare"
            await until(lambda: len(endpoint.streams) == 3)

    async def test_a_stream_is_not_touched_while_it_speaks(self, tts_server: Any) -> None:
        # A configuration between a text and its end would be refused.
        endpoint, touching, gate = tts_server.endpoint(), asyncio.Event(), asyncio.Event()

        async def opener() -> Any:
            stream = await endpoint()
            send, is_spare = stream.send_text, len(endpoint.streams) == 2

            async def send_text(text: str, /) -> None:
                if is_spare and stream.sent:
                    touching.set()
                    await gate.wait()
                await send(text)

            stream.send_text = send_text
            return stream

        settings = SynthesizerSettings(keep_alive=0.02)
        async with Synthesizer(opener, model=MODEL, spare_stream=True, settings=settings) as voice:
            await touching.wait()
            speech = voice.speak(LONG)
            async for _ in speech:
                gate.set()
                await asyncio.sleep(0.1)
                break
        sent = [json.loads(message)["type"] for message in endpoint.streams[0].sent]
        assert "session.config" not in sent[sent.index("input.text") :]


class Script:
    """A server that does what a list says, one entry an `input.done`."""

    START = json.dumps({"type": "audio.start", "utterance_index": 0, "sentence_index": 0, "sample_rate": 24000})
    TONE = b"\x00\x40" * 3000

    def __init__(self, *acts: Any) -> None:
        self.acts = list(acts)
        self.asked = 0

    @classmethod
    def well(cls, pcm: bytes = TONE) -> list[str | bytes]:
        done = json.dumps({"type": "audio.done", "utterance_index": 0, "total_bytes": len(pcm), "error": False})
        return [cls.START, pcm, done, json.dumps({"type": "session.done", "utterance_index": 0, "total_sentences": 1})]

    async def __call__(self, socket: ServerConnection) -> None:
        async for message in socket:
            if "input.done" not in str(message):
                continue
            self.asked += 1
            for frame in self.acts.pop(0) if self.acts else self.well():
                if frame == "break":
                    socket.transport.abort()
                    return
                if frame == "close":
                    await socket.close()
                    return
                await socket.send(frame)


class TestComingBack:
    async def test_the_budget_is_for_a_sentence_and_its_end_carries_what_was_spoken(
        self, scripted: Callable[..., Any]
    ) -> None:
        broken: list[str | bytes] = [Script.START, Script.TONE, "break"]
        script = Script(broken, Script.well(), broken, broken, broken)
        settings = SynthesizerSettings(sentences_ahead=0)
        async with Synthesizer(await scripted(script), model=MODEL, retry=RETRY, settings=settings) as voice:
            told: list[Notice] = []
            speech = voice.speak("One. Two. Three.", on_notice=told.append)
            heard: list[SpeechEvent] = []
            with pytest.raises(SpeakingInterruptedError, match="after asking again 3 times") as error:
                await collect(speech, heard)
        assert isinstance(error.value.__cause__, ConnectionLostError)
        assert error.value.spoken == ("One.",)
        assert error.value.exit_code == 4
        assert "Two" not in str(error.value)
        assert [event.sentence for event in heard if isinstance(event, Restarted)] == [0, 1, 1]
        assert script.asked == 5
        assert len(speech.notices) == 3
        assert told == speech.notices

    async def test_a_listener_who_took_nothing_hears_of_no_restart(self, scripted: Callable[..., Any]) -> None:
        script = Script([Script.START, Script.TONE, "break"])
        async with Synthesizer(await scripted(script), model=MODEL, retry=RETRY) as voice:
            speech = voice.speak("One.")
            events = aiter(speech)
            first = asyncio.ensure_future(anext(events))
            await until(lambda: script.asked == 2 or first.done())
            heard = [await first] + [event async for event in events]
        void = [event for event in heard if isinstance(event, Restarted)]
        assert len(void) <= 1
        assert sum(len(event.pcm) for event in heard if isinstance(event, SpeechChunk)) == len(Script.TONE) * (
            1 + len(void)
        )

    async def test_babble_is_stopped_asked_for_once_more_and_told(self, scripted: Callable[..., Any]) -> None:
        seconds = longest_speech("Ok.", SynthesizerSettings())
        assert seconds < 8
        babble = [Script.START] + [bytes(48_000)] * 60
        script = Script(babble)
        async with Synthesizer(await scripted(script), model=MODEL, retry=RETRY) as voice:
            speech = voice.speak("Ok.")
            heard = await collect(speech)
        assert spoken_bytes(heard) == {0: len(Script.TONE)}
        assert sum(len(event.pcm) for event in heard if isinstance(event, SpeechChunk)) / 48_000 <= seconds + 0.2
        assert [notice.kind for notice in speech.notices] == ["runaway"]
        assert speech.metrics.retries == 1
        assert speech.metrics.seconds == len(Script.TONE) / 48_000

        async with Synthesizer(await scripted(Script(babble, babble)), model=MODEL, retry=RETRY) as voice:
            with pytest.raises(SpeakingInterruptedError) as error:
                await collect(voice.speak("Ok."))
        assert isinstance(error.value.__cause__, RunawayError)

    async def test_an_idle_time_out_that_meets_the_next_text_is_no_refusal(self, scripted: Callable[..., Any]) -> None:
        idle = [json.dumps({"type": "error", "message": "Idle timeout: no message received"}), "break"]
        script = Script(Script.well(), idle)
        async with Synthesizer(await scripted(script), model=MODEL, retry=RETRY) as voice:
            await collect(voice.speak("One."))
            speech = voice.speak("Two.")
            assert spoken_bytes(await collect(speech)) == {0: len(Script.TONE)}
        assert speech.metrics.retries == 1

    @pytest.mark.parametrize("sentence", [1, 2])
    async def test_an_error_before_the_audio_is_the_models_and_no_loss(
        self, sentence: int, scripted: Callable[..., Any]
    ) -> None:
        refused = [
            json.dumps({"type": "error", "message": "the model has no room for this"}),
            json.dumps({"type": "session.done", "utterance_index": sentence - 1, "total_sentences": 0}),
        ]
        script = Script(*[Script.well()] * (sentence - 1), refused)
        async with Synthesizer(await scripted(script), model=MODEL, retry=RETRY) as voice:
            speech = voice.speak("One. Two. Three.")
            with pytest.raises(SpeakingInterruptedError, match=f"sentence {sentence}: the model has no room") as error:
                await collect(speech)
        assert isinstance(error.value.__cause__, ModelError)
        assert error.value.spoken == ("One.", "Two.")[: sentence - 1]
        assert speech.notices == []

    async def test_an_end_that_is_told_twice_is_one(self, scripted: Callable[..., Any]) -> None:
        done = [
            json.dumps({"type": "session.done", "utterance_index": number, "total_sentences": 1}) for number in (0, 1)
        ]
        script = Script([*Script.well()[:3], done[0], done[0]], [done[0], *Script.well()[:3], done[1], done[1]])
        endpoint = await scripted(script)
        async with Synthesizer(endpoint, model=MODEL, retry=None) as voice:
            assert spoken_bytes(await collect(voice.speak("One. Two. Three."))) == dict.fromkeys(range(3), 6000)
            assert spoken_bytes(await collect(voice.speak("Four."))) == {0: 6000}
        assert len(endpoint.streams) == 1

    async def test_a_sentence_that_is_done_without_audio_is_an_error_though_others_were_spoken(
        self, scripted: Callable[..., Any]
    ) -> None:
        nothing = [json.dumps({"type": "session.done", "utterance_index": 1, "total_sentences": 1})]
        async with Synthesizer(await scripted(Script(Script.well(), nothing)), model=MODEL, retry=RETRY) as voice:
            with pytest.raises(SpeakingInterruptedError, match="sentence 2: it ended the sentence without any audio"):
                await collect(voice.speak("One. Two."))

    async def test_an_error_in_a_session_that_is_done_is_an_error_and_the_voice_goes_on(
        self, scripted: Callable[..., Any]
    ) -> None:
        failed = [
            Script.START,
            json.dumps({"type": "error", "message": "Generation failed: out of memory"}),
            json.dumps({"type": "audio.done", "utterance_index": 0, "total_bytes": 0, "error": True}),
            json.dumps({"type": "session.done", "utterance_index": 0, "total_sentences": 1}),
        ]
        async with Synthesizer(await scripted(Script(failed)), model=MODEL, retry=RETRY) as voice:
            with pytest.raises(SpeakingInterruptedError, match="out of memory") as error:
                await collect(voice.speak("One."))
            assert isinstance(error.value.__cause__, ModelError)
            assert spoken_bytes(await collect(voice.speak("Two."))) == {0: len(Script.TONE)}

    async def test_a_release_that_ends_the_connection_after_each_utterance(self, scripted: Callable[..., Any]) -> None:
        script = Script([*Script.well(), "close"], [*Script.well(), "close"], [*Script.well(), "close"])
        async with Synthesizer(await scripted(script), model=MODEL, retry=RETRY) as voice:
            assert spoken_bytes(await collect(voice.speak("One. Two. Three."))) == dict.fromkeys(range(3), 6000)

    async def test_a_release_that_cuts_a_sentence_into_parts(self, scripted: Callable[..., Any]) -> None:
        parts = [*Script.well()[:3], *Script.well()]
        async with Synthesizer(await scripted(Script(parts)), model=MODEL, retry=RETRY) as voice:
            assert spoken_bytes(await collect(voice.speak("One."))) == {0: 2 * len(Script.TONE)}

    async def test_a_stream_that_grew_old_is_left_between_sentences(self, voice: Any, virtual_clock: Any) -> None:
        endpoint = voice.endpoint
        async with Synthesizer(endpoint, model=MODEL, clock=virtual_clock) as aged:
            streams = len(endpoint.streams)
            speech = aged.open_speech()
            heard: list[SpeechEvent] = []
            listening = asyncio.create_task(collect(speech, heard))
            speech.push_text("One. ")
            speech.flush()
            await until(lambda: 0 in spoken_bytes(heard))
            virtual_clock.time += 1600
            speech.push_text("Two.")
            speech.end()
            await listening
        assert spoken_bytes(heard) == {0: WORD_BYTES, 1: WORD_BYTES}
        assert len(endpoint.streams) == streams + 1
        assert speech.metrics.retries == 0


class TestMeasures:
    async def test_underruns_and_silence_are_those_a_player_would_meet(self, scripted: Callable[..., Any]) -> None:
        heard = asyncio.Event()

        async def behave(socket: ServerConnection) -> None:
            async for message in socket:
                if "input.done" in str(message):
                    await socket.send(Script.START)
                    await socket.send(bytes(2400) + Script.TONE[:2400])  # 50 ms of silence, 50 ms of tone
                    await heard.wait()
                    await asyncio.sleep(0.4)
                    for frame in Script.well(Script.TONE)[1:2]:
                        await socket.send(frame)
                    size = 4800 + len(Script.TONE)
                    await socket.send(json.dumps({"type": "audio.done", "total_bytes": size, "error": False}))
                    await socket.send(json.dumps({"type": "session.done", "total_sentences": 1}))

        async with Synthesizer(await scripted(behave), model=MODEL) as voice:
            speech = voice.speak("Hello.")
            async for _ in speech:
                heard.set()
        metrics = speech.metrics
        assert metrics.leading_silence_ms == pytest.approx(50, abs=1)
        assert metrics.first_byte_ms is not None
        assert metrics.ttfa_ms == pytest.approx(metrics.first_byte_ms + 50, abs=1)
        assert metrics.underruns == 1
        assert metrics.underrun_ms > 100
        assert metrics.chunks == 2
        (sentence,) = metrics.sentences
        assert (sentence.bytes, sentence.chunks, sentence.retries) == (metrics.bytes, 2, 0)

    async def test_speed_changes_the_length_and_is_not_asked_of_the_server(self, tts_server: Any) -> None:
        endpoint = tts_server.endpoint()
        async with Synthesizer(endpoint, model=MODEL, speed=2.0) as voice:
            speech = voice.speak("one two three four five six seven eight.")
            await collect(speech)
        assert speech.metrics.seconds == pytest.approx(1.0, abs=0.05)
        assert "speed" not in endpoint.streams[0].sent[0]

    async def test_the_model_is_asked_for_its_voices(self, voice: Any) -> None:
        assert {"Vivian", "Uncle_Fu", "Sohee"} < set(await voice.voices())
        assert spoken_bytes(await collect(voice.speak("Hello."))) == {0: WORD_BYTES}
