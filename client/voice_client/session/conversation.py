"""The loop of a voice agent: it listens, lets a plug reply, and speaks; the user may interrupt at any moment."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable

from voice_client.audio.pacing import Clock, MonotonicClock
from voice_client.audio.source import AudioSource
from voice_client.errors import ProtocolError, VoiceError
from voice_client.replies.reply import Exchange, Reply
from voice_client.session.answer import Answer
from voice_client.session.attention import AttentiveSource
from voice_client.session.conversation_events import (
    ConversationEvent,
    Interrupted,
    Resumed,
    UserStartedSpeaking,
    UserTurn,
)
from voice_client.session.conversation_metrics import TurnClock
from voice_client.session.conversation_settings import ConversationSettings
from voice_client.session.ending import end_tasks
from voice_client.session.events import Final, Notice, Partial, Restarted, SessionStarted, SpeechChunk
from voice_client.session.mailbox import Mailbox
from voice_client.session.synthesizer import Synthesizer
from voice_client.session.transcriber import Transcriber


class Conversation:
    """Speech in, speech out.

        settings = ConversationSettings()
        async with (
            Transcriber.connect(stage="dev", settings=settings.hearing()) as ear,
            Synthesizer.connect(stage="dev", voice="Vivian") as voice,
        ):
            async for event in Conversation(ear, voice, echo, settings=settings).converse(Microphone()):
                match event:
                    case SpeechChunk(pcm=pcm):
                        player.play(pcm)
                    case Interrupted():
                        player.stop()

    A turn ends with a pause (`settings.turns`). Speech during a reply, or before it, interrupts it
    (`settings.barge_in`). Speech that turns out to hold no word does not count as a turn; a reply that it stopped
    before its first sound is made again.

    Args:
        ear: hears turn by turn; made with `settings.hearing()`.
        voice: speaks.
        reply: makes the replies.
        settings: how turns are taken, and limits.
        history: exchanges of an earlier conversation that this one goes on with.
        clock: time for measures.
    """

    def __init__(
        self,
        ear: Transcriber,
        voice: Synthesizer,
        reply: Reply,
        *,
        settings: ConversationSettings = ConversationSettings(),  # noqa: B008 - frozen
        history: Iterable[Exchange] = (),
        clock: Clock | None = None,
    ) -> None:
        self._ear = ear
        self._voice = voice
        self._reply = reply
        self._settings = settings
        self._clock = clock or MonotonicClock()
        self._turns = 0
        self._history = list(history)
        self._answer: Answer | None = None
        self._answering: asyncio.Task[None] | None = None
        self._warming: asyncio.Task[None] | None = None
        self._events: Mailbox[ConversationEvent] | None = None
        """Where events go while the conversation is being held."""

    @property
    def history(self) -> tuple[Exchange, ...]:
        """The exchanges so far, oldest first, each with what the user heard of the reply."""
        return tuple(self._history)

    def voice_sounds(self) -> bool:
        """Return whether the voice can be heard now, as far as a clock can tell."""
        return self._answer is not None and self._answer.sounds

    def reply_under_way(self) -> bool:
        """Return whether a reply is being made or can be heard."""
        return self._answering is not None and not self._answering.done()

    async def converse(self, source: AudioSource) -> AsyncIterator[ConversationEvent]:
        """Hold a conversation with whoever is heard in a source, to its end and the end of the last reply.

        A failed reply is a `TurnFailed`, and the conversation goes on. Leaving the loop early ends everything.

        Raises:
            VoiceError: the ear failed for good, or the source did; the history stays, and a new call goes on with it.
            ProtocolError: this conversation is being held already.
        """
        if self._events is not None:
            raise ProtocolError("this conversation is being held already")
        self._events = events = Mailbox[ConversationEvent]()
        # A task of its own: an async generator that is left early must not hold a task group open.
        task = asyncio.create_task(self._run(source), name="voice-conversation")
        task.add_done_callback(lambda _: events.end())
        try:
            while (event := await events.get()) is not None:
                yield event
            await task
        finally:
            await end_tasks(task)
            self._events = None

    def interrupt(self) -> bool:
        """Stop the reply under way for good; returns whether there was one."""
        return self._stop_answer(resumable=False)

    def _stop_answer(self, *, resumable: bool) -> bool:
        answer, answering = self._answer, self._answering
        if answer is None or answering is None or answering.done() or answer.interrupted:
            return False
        heard = answer.interrupt(resumable=resumable)
        answering.cancel()
        if self._events is not None:  # audio that a slow caller has not taken yet would be heard after the stop
            self._events.take_back(lambda event: isinstance(event, SpeechChunk | Restarted))
        self._tell(Interrupted(answer.turn.turn, heard, answer.played_seconds))
        return True

    async def _run(self, source: AudioSource) -> None:
        attention = AttentiveSource(
            source,
            floor=self,
            barge_in=self._settings.barge_in,
            on_speech=self._user_speaks,
            clock=self._clock,
        )
        try:
            async for event in self._ear.transcribe(attention):
                match event:
                    case Partial() | Notice():
                        self._tell(event)
                    case Final():
                        await self._turn_over(event, attention)
                    case SessionStarted():
                        continue
            if self._answering is not None:
                await asyncio.wait({self._answering})
        finally:
            await self._end_answer()
            if self._warming is not None:
                await end_tasks(self._warming)
            if self._answer is not None:
                self._history.append(Exchange(self._answer.turn.text, self._answer.heard))
                self._answer = None

    def _user_speaks(self) -> None:
        self._tell(UserStartedSpeaking())
        if self._settings.barge_in is not None:
            self._stop_answer(resumable=True)
        if self._warming is None or self._warming.done():
            self._warming = asyncio.create_task(self._warm(), name="voice-warming")

    async def _warm(self) -> None:
        """Open the voice's stream while the user speaks, so that the answer need not wait for it."""
        with contextlib.suppress(VoiceError):  # the answer will meet it too, and tell it
            await self._voice.ready()

    async def _turn_over(self, final: Final, attention: AttentiveSource) -> None:
        now = self._clock.now()
        speech_end = attention.speech_ended_at(final.end) or now
        # With a slow ear the user may have gone on already; an answer that began now would be spoken over them.
        held = self._settings.barge_in is not None and attention.spoken_since(final.end)
        text = final.text.strip()
        if not text:
            if self._answer is not None and self._answer.resumable:  # a cough stopped it
                self._tell(Resumed(self._answer.turn.turn))
                await self._begin_answer(self._answer.turn, speech_end=speech_end, held=held)
            return
        self._stop_answer(resumable=False)  # the user went on before the answer was due
        if self._answer is not None:
            self._history.append(Exchange(self._answer.turn.text, self._answer.heard))
        turn = UserTurn(self._turns, text, final.start, final.end)
        self._turns += 1
        self._tell(turn)
        await self._begin_answer(turn, speech_end=speech_end, held=held)

    async def _begin_answer(self, turn: UserTurn, *, speech_end: float, held: bool) -> None:
        """Begin an answer; one that is held back counts as interrupted before its first sound."""
        await self._end_answer()  # there is one voice
        settings = self._settings
        shown = tuple(self._history[-settings.history :]) if settings.history else ()
        measures = TurnClock(turn.turn, speech_end=speech_end, final_text=self._clock.now())
        self._answer = answer = Answer(turn, self._voice, settings=settings, clock=self._clock, measures=measures)
        if held:
            self._tell(Interrupted(turn.turn, answer.interrupt(resumable=True), answer.played_seconds))
            self._tell(measures.result(interrupted=True))
            return
        self._answering = asyncio.create_task(
            answer.run(self._reply, shown, self._tell), name=f"voice-answer-{turn.turn}"
        )

    async def _end_answer(self) -> None:
        answering, self._answering = self._answering, None
        if answering is None:
            return
        await end_tasks(answering)
        if not answering.cancelled():
            answering.result()  # what an answer does not tell as TurnFailed is a fault of the program

    def _tell(self, event: ConversationEvent) -> None:
        assert self._events is not None  # noqa: S101 - told while the conversation is being held only
        self._events.put(event)
