"""The answer to one turn: a reply in words as the plug makes it, spoken sentence by sentence, until it was heard."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence

from voice_client.audio.pacing import Clock
from voice_client.errors import DeadlineError, VoiceError
from voice_client.replies.reply import Exchange, Reply, ReplyError
from voice_client.session.conversation_events import ConversationEvent, ReplyDone, ReplyText, TurnFailed, UserTurn
from voice_client.session.conversation_metrics import TurnClock
from voice_client.session.conversation_settings import ConversationSettings
from voice_client.session.events import Notice, Restarted, SpeechChunk
from voice_client.session.playing import Playing
from voice_client.session.synthesizer import Speech, Synthesizer


class Answer:
    """One answer; run once.

    Args:
        turn: what is answered.
        voice: speaks it; another utterance of it must be over.
        settings: limits.
        clock: the sessions' clock.
        measures: the turn's, its text complete.
    """

    def __init__(
        self,
        turn: UserTurn,
        voice: Synthesizer,
        *,
        settings: ConversationSettings,
        clock: Clock,
        measures: TurnClock,
    ) -> None:
        self.turn = turn
        self.interrupted = False
        self.resumable = False
        """Whether it was stopped by what may have been no words, and before anything of it was heard."""
        self._voice = voice
        self._settings = settings
        self._clock = clock
        self._measures = measures
        self._measured = False
        self._playing = Playing(clock, delay=settings.playback_delay)
        self._speech: Speech | None = None
        self._heard: str | None = None
        self.played_seconds = 0.0
        """How much of its audio had been played when it was interrupted."""
        self._text = ""
        self._notices = 0
        self._listener: Callable[[ConversationEvent], None] | None = None

    @property
    def sounds(self) -> bool:
        """Whether the voice can be heard now."""
        return not self.interrupted and self._playing.sounds

    @property
    def heard(self) -> str:
        """The sentences that have begun to sound; frozen by an interruption."""
        if self._heard is not None:
            return self._heard
        return " ".join(self._speech.sentences[: self._playing.begun()]) if self._speech is not None else ""

    def interrupt(self, *, resumable: bool) -> str:
        """Stop telling events, from this moment on; returns what was heard. The task is the caller's to cancel."""
        self._heard = self.heard
        self.played_seconds = self._playing.played_seconds
        self.interrupted = True
        self.resumable = resumable and not self._heard
        if self._speech is not None:
            self._speech.interrupt()
        return self._heard

    async def run(
        self, reply: Reply, history: Sequence[Exchange], listener: Callable[[ConversationEvent], None]
    ) -> None:
        """Make the reply, speak it, and return when it has been played; failures are told as `TurnFailed`."""
        self._listener = listener
        self._speech = speech = self._voice.open_speech()
        try:
            async with asyncio.TaskGroup() as parts:
                wording = parts.create_task(self._word(reply, history, speech), name="voice-wording")
                parts.create_task(self._speak(speech, wording), name="voice-speaking")
            self._tell(ReplyDone(self.turn.turn, self._text))
            await self._playing.finished()
        finally:
            await speech.cancel()
            self._tell_measures()

    async def _word(self, reply: Reply, history: Sequence[Exchange], speech: Speech) -> None:
        """Push the reply's words into the voice as they come."""
        try:
            async for piece in self._pieces(reply, history):
                self._measures.token(self._clock.now())
                self._text += piece
                self._tell(ReplyText(self.turn.turn, piece))
                speech.push_text(piece)
                if len(self._text) >= self._settings.longest_reply:
                    raise ReplyError(f"the reply did not end within {self._settings.longest_reply} characters")
        except VoiceError as error:
            self._tell(TurnFailed(self.turn.turn, "reply", error))
        if self._text.strip():
            speech.end()
        else:
            await speech.cancel()

    async def _pieces(self, reply: Reply, history: Sequence[Exchange]) -> AsyncGenerator[str]:
        """Yield the reply's pieces that hold something, each in its time; any failure of the plug is a VoiceError."""
        seconds = self._settings.first_token
        pieces = reply(self.turn.text, history)
        deadline = asyncio.timeout(None)
        try:
            while True:
                async with asyncio.timeout(seconds) as deadline:
                    while (piece := await anext(pieces, None)) == "":
                        pass
                if piece is None:
                    return
                seconds = self._settings.next_token
                yield piece
        except VoiceError:
            raise
        except Exception as error:
            if deadline.expired():
                raise DeadlineError(f"the reply brought nothing for {seconds:g} s") from error
            raise ReplyError(
                f"the reply failed with {type(error).__name__}", advice="VOICE_DEBUG=1 shows where"
            ) from error
        finally:
            if (close := getattr(pieces, "aclose", None)) is not None:
                await close()

    async def _speak(self, speech: Speech, wording: asyncio.Task[None]) -> None:
        """Hand the voice's audio out as it comes."""
        try:
            async for event in speech:
                for notice in speech.notices[self._notices :]:
                    self._tell(notice)
                self._notices = len(speech.notices)
                match event:
                    case SpeechChunk(sentence=sentence, pcm=pcm):
                        self._playing.add(sentence, pcm)
                        self._tell(event)
                        if self._measures.audio(pcm, self._clock.now()):
                            self._tell_measures()
                    case Restarted(sentence=sentence):
                        self._playing.restart(sentence)
                        self._tell(event)
        except VoiceError as error:
            wording.cancel()
            self._tell(TurnFailed(self.turn.turn, "voice", error))

    def _tell(self, event: ConversationEvent | Notice) -> None:
        if self._listener is not None and not self.interrupted:
            self._listener(event)

    def _tell_measures(self) -> None:
        """Tell the turn's measures, once: at its first sound, or when it ends without one."""
        if not self._measured and self._listener is not None:
            self._measured = True
            self._listener(self._measures.result(interrupted=self.interrupted))
