"""The tab Transcribe: sound of a microphone or a file comes, its text goes out as it is heard."""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from functools import partial
from pathlib import Path
from typing import Any

from voice_client.audio import AudioFile, AudioSource
from voice_client.cli.progress import WatchedSource
from voice_client.cli.transcript import Transcript
from voice_client.errors import BadInputError, DeadlineError, VoiceError
from voice_client.replies.chat import ChatEndpoint
from voice_client.session.ending import end_tasks
from voice_client.session.events import Final, Notice, Partial, SessionStarted, TranscriptEvent
from voice_client.session.recovery import can_recover
from voice_client.session.settings import TranscriberSettings, Turns
from voice_client.session.transcriber import Transcriber
from voice_client.ui.browser_audio import BrowserMicrophone
from voice_client.ui.endpoints import SharedEndpoints
from voice_client.ui.measures import rounded
from voice_client.ui.page_socket import PageSocket, error_text, number_field, text_field
from voice_client.ui.settings import PageSettings
from voice_client.ui.upload import Upload

_PROGRESS_STEP = 0.5
"""Seconds of a file between two messages about how far it is."""


class TranscribingTab:
    """One tab; hears one source at a time.

    From the page: `listen` (rate, channels) then sound then `listened`; or `file` (name, size) then its bytes; `stop`
    (drop what is under way), `summarize`. To the page: `hearing`, `partial` (text), `final` (text, start, end,
    metrics), `progress` (seconds, of), `notice`, `lost` (message), `transcribed` (txt, srt, json), `forms` (the same of
    what was heard until it failed or was stopped), `summary` (delta), `summarized`, `error`.

    Args:
        page: the tab's socket.
        endpoints: shared by all tabs.
        chat: makes summaries; None where no endpoint is configured.
        settings: limits.
    """

    def __init__(
        self, page: PageSocket, endpoints: SharedEndpoints, chat: ChatEndpoint | None, settings: PageSettings
    ) -> None:
        self._page = page
        self._endpoints = endpoints
        self._chat = chat
        self._settings = settings
        self._microphone: BrowserMicrophone | None = None
        self._upload: Upload | None = None
        self._transcript = Transcript(turns=True)
        self._work: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Serve the tab until it is closed; then nothing of it goes on, and no file of it is left."""
        with tempfile.TemporaryDirectory(prefix="voice-ui-") as folder:
            try:
                async for message in self._page.messages():
                    try:
                        await self._take(message, Path(folder))
                    except VoiceError as error:
                        await self._stop()
                        await self._page.send_error(error)
            finally:
                await self._stop()

    async def _take(self, message: dict[str, Any] | bytes, folder: Path) -> None:
        if isinstance(message, bytes):
            self._take_bytes(message)
            return
        match message["type"]:
            case "listen":
                await self._stop()
                self._microphone = BrowserMicrophone(
                    rate=number_field(message, "rate"),
                    channels=number_field(message, "channels"),
                    kept_seconds=self._settings.kept_sound,
                )
                self._begin(partial(self._hear_microphone, self._microphone))
            case "listened" if self._microphone is not None:
                self._microphone.end()
            case "file":
                await self._stop()
                self._upload = Upload(
                    folder,
                    name=text_field(message, "name"),
                    size=number_field(message, "size"),
                    largest=self._settings.largest_upload,
                )
            case "stop":
                await self._stop()
                await self._send_forms("forms")
            case "summarize":
                await self._stop()
                self._begin(self._summarize)

    def _take_bytes(self, data: bytes) -> None:
        if self._upload is not None:
            if (path := self._upload.take(data)) is not None:
                name, self._upload = self._upload.name, None
                self._begin(partial(self._hear_file, path, name))
        elif self._microphone is not None:
            self._microphone.feed(data)

    def _begin(self, work: Callable[[], Awaitable[None]]) -> None:
        self._work = asyncio.create_task(self._page.told(work), name="page-transcribing")

    async def _stop(self) -> None:
        work, self._work = self._work, None
        if work is not None:
            await end_tasks(work)
        self._microphone = None
        if self._upload is not None:
            self._upload.drop()
            self._upload = None

    async def _hear_microphone(self, microphone: BrowserMicrophone) -> None:
        """Hear a microphone to its end, across losses of the endpoint: what was heard stays."""
        self._transcript = Transcript(turns=True)
        worked = False
        while True:
            try:
                async for event in self._events(microphone, paced=True):
                    worked = worked or isinstance(event, SessionStarted)
                    await self._show(event)
                break
            except VoiceError as error:
                if isinstance(error, BadInputError) and worked:
                    break  # the microphone was stopped with nothing left to hear
                if not can_recover(error, reconnecting=worked):
                    await self._send_forms("forms")
                    raise
                await self._page.send("lost", message=error_text(error))
                await asyncio.sleep(self._settings.retry_every)
        await self._send_forms("transcribed")

    async def _hear_file(self, path: Path, name: str) -> None:
        self._transcript = Transcript(turns=True)
        try:
            file = AudioFile(path)
            seconds = await asyncio.to_thread(file.seconds)
            passed = shown = 0.0

            def progress(step: float) -> None:
                nonlocal passed
                passed += step

            async for event in self._events(WatchedSource(file, progress), paced=False):
                await self._show(event)
                if passed - shown >= _PROGRESS_STEP:
                    shown = passed
                    await self._page.send("progress", seconds=round(passed, 1), of=seconds)
        except VoiceError as error:
            error.message = error.message.replace(str(path), name)
            await self._send_forms("forms")
            raise
        finally:
            path.unlink(missing_ok=True)  # noqa: ASYNC240 - of a temporary folder
        await self._send_forms("transcribed")

    async def _events(self, source: AudioSource, *, paced: bool) -> AsyncIterator[TranscriptEvent]:
        endpoint = await self._endpoints.ear()
        settings = TranscriberSettings(turns=Turns(), paced=paced)
        async with Transcriber(
            endpoint.opener,
            model=self._endpoints.ear_model(endpoint),
            settings=settings,
            max_model_len=endpoint.max_model_len,
            endpoint_name=endpoint.name,
        ) as ear:
            await self._page.send("hearing")
            async for event in ear.transcribe(source):
                yield event

    async def _show(self, event: TranscriptEvent) -> None:
        match event:
            case Partial(text=text):
                await self._page.send("partial", text=text)
            case Final():
                self._transcript.finals.append(event)
                await self._page.send(
                    "final", text=event.text.strip(), start=event.start, end=event.end, metrics=rounded(event.metrics)
                )
            case Notice(message=message):
                await self._page.send("notice", message=message)
            case SessionStarted():
                return

    async def _send_forms(self, kind: str) -> None:
        forms = {form: self._transcript.formatted(form) for form in ("txt", "srt", "json")}
        await self._page.send(kind, **forms)

    async def _summarize(self) -> None:
        if self._chat is None:
            raise BadInputError("no chat endpoint is configured")
        if not self._transcript.text:
            raise BadInputError("there is no text to summarize yet")
        seconds = self._settings.summary
        try:
            async with asyncio.timeout(seconds), aclosing(self._chat.summary(self._transcript.text)) as pieces:
                async for piece in pieces:
                    await self._page.send("summary", delta=piece)
        except TimeoutError as error:
            raise DeadlineError(f"the summary was not complete after {seconds:g} s", advice="Try again") from error
        await self._page.send("summarized")
