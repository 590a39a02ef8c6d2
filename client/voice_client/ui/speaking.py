"""The tab Speak: a text comes, its audio goes out as it is made."""

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

from voice_client.errors import BadInputError, VoiceError
from voice_client.session.ending import end_tasks
from voice_client.session.events import Restarted, SpeechChunk
from voice_client.session.synthesizer import Speech, Synthesizer
from voice_client.ui.endpoints import SharedEndpoints
from voice_client.ui.measures import rounded
from voice_client.ui.page_socket import PageSocket, number_field, text_field


@dataclass(frozen=True, slots=True)
class _Manner:
    """How the page asks for a text to be spoken."""

    voice: str | None
    language: str | None
    instructions: str | None

    @classmethod
    def of(cls, request: dict[str, Any]) -> Self:
        """Read it from a message.

        Raises:
            BadInputError: fields that are no text.
        """
        fields = {name: text_field(request, name).strip() or None for name in ("voice", "language", "instructions")}
        return cls(**fields)


class SpeakingTab:
    """One tab; speaks one text at a time, the newest.

    From the page: `speak` (utterance, text, voice, language, instructions), `stop`, `warm` (somebody is writing a text
    for this voice, language, instructions: open a stream, which ends by itself when no text comes). To the page:
    `speaking` (utterance, sentences), audio, `restarted` (utterance, sentence), `notice`, `spoken` (utterance,
    metrics), `error` (utterance, or warming: true).

    Args:
        page: the tab's socket.
        endpoints: shared by all tabs.
    """

    def __init__(self, page: PageSocket, endpoints: SharedEndpoints) -> None:
        self._page = page
        self._endpoints = endpoints
        self._speaking: asyncio.Task[None] | None = None
        self._warming: asyncio.Task[None] | None = None
        self._voice: Synthesizer | None = None
        self._manner: _Manner | None = None
        """How `_voice` speaks."""

    async def run(self) -> None:
        """Serve the tab until it is closed; then nothing of it goes on."""
        try:
            async for message in self._page.messages():
                if isinstance(message, bytes):
                    continue  # this tab sends none
                match message["type"]:
                    case "speak":
                        await self._stop()
                        speaking = self._page.told(partial(self._speak, message))
                        self._speaking = asyncio.create_task(speaking, name="page-speaking")
                    case "stop":
                        await self._stop()
                    case "warm" if not (_runs(self._warming) or _runs(self._speaking)):
                        self._warming = asyncio.create_task(self._warm(message), name="page-warming")
        finally:
            await self._stop()
            if self._warming is not None:
                await end_tasks(self._warming)
            await self._leave_voice()

    async def _stop(self) -> None:
        speaking, self._speaking = self._speaking, None
        if speaking is not None:
            await end_tasks(speaking)

    async def _warm(self, request: dict[str, Any]) -> None:
        try:
            voice = await self._voice_for(_Manner.of(request))
            await voice.ready()
        except VoiceError as error:  # said now, before the user has written a whole text
            await self._page.send_error(error, warming=True)

    async def _speak(self, request: dict[str, Any]) -> None:
        utterance = request.get("utterance")
        try:
            await self._speak_text(number_field(request, "utterance"), request)
        except VoiceError as error:
            await self._leave_voice()
            await self._page.send_error(error, utterance=utterance)

    async def _speak_text(self, utterance: int, request: dict[str, Any]) -> None:
        if self._warming is not None:
            await asyncio.wait({self._warming})  # it opens what is needed here
        text = text_field(request, "text")
        if not text.strip():
            raise BadInputError("there is no text to speak", advice="Write one")
        voice = await self._voice_for(_Manner.of(request))
        speech = voice.speak(text)
        await self._page.send("speaking", utterance=utterance, sentences=speech.total_sentences)
        await self._pass_on(utterance, speech)
        await self._page.send("spoken", utterance=utterance, metrics=rounded(speech.metrics))

    async def _voice_for(self, manner: _Manner) -> Synthesizer:
        """Return a synthesizer that speaks so: the last one, whose stream may still be open, or a new one."""
        if self._voice is None or self._manner != manner:
            await self._leave_voice()
            endpoint = await self._endpoints.voice()
            voice = Synthesizer(
                endpoint.opener,
                model=self._endpoints.voice_model(endpoint),
                voice=manner.voice,
                language=manner.language,
                instructions=manner.instructions,
            )
            self._voice = await voice.__aenter__()
            self._manner = manner
        return self._voice

    async def _leave_voice(self) -> None:
        voice, self._voice = self._voice, None
        if voice is not None:
            await voice.__aexit__(None, None, None)

    async def _pass_on(self, utterance: int, speech: Speech) -> None:
        told = 0
        async for event in speech:
            for notice in speech.notices[told:]:
                await self._page.send("notice", utterance=utterance, message=notice.message)
            told = len(speech.notices)
            match event:
                case SpeechChunk(sentence=sentence, pcm=pcm):
                    await self._page.send_audio(utterance, sentence, pcm)
                case Restarted(sentence=sentence):
                    await self._page.send("restarted", utterance=utterance, sentence=sentence)


def _runs(task: asyncio.Task[None] | None) -> bool:
    return task is not None and not task.done()
