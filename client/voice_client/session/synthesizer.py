"""Text to speech: a text in, audio out sentence by sentence, as it is made."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from voice_client.audio.pacing import Clock, MonotonicClock
from voice_client.audio.pcm import SampleAligner
from voice_client.errors import BadInputError, DeadlineError, ModelError, ProtocolError, VoiceError
from voice_client.protocol import speech
from voice_client.session.connection import Connection, Received, StreamOpener
from voice_client.session.endpoint import EndpointAddress, open_endpoint
from voice_client.session.events import Notice, SpeechChunk
from voice_client.session.metrics import SpeakingClock, SpeakingMetrics
from voice_client.session.recovery import can_recover
from voice_client.session.sentences import split_sentences
from voice_client.session.settings import Retry, SynthesizerSettings
from voice_client.session.voices import chosen_voice, language_name


class Synthesizer:
    """A conversation with a text-to-speech model; speaks one text after the other.

    Made by `connect`, or over any stream of messages:

        async with Synthesizer(opener, voice="Vivian") as voice:
            async for chunk in voice.speak("Good morning."):
                ...

    Args:
        opener: opens a stream to the model's `/v1/audio/speech/stream`.
        model: name the server knows the model by; None leaves it to the server.
        voice: one of the model's voices, in any case; None takes Vivian of a Qwen3-TTS CustomVoice model.
        language: name or code of one of the ten languages; None lets the model find out.
        retry: how to come back after a loss; None gives the first loss to the caller.
        settings: limits and time-outs.
        clock: time for measures and back-off.

    Raises:
        BadInputError: a voice or a language that the model does not know.
    """

    def __init__(
        self,
        opener: StreamOpener,
        *,
        model: str | None = None,
        voice: str | None = None,
        language: str | None = None,
        retry: Retry | None = Retry(),  # noqa: B008 - frozen
        settings: SynthesizerSettings = SynthesizerSettings(),  # noqa: B008 - frozen
        clock: Clock | None = None,
    ) -> None:
        self._opener = opener
        self.voice = chosen_voice(voice, model=model)
        """The voice that is asked for; None leaves it to the server."""
        self.language = language_name(language)
        """The language that is asked for, by its name; None lets the model find out."""
        self._config = speech.session_config(model=model, voice=self.voice, language=self.language)
        self.retry = retry
        self.settings = settings
        self.clock = clock or MonotonicClock()
        self._connection: Connection[speech.ServerEvent] | None = None
        self._speaking: Speech | None = None
        self._utterances = 0
        self.connect_ms = 0.0
        """How long the newest stream took to open, in milliseconds."""

    @classmethod
    @asynccontextmanager
    async def connect(
        cls,
        *,
        stage: str | None = None,
        endpoint_name: str | None = None,
        region: str | None = None,
        endpoint_url: str | None = None,
        ca_bundle: str | Path | None = None,
        model: str | None = None,
        voice: str | None = None,
        language: str | None = None,
        retry: Retry | None = Retry(),  # noqa: B008 - frozen
        settings: SynthesizerSettings = SynthesizerSettings(),  # noqa: B008 - frozen
    ) -> AsyncGenerator[Self]:
        """Connect to the text-to-speech endpoint of a stage, or to one given by name.

        Args:
            stage: the deployed stage whose endpoint is looked up; "dev" when no endpoint is named.
            endpoint_name: a SageMaker endpoint, instead of a stage.
            region: AWS region; None takes the SDK's default chain.
            endpoint_url: another address of the streaming API than AWS's own.
            ca_bundle: PEM file of certificate authorities to trust instead of the system's.
            model: name the server knows the model by; None takes what the stage deployed.
            voice: one of the model's voices; None leaves it to the server.
            language: name or code of one of the ten languages; None lets the model find out.
            retry: how to come back after a loss; None gives the first loss to the caller.
            settings: limits and time-outs.

        Raises:
            VoiceError: input, credentials, endpoint or connection; each subclass says which.
        """
        address = EndpointAddress("tts", stage, endpoint_name, region, endpoint_url, ca_bundle)
        async with (
            open_endpoint(address, invocation_path=speech.INVOCATION_PATH) as endpoint,
            cls(
                endpoint.opener,
                model=model or endpoint.model,
                voice=voice,
                language=language,
                retry=retry,
                settings=settings,
            ) as synthesizer,
        ):
            yield synthesizer

    async def __aenter__(self) -> Self:
        await self.ready()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.drop()

    def speak(self, text: str) -> "Speech":
        """Prepare to speak a text; iterating over the result sends it and yields the audio.

        Raises:
            BadInputError: no text, or too much of it.
        """
        if not text.strip():
            raise BadInputError("there is no text to speak")
        if len(text) > self.settings.longest_text:
            raise BadInputError(
                f"the text has {len(text)} characters; at most {self.settings.longest_text} are spoken at once",
                advice="Speak it in parts",
            )
        utterance = Speech(self, self._utterances, split_sentences(text, longest=self.settings.longest_sentence))
        self._utterances += 1
        return utterance

    async def ready(self) -> Connection[speech.ServerEvent]:
        """Return a stream on which the session is configured; a new one when the last has ended (30 s idle)."""
        if self._connection is not None and self._connection.ended:
            await self.drop()
        if self._connection is None:
            started = self.clock.now()
            connection = await Connection.open(self._opener, speech.parse)
            try:
                await connection.send(self._config)
            except BaseException:
                await connection.close()
                raise
            self._connection = connection
            self.connect_ms = (self.clock.now() - started) * 1000
        return self._connection

    async def drop(self) -> None:
        """Close the stream; whatever the server still speaks on it is lost."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    async def take_turn(self, utterance: "Speech") -> None:
        """Give the stream to one utterance.

        Raises:
            ProtocolError: another one is speaking.
        """
        for _ in range(3):  # Python closes a loop that was left early some turns of the event loop later
            if self._speaking is not None and self._speaking.leaving:
                await self._speaking.over.wait()
            await asyncio.sleep(0)
        if self._speaking is not None:
            raise ProtocolError("another text is being spoken on this synthesizer; let it end or leave its loop first")
        self._speaking = utterance

    def end_turn(self) -> None:
        """Take the stream back."""
        self._speaking = None


class Speech:
    """A text being spoken: iterate once for its audio; `metrics` and `notices` tell how it went.

    Leaving the loop early stops the voice: the stream is closed, since a model that speaks reads nothing.
    """

    def __init__(self, synthesizer: Synthesizer, utterance: int, sentences: Sequence[str]) -> None:
        self.utterance = utterance
        self.sentences = tuple(sentences)
        """The sentences in the order in which they are spoken; `SpeechChunk.sentence` is an index into them."""
        self.notices: list[Notice] = []
        self._synthesizer = synthesizer
        self._clock = SpeakingClock()
        self._done = 0
        self._heard = False
        """Whether the sentence that is being spoken has given audio already."""
        self._started = False
        self.leaving = False
        """Whether the loop over the audio has ended, well or not."""
        self.over = asyncio.Event()
        """Set when the stream is free for the next utterance."""

    @property
    def metrics(self) -> SpeakingMetrics:
        """The measures so far; complete when the loop over the audio has ended."""
        return self._clock.result(connect_ms=self._synthesizer.connect_ms)

    async def __aiter__(self) -> AsyncIterator[SpeechChunk]:
        """Yield the audio.

        Raises:
            VoiceError: the text could not be spoken to its end; the chunks so far are good.
            ProtocolError: another text is being spoken, or this one was spoken already.
        """
        if self._started:
            raise ProtocolError("this text was spoken already; call speak() again to hear it again")
        self._started = True
        voice = self._synthesizer
        await voice.take_turn(self)
        try:
            while self._done < len(self.sentences):
                try:
                    async with aclosing(self._speak_on(await voice.ready())) as chunks:
                        async for chunk in chunks:
                            yield chunk
                except VoiceError as error:
                    await self._wait_to_retry(error)
        finally:
            self.leaving = True
            try:
                if self._done < len(self.sentences):
                    await voice.drop()
            finally:
                voice.end_turn()
                self.over.set()

    async def _wait_to_retry(self, error: VoiceError) -> None:
        voice = self._synthesizer
        await voice.drop()
        retry, retries = voice.retry, self._clock.retries
        # Audio of this sentence is out already: to speak it again would make the listener hear words twice.
        hopeless = self._heard or not can_recover(error, reconnecting=retries > 0)
        if retry is None or hopeless or retries >= retry.attempts:
            raise error
        self._clock.retries = retries + 1
        message = f"{error.message}; opening a new stream and speaking sentence {self._done + 1} again"
        self.notices.append(Notice("reconnecting", message))
        await voice.clock.sleep(retry.wait(retries + 1))

    async def _speak_on(self, connection: Connection[speech.ServerEvent]) -> AsyncGenerator[SpeechChunk]:
        """Speak all sentences that are left on one stream."""
        sent = self._done
        while self._done < len(self.sentences):
            last = min(len(self.sentences), self._done + 1 + self._synthesizer.settings.sentences_ahead)
            for sentence in self.sentences[sent:last]:
                self._clock.text_sent(self._synthesizer.clock.now())
                await connection.send(speech.input_text(sentence))
                await connection.send(speech.input_done())
            sent = last
            self._heard = False
            async with aclosing(self._sentence(connection)) as chunks:
                async for chunk in chunks:
                    yield chunk
            self._clock.sentence()
            self._done += 1
            self._heard = False

    async def _sentence(self, connection: Connection[speech.ServerEvent]) -> AsyncGenerator[SpeechChunk]:
        """Yield the audio of the sentence whose turn it is, to its `session.done`."""
        aligner = SampleAligner()
        received_bytes = 0
        while True:
            match (await self._next(connection)).event:
                case speech.Audio(data):
                    received_bytes += len(data)
                    if pcm := aligner.align(data):
                        self._clock.frame(pcm, self._synthesizer.clock.now())
                        self._heard = True
                        yield SpeechChunk(self.utterance, self._done, pcm)
                case speech.AudioStart(sample_rate=rate) if rate not in {None, speech.SAMPLE_RATE_HZ}:
                    raise ProtocolError(f"the model speaks at {rate} Hz instead of {speech.SAMPLE_RATE_HZ} Hz")
                case speech.ErrorEvent(message):
                    raise self._failed(message)
                case speech.AudioDone() as end:
                    self._check_end(end, received_bytes)
                case speech.SessionDone():
                    # It comes after failures too, so it is a success only when something was spoken.
                    if not received_bytes:
                        raise self._failed("it ended the sentence without any audio")
                    return
                case _:  # AudioStart, or an event of a later release
                    continue

    def _check_end(self, end: speech.AudioDone, received_bytes: int) -> None:
        if end.error:
            raise self._failed("it broke off in the middle of the audio")
        if end.total_bytes != received_bytes:
            raise ProtocolError(
                f"sentence {self._done + 1}: {received_bytes} bytes of audio arrived but {end.total_bytes} were sent"
            )

    async def _next(self, connection: Connection[speech.ServerEvent]) -> Received[speech.ServerEvent]:
        settings = self._synthesizer.settings
        seconds = settings.next_audio if self._heard else settings.first_audio
        try:
            async with asyncio.timeout(seconds):
                return await connection.receive()
        except TimeoutError as error:
            wanted = "more audio" if self._heard else "audio"
            raise DeadlineError(f"sentence {self._done + 1}: no {wanted} within {seconds:g} s") from error

    def _failed(self, reason: str) -> ModelError:
        return ModelError(
            f"the model did not speak sentence {self._done + 1}: {reason}",
            advice="Check voice and language against the model, and look into the endpoint's log group",
        )
