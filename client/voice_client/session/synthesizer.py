"""Text to speech: a text in, audio out sentence by sentence, as it is made."""

import asyncio
import weakref
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from voice_client.audio.pacing import Clock, MonotonicClock
from voice_client.audio.tempo import Pace, Tempo, Unchanged
from voice_client.errors import BadInputError, ProtocolError
from voice_client.protocol import speech
from voice_client.session.connection import StreamOpener
from voice_client.session.endpoint import EndpointAddress, open_endpoint
from voice_client.session.events import Notice
from voice_client.session.manner import Manner
from voice_client.session.observing import Observer, observed
from voice_client.session.sentences import SentenceSplitter
from voice_client.session.settings import Retry, SynthesizerSettings
from voice_client.session.speaking_streams import SpeakingStreams
from voice_client.session.speech import Speech
from voice_client.session.text_input import TextInput
from voice_client.session.voice_list import ask_for_voices
from voice_client.session.voices import language_code

__all__ = ["Speech", "Synthesizer"]


class Synthesizer:
    """A conversation with a text-to-speech model; speaks one text after the other.

    Made by `connect`, or over any stream of messages:

        async with Synthesizer(opener, voice="Vivian") as voice:
            async for event in voice.speak("Good morning."):
                ...

    Args:
        opener: opens a stream to the model's `/v1/audio/speech/stream`.
        model: name the server knows the model by; None leaves it to the server.
        voice: one of the model's voices, in any case; None takes Vivian of a Qwen3-TTS CustomVoice model.
        language: name or code of one of the ten languages; None lets the model find out.
        instructions: how to speak ("whisper", "slowly and sadly"), at most 500 characters, where the model follows any.
        speed: 0.25 (slow) to 4.0 (fast), at the same pitch; None is 1.0. The client changes the pace.
        ref_audio: file of 1 to 30 s of a voice to speak with, for a model that clones (Qwen3-TTS Base).
        ref_text: what is said in `ref_audio`.
        spare_stream: keep a second configured stream open, so that the first words after `cancel` wait for no opening.
            It counts towards the endpoint's concurrency and so towards its scaling, as long as this is open.
        retry: how to come back after a loss; None gives the first loss to the caller.
        settings: limits and time-outs.
        clock: time for measures and back-off.
        endpoint_name: what errors call the other end.

    Raises:
        BadInputError: a voice, language, ... that the model does not know; all problems together.
    """

    def __init__(
        self,
        opener: StreamOpener,
        *,
        model: str | None = None,
        voice: str | None = None,
        language: str | None = None,
        instructions: str | None = None,
        speed: float | None = None,
        ref_audio: str | Path | None = None,
        ref_text: str | None = None,
        spare_stream: bool = False,
        retry: Retry | None = Retry(),  # noqa: B008 - frozen
        settings: SynthesizerSettings = SynthesizerSettings(),  # noqa: B008 - frozen
        clock: Clock | None = None,
        endpoint_name: str | None = None,
    ) -> None:
        self.endpoint_name = endpoint_name
        """What errors call the other end."""
        self.manner = Manner.checked(
            model=model,
            voice=voice,
            language=language,
            instructions=instructions,
            speed=speed,
            ref_audio=ref_audio,
            ref_text=ref_text,
        )
        """What is asked of the model."""
        self._opener = opener
        self.retry = retry
        self.settings = settings
        self.clock = clock or MonotonicClock()
        self.streams = SpeakingStreams(
            opener, self.manner.config(), clock=self.clock, settings=settings, spare=spare_stream
        )
        """The streams it speaks on; for `Speech`."""
        self._speaking: Speech | None = None
        self._opened: weakref.WeakSet[Speech] = weakref.WeakSet()
        self._utterances = 0

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
        instructions: str | None = None,
        speed: float | None = None,
        ref_audio: str | Path | None = None,
        ref_text: str | None = None,
        spare_stream: bool = False,
        retry: Retry | None = Retry(),  # noqa: B008 - frozen
        settings: SynthesizerSettings = SynthesizerSettings(),  # noqa: B008 - frozen
        observer: Observer | None = None,
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
            instructions: how to speak, at most 500 characters, where the model follows any.
            speed: 0.25 (slow) to 4.0 (fast), at the same pitch; None is 1.0.
            ref_audio: file of 1 to 30 s of a voice to speak with, for a model that clones (Qwen3-TTS Base).
            ref_text: what is said in `ref_audio`.
            spare_stream: keep a second configured stream open; it counts towards the endpoint's scaling.
            retry: how to come back after a loss; None gives the first loss to the caller.
            settings: limits and time-outs.
            observer: is shown every message of every stream; it holds audio and the text.

        Raises:
            VoiceError: input, credentials, endpoint or connection; each subclass says which.
        """
        address = EndpointAddress("tts", stage, endpoint_name, region, endpoint_url, ca_bundle)
        async with (
            open_endpoint(address, invocation_path=speech.INVOCATION_PATH) as endpoint,
            cls(
                observed(endpoint.opener, observer) if observer is not None else endpoint.opener,
                model=model or endpoint.model,
                voice=voice,
                language=language,
                instructions=instructions,
                speed=speed,
                ref_audio=ref_audio,
                ref_text=ref_text,
                spare_stream=spare_stream,
                retry=retry,
                settings=settings,
                endpoint_name=endpoint.name,
            ) as synthesizer,
        ):
            yield synthesizer

    @property
    def voice(self) -> str | None:
        """The voice that is asked for; None leaves it to the server."""
        return self.manner.voice

    @property
    def language(self) -> str | None:
        """The language that is asked for, by its name; None lets the model find out."""
        return self.manner.language

    @property
    def connect_ms(self) -> float:
        """How long the stream in use took to open, in milliseconds."""
        return self.streams.connect_ms

    async def ready(self) -> None:
        """Return when a configured stream is open: the one in use, or a new one in the place of one that ended.

        Speaking does this by itself; call it to take the opening out of the first words after a pause.

        Raises:
            VoiceError: it cannot be opened.
        """
        await self.streams.ready()

    async def __aenter__(self) -> Self:
        try:
            await self.streams.start()
        except BaseException:
            await self.streams.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.cancel()
        await self.streams.close()

    async def voices(self) -> tuple[str, ...]:
        """Ask the model for its voices.

        SageMaker lets no request through to the server's `GET /v1/audio/voices`. But a server that is asked for a voice
        it does not have names those it has, before it makes any sound; so it is asked for one, on a stream of its own.

        Raises:
            ModelError: it named none (a model that clones a recording has none).
            VoiceError: the stream failed.
        """
        return await ask_for_voices(self._opener, model=self.manner.model, seconds=self.settings.first_audio)

    def speak(self, text: str, *, on_notice: Callable[[Notice], None] | None = None) -> Speech:
        """Prepare to speak a text; iterating over the result sends it and yields the audio.

        Args:
            text: what is to be spoken.
            on_notice: is told each of `Speech.notices` as it comes; audio may be long in coming after it.

        Raises:
            BadInputError: nothing to speak in it, or too much.
        """
        written = self._text_input()
        written.push(text)
        written.end()
        if not written.begins():
            raise BadInputError("there is no text to speak")
        return self._prepared(written, on_notice)

    def open_speech(self, *, on_notice: Callable[[Notice], None] | None = None) -> Speech:
        """Prepare to speak a text that is yet to come: `push_text`, `flush` and `end` it, and iterate for the audio.

        Args:
            on_notice: as for `speak`.
        """
        return self._prepared(self._text_input(), on_notice)

    def _text_input(self) -> TextInput:
        splitter = SentenceSplitter(longest=self.settings.longest_sentence, language=language_code(self.language))
        return TextInput(splitter, longest=self.settings.longest_text)

    def _prepared(self, text: TextInput, on_notice: Callable[[Notice], None] | None) -> Speech:
        spoken = Speech(self, self._utterances, text, on_notice=on_notice)
        self._utterances += 1
        self._opened.add(spoken)
        return spoken

    async def cancel(self) -> None:
        """Cancel every speech that is not over, begun or not: see `Speech.cancel`."""
        speeches = [spoken for spoken in self._opened if not spoken.over]
        for spoken in speeches:
            spoken.interrupt()
        for spoken in speeches:
            await spoken.cancel()

    def pace(self) -> Pace:
        """Return what changes the pace of one sentence; for `Speech`."""
        speed = self.manner.speed
        return Tempo(speed, rate=speech.SAMPLE_RATE_HZ) if speed != 1.0 else Unchanged()

    async def take_turn(self, spoken: Speech) -> None:
        """Give the stream to one speech; for `Speech`.

        Raises:
            ProtocolError: another one is speaking.
        """
        for _ in range(3):  # Python closes a loop that was left early some turns of the event loop later
            if self._speaking is None:
                break
            await asyncio.sleep(0)
        if self._speaking is not None:
            raise ProtocolError(
                "another text is being spoken on this synthesizer; let it end, cancel it or leave its loop first"
            )
        self._speaking = spoken
        self.streams.speaking = True

    def end_turn(self, spoken: Speech) -> None:
        """Take the stream back, if this speech has it; for `Speech`."""
        if self._speaking is spoken:
            self._speaking = None
            self.streams.speaking = False
