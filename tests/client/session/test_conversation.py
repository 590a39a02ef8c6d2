"""What a user is promised of a conversation: turns are answered, the voice yields, and each wait is measured."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import numpy as np
import pytest

from voice_client.audio import AudioSource
from voice_client.errors import BadInputError, ConnectError, DeadlineError, ProtocolError
from voice_client.replies import Exchange, Reply, ReplyError, echo
from voice_client.session import SpeechChunk, Synthesizer, Transcriber, Turns
from voice_client.session.conversation import Conversation
from voice_client.session.conversation_events import (
    ConversationEvent,
    Interrupted,
    ReplyDone,
    ReplyText,
    Resumed,
    TurnFailed,
    UserStartedSpeaking,
    UserTurn,
)
from voice_client.session.conversation_metrics import TurnClock, TurnMetrics
from voice_client.session.conversation_settings import BargeIn, ConversationSettings
from voice_client.session.events import Final, TranscriptEvent
from voice_client.ui.browser_audio import BrowserMicrophone

QUICK = ConversationSettings(turns=Turns(pause=0.2, lead=0.1))
POLITE = ConversationSettings(turns=Turns(pause=0.2, lead=0.1), barge_in=None)
MODEL = "mistralai/Voxtral-Mini-4B-Realtime-2602"


def saying(*replies: str) -> Callable[[str, Sequence[Exchange]], AsyncIterator[str]]:
    """A plug that gives one reply after the other."""
    left = list(replies)

    async def reply(_turn: str, _history: Sequence[Exchange]) -> AsyncIterator[str]:
        yield left.pop(0)

    return reply


@pytest.fixture
def conversation(stt_server: Any, tts_server: Any) -> Callable[..., Conversation]:
    """Make a conversation with the stand-in servers."""

    def make(reply: Reply, settings: ConversationSettings = QUICK, voice: Any = None) -> Conversation:
        ear = Transcriber(stt_server.endpoint(), model=MODEL, settings=settings.hearing())
        return Conversation(ear, voice or Synthesizer(tts_server.endpoint()), reply, settings=settings)

    return make


async def held(conversation: Conversation, source: Any) -> list[ConversationEvent]:
    async with asyncio.timeout(40), conversation._ear, conversation._voice:
        return [event async for event in conversation.converse(source)]


def as_a_browser_sends(audio: Any) -> bytes:
    samples: bytes = (np.frombuffer(audio.pcm, "<i2") / np.float32(32768)).astype("<f4").tobytes()
    return samples


def of[E](kind: type[E], events: Sequence[ConversationEvent]) -> list[E]:
    return [event for event in events if isinstance(event, kind)]


async def test_a_turn_is_heard_answered_and_spoken_and_its_waits_add_up(
    conversation: Callable[..., Conversation], talk: Any
) -> None:
    events = await held(conversation(echo), talk(0.5, -0.3))

    (turn,) = of(UserTurn, events)
    assert turn.text.startswith("w0 w1")
    assert "".join(text.delta for text in of(ReplyText, events)) == turn.text
    spoken = sum(len(chunk.pcm) for chunk in of(SpeechChunk, events))
    assert spoken == len(turn.text.split()) * 12_000, "0.25 s a word: the whole reply"
    (metrics,) = of(TurnMetrics, events)
    assert metrics.final_text_ms > 150, "the pause that ends a turn is part of the wait"
    assert metrics.first_token_ms is not None
    assert metrics.first_sound_ms is not None
    assert metrics.total_ms == pytest.approx(
        metrics.final_text_ms + metrics.first_token_ms + metrics.first_sound_ms, abs=0.01
    )
    kinds = [type(event) for event in events]
    order = [UserStartedSpeaking, UserTurn, ReplyText, SpeechChunk, ReplyDone]
    assert [kinds.index(kind) for kind in order] == sorted(kinds.index(kind) for kind in order)


async def test_a_file_waits_for_the_end_of_the_answer_when_nobody_may_interrupt(
    conversation: Callable[..., Conversation], talk: Any
) -> None:
    loop = asyncio.get_running_loop()
    talking = conversation(saying("one two three", "four"), POLITE)
    times: dict[type, list[float]] = {}
    async with asyncio.timeout(40), talking._ear, talking._voice:
        async for event in talking.converse(talk(0.4, -0.3, 0.4, -0.3)):
            times.setdefault(type(event), []).append(loop.time())
            assert not isinstance(event, Interrupted)

    assert len(times[ReplyDone]) == 2
    first_sound, second_speech = times[SpeechChunk][0], times[UserStartedSpeaking][1]
    assert second_speech - first_sound >= 0.7, "the answer of 0.75 s was heard to its end"
    assert [exchange.reply for exchange in talking.history] == ["one two three", "four"]


async def test_speech_over_the_answer_interrupts_it_and_is_answered_itself(
    conversation: Callable[..., Conversation], talk: Any
) -> None:
    long = "This is sentence one. " + " ".join(f"Here comes sentence {word}." for word in ("two", "three", "four"))
    talking = conversation(saying(long, "Yes."))

    microphone = BrowserMicrophone(rate=16_000, channels=1, kept_seconds=30)
    microphone.feed(as_a_browser_sends(talk(0.4, -0.4)))
    events: list[ConversationEvent] = []
    async with asyncio.timeout(40), talking._ear, talking._voice:
        async for event in talking.converse(microphone):
            events.append(event)
            if isinstance(event, SpeechChunk) and len(of(SpeechChunk, events)) == 1:
                await asyncio.sleep(0.3)
                microphone.feed(as_a_browser_sends(talk(0.4, -0.4)))
                microphone.end()

    (interrupted,) = of(Interrupted, events)
    at = events.index(interrupted)
    assert of(UserTurn, events[:at])[0].turn == 0
    assert of(SpeechChunk, events[:at]), "it had begun to speak"
    assert isinstance(events[at - 1], UserStartedSpeaking)
    assert not of(SpeechChunk, events[at : events.index(of(UserTurn, events)[1])]), "no late audio"
    assert 0 < interrupted.played < 4.0
    assert interrupted.heard.startswith("This is sentence one.")
    assert "four" not in interrupted.heard
    assert of(ReplyDone, events)[-1].text == "Yes."
    assert talking.history[0].reply == interrupted.heard, "a language model is told what was heard, not what was made"


class SlowEar(Transcriber):
    """Tells the end of the first turn only when the user has gone on."""

    gone_on: asyncio.Event

    async def transcribe(self, source: AudioSource) -> AsyncIterator[TranscriptEvent]:
        async for event in super().transcribe(source):
            if isinstance(event, Final):
                await self.gone_on.wait()
            yield event


async def test_an_answer_that_comes_late_is_not_spoken_over_a_user_who_has_gone_on(
    stt_server: Any, tts_server: Any, talk: Any
) -> None:
    ear = SlowEar(stt_server.endpoint(), model=MODEL, settings=QUICK.hearing())
    ear.gone_on = asyncio.Event()
    talking = Conversation(ear, Synthesizer(tts_server.endpoint()), saying("Only this."), settings=QUICK)
    events = []
    async with asyncio.timeout(40), ear, talking._voice:
        async for event in talking.converse(talk(0.4, -0.5, 0.6, -0.3)):
            events.append(event)
            if len(of(UserStartedSpeaking, events)) == 2:
                ear.gone_on.set()

    first, second = of(UserTurn, events)
    (interrupted,) = of(Interrupted, events)
    assert (interrupted.turn, interrupted.heard, interrupted.played) == (0, "", 0)
    assert not of(SpeechChunk, events[: events.index(second)])
    assert [done.text for done in of(ReplyDone, events)] == ["Only this."], "the first was not even asked for"
    assert [(metrics.turn, metrics.interrupted) for metrics in of(TurnMetrics, events)] == [(0, True), (1, False)]
    assert talking.history == (Exchange(first.text, ""), Exchange(second.text, "Only this."))


async def test_a_cough_before_the_answer_does_not_cost_the_answer(
    conversation: Callable[..., Conversation], talk: Any
) -> None:
    asked = []

    async def thinks_long(turn: str, _history: Sequence[Exchange]) -> AsyncIterator[str]:
        asked.append(turn)
        await asyncio.sleep(0.6)
        yield "Yes."

    settings = ConversationSettings(turns=Turns(pause=0.1, lead=0.0), barge_in=BargeIn(minimum_speech=0.06))
    events = await held(conversation(thinks_long, settings), talk(0.5, -0.4, 0.08, -0.5))

    (interrupted,) = of(Interrupted, events)
    assert interrupted.heard == ""
    assert len(of(UserTurn, events)) == 1
    assert [event.turn for event in of(Resumed, events)] == [0]
    # Once only where the cough came before the ear had told the turn's end.
    assert set(asked) == {of(UserTurn, events)[0].text}, "the reply is made again"
    assert of(ReplyDone, events)[-1].text == "Yes."


async def test_a_failing_reply_is_told_and_the_conversation_goes_on(
    conversation: Callable[..., Conversation], talk: Any
) -> None:
    async def reply(_turn: str, history: Sequence[Exchange]) -> AsyncIterator[str]:
        if not history:
            raise TimeoutError  # the plug's own, of a request it made
        if len(history) == 1:
            while True:  # pieces without a word
                await asyncio.sleep(0.01)
                yield ""
        yield "Fine."

    settings = ConversationSettings(turns=Turns(pause=0.2, lead=0.1), barge_in=None, first_token=0.2)
    events = await held(conversation(reply, settings), talk(0.3, -0.3, 0.3, -0.3, 0.3, -0.3))

    broken, late = of(TurnFailed, events)
    assert (broken.turn, broken.part, type(broken.error)) == (0, "reply", ReplyError)
    assert "failed with TimeoutError" in broken.error.message
    assert isinstance(late.error, DeadlineError)
    assert of(ReplyDone, events)[-1].text == "Fine."
    assert [metrics.total_ms is None for metrics in of(TurnMetrics, events)] == [True, True, False]


async def test_a_lost_voice_is_told_and_the_conversation_goes_on(
    conversation: Callable[..., Conversation], talk: Any, tts_server: Any
) -> None:
    lost = [True]

    async def opener() -> Any:
        if lost and not len(talking.history):
            raise ConnectError("nothing listens")
        return await tts_server.endpoint()()

    talking = conversation(echo, POLITE, voice=Synthesizer(opener, retry=None))
    async with asyncio.timeout(40), talking._ear:
        events = [event async for event in talking.converse(talk(0.3, -0.3, 0.3, -0.3))]
    await talking._voice.__aexit__(None, None, None)

    (failed,) = of(TurnFailed, events)
    assert (failed.turn, failed.part) == (0, "voice")
    assert "nothing listens" in failed.error.message
    assert of(SpeechChunk, events), "the second turn is answered"


async def test_the_caller_may_stop_the_voice_and_leave_at_any_moment(
    conversation: Callable[..., Conversation], talk: Any
) -> None:
    talking = conversation(saying("one two three four five six seven eight nine ten"))
    async with asyncio.timeout(40), talking._ear, talking._voice:
        events = talking.converse(talk(0.4, -3.0))
        async for event in events:
            if isinstance(event, SpeechChunk):
                await asyncio.sleep(0.2)  # a slow player: more audio waits for it
                assert talking.interrupt()
                assert not talking.interrupt(), "there is one interruption"
                break
        async with asyncio.timeout(20):
            while not isinstance(event := await anext(events), Interrupted):
                assert not isinstance(event, SpeechChunk), "audio that waited"
        assert not talking.voice_sounds()
        with pytest.raises(ProtocolError, match="held already"):
            await anext(talking.converse(talk(0.4)))
        await events.aclose()  # type: ignore[attr-defined]
    # The fixture `nothing_left_behind` sees that no task goes on.


def test_silence_in_front_of_an_answer_is_part_of_the_wait_however_fast_it_came() -> None:
    clock = TurnClock(0, speech_end=10.0, final_text=10.5)
    clock.token(10.5)
    silence, tone = bytes(24_000), b"\x00\x20" * 1200
    assert not clock.audio(silence, 10.6)  # half a second each, all at once
    assert not clock.audio(silence, 10.6)
    assert clock.audio(bytes(4_800) + tone, 10.6)
    assert not clock.audio(tone, 10.7), "it is told once"

    assert clock.result().total_ms == pytest.approx(600 + 1000 + 100)


def test_settings_that_cannot_be_are_named_together() -> None:
    with pytest.raises(BadInputError) as caught:
        ConversationSettings(first_token=0, barge_in=BargeIn(minimum_speech=9), turns=Turns(pause=99), history=-1)

    for name in ("first_token", "minimum speech", "pause", "history"):
        assert name in str(caught.value)
