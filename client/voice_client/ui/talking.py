"""The tab Talk: a conversation whose microphone and loudspeaker are in the browser."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

from voice_client.errors import VoiceError
from voice_client.replies import Exchange, Reply
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
from voice_client.session.conversation_metrics import TurnMetrics
from voice_client.session.conversation_settings import BargeIn, ConversationSettings
from voice_client.session.ending import end_tasks
from voice_client.session.events import Notice, Partial, Restarted, SpeechChunk
from voice_client.session.recovery import can_recover
from voice_client.session.synthesizer import Synthesizer
from voice_client.session.transcriber import Transcriber
from voice_client.ui.browser_audio import BrowserMicrophone
from voice_client.ui.endpoints import SharedEndpoints
from voice_client.ui.measures import rounded
from voice_client.ui.page_socket import PageSocket, error_text, number_field, text_field
from voice_client.ui.settings import PageSettings


class TalkingTab:
    """One tab; holds one conversation at a time.

    From the page: `talk` (rate, channels, voice, language, barge_in) then sound; `interrupt`, `stop`.

    To the page: `listening`, `user_speaks`, `partial` (text), `turn` (turn, text), `reply` (turn, delta), audio (its
    utterance is the turn), `restarted` (turn, sentence), `interrupted` (turn, heard), `resumed` (turn), `replied`
    (turn), `measured` (metrics), `failed` (turn, part, message), `notice`, `lost` (message), `ended`, `error`.

    Args:
        page: the tab's socket.
        endpoints: shared by all tabs.
        reply: makes the replies.
        settings: limits.
    """

    def __init__(self, page: PageSocket, endpoints: SharedEndpoints, reply: Reply, settings: PageSettings) -> None:
        self._page = page
        self._endpoints = endpoints
        self._reply = reply
        self._settings = settings
        self._microphone: BrowserMicrophone | None = None
        self._conversation: Conversation | None = None
        self._history: tuple[Exchange, ...] = ()
        self._work: asyncio.Task[None] | None = None
        self._turn = 0
        """The turn whose reply is spoken."""
        self._first_turn = 0
        """What the turns of the conversation under way are counted from, over losses of the endpoint."""

    async def run(self) -> None:
        """Serve the tab until it is closed; then nothing of it goes on."""
        try:
            async for message in self._page.messages():
                try:
                    await self._take(message)
                except VoiceError as error:
                    await self._stop()
                    await self._page.send_error(error)
        finally:
            await self._stop()

    async def _take(self, message: dict[str, Any] | bytes) -> None:
        if isinstance(message, bytes):
            if self._microphone is not None:
                self._microphone.feed(message)
            return
        match message["type"]:
            case "talk":
                await self._stop()
                self._history, self._first_turn = (), 0
                self._microphone = BrowserMicrophone(
                    rate=number_field(message, "rate"),
                    channels=number_field(message, "channels"),
                    kept_seconds=self._settings.kept_sound,
                )
                talk = partial(self._across_losses, message, self._microphone)
                self._work = asyncio.create_task(self._page.told(talk), name="page-talking")
            case "interrupt" if self._conversation is not None:
                self._conversation.interrupt()
            case "stop":
                await self._stop()
                await self._page.send("ended")

    async def _stop(self) -> None:
        work, self._work = self._work, None
        if work is not None:
            await end_tasks(work)
        self._microphone = self._conversation = None

    async def _across_losses(self, request: dict[str, Any], microphone: BrowserMicrophone) -> None:
        """Talk until the tab wants no more; a lost endpoint is tried again and again, and the history stays."""
        worked = False
        while True:
            try:
                async for event in self._events(request, microphone):
                    worked = True
                    await self._show(event)
            except VoiceError as error:
                if not can_recover(error, reconnecting=worked):
                    raise
                await self._page.send("lost", message=error_text(error))
                await asyncio.sleep(self._settings.retry_every)
                microphone.forget()  # to answer now what was said to a deaf ear would surprise
            else:
                return

    async def _events(self, request: dict[str, Any], microphone: BrowserMicrophone) -> AsyncIterator[ConversationEvent]:
        ear_endpoint, voice_endpoint = await self._endpoints.ear(), await self._endpoints.voice()
        settings = ConversationSettings(barge_in=BargeIn() if request.get("barge_in", True) else None)
        ear = Transcriber(
            ear_endpoint.opener,
            model=self._endpoints.ear_model(ear_endpoint),
            settings=settings.hearing(),
            max_model_len=ear_endpoint.max_model_len,
            endpoint_name=ear_endpoint.name,
        )
        voice = Synthesizer(
            voice_endpoint.opener,
            model=self._endpoints.voice_model(voice_endpoint),
            voice=text_field(request, "voice") or None,
            language=text_field(request, "language") or None,
        )
        async with ear, voice:
            await self._page.send("listening")
            conversation = Conversation(ear, voice, self._reply, settings=settings, history=self._history)
            self._conversation = conversation
            try:
                async for event in conversation.converse(microphone):
                    yield event
            finally:
                self._conversation = None
                self._history = conversation.history
                self._first_turn = len(self._history)

    async def _show(self, event: ConversationEvent) -> None:  # noqa: PLR0911
        page = self._page
        match event:
            case UserStartedSpeaking():
                return await page.send("user_speaks")
            case Partial(text=text):
                return await page.send("partial", text=text)
            case UserTurn(turn=turn, text=text):
                self._turn = self._first_turn + turn
                return await page.send("turn", turn=self._turn, text=text)
            case ReplyText(delta=delta):
                return await page.send("reply", turn=self._turn, delta=delta)
            case SpeechChunk(sentence=sentence, pcm=pcm):
                return await page.send_audio(self._turn, sentence, pcm)
            case Restarted(sentence=sentence):
                return await page.send("restarted", turn=self._turn, sentence=sentence)
            case Interrupted(heard=heard):
                return await page.send("interrupted", turn=self._turn, heard=heard)
            case Resumed():
                return await page.send("resumed", turn=self._turn)
            case ReplyDone():
                return await page.send("replied", turn=self._turn)
            case TurnMetrics():
                return await page.send("measured", metrics=rounded(event) | {"turn": self._first_turn + event.turn})
            case TurnFailed(part=part, error=error):
                return await page.send("failed", turn=self._turn, part=part, message=error_text(error))
            case Notice(message=message):
                return await page.send("notice", message=message)
