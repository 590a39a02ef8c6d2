"""Speaks the sentences of a text over streams that may break, and hands on what is heard."""

import asyncio
from collections.abc import Callable

from voice_client.audio.pacing import Clock
from voice_client.audio.pcm import SampleAligner
from voice_client.audio.tempo import Pace
from voice_client.errors import ConnectionLostError, DeadlineError, ModelError, ProtocolError, VoiceError
from voice_client.protocol import speech
from voice_client.session.ending import end_tasks
from voice_client.session.events import Notice, Restarted, SpeechChunk
from voice_client.session.outlet import Outlet
from voice_client.session.recovery import can_recover
from voice_client.session.runaway import RunawayError, longest_speech
from voice_client.session.settings import Retry, SynthesizerSettings
from voice_client.session.speaking_metrics import SpeakingClock
from voice_client.session.speaking_streams import SpeakingStreams, SpeechStream
from voice_client.session.text_input import TextInput


class Speaking:
    """The work of one utterance; `run` does it, in a task that may be cancelled at any moment.

    Args:
        utterance: its number, for the events.
        text: where its sentences come from.
        streams: where they are spoken.
        outlet: where its audio goes.
        measures: is told the moments.
        tell: is told what the caller may want to know.
        retry: how to come back after a loss; None gives the first loss to the caller.
        settings: limits and time-outs.
        clock: time for measures and back-off.
        pace: makes what changes the pace of one sentence.
    """

    def __init__(
        self,
        utterance: int,
        text: TextInput,
        streams: SpeakingStreams,
        outlet: Outlet,
        *,
        measures: SpeakingClock,
        tell: Callable[[Notice], None],
        retry: Retry | None,
        settings: SynthesizerSettings,
        clock: Clock,
        pace: Callable[[], Pace],
    ) -> None:
        self._pace = pace
        self._utterance = utterance
        self._text = text
        self._streams = streams
        self._outlet = outlet
        self._measures = measures
        self._tell = tell
        self._retry = retry
        self._settings = settings
        self._clock = clock
        self.done = 0
        """Sentences that were spoken to their end."""
        self._sent = 0
        """Sentences that were asked for on the stream in use, counted from the text's start."""
        self._progress = asyncio.Event()
        """Set when a sentence was asked for, or was spoken to its end."""
        self._lost = 0
        """Streams lost since a sentence was last spoken to its end."""
        self._ran_away = False
        """Whether the sentence whose turn it is was stopped once because it did not end."""

    async def run(self) -> None:
        """Speak everything.

        Raises:
            VoiceError: a sentence could not be spoken, with or without retries.
        """
        while await self._text.has(self.done):
            try:
                stream = await self._streams.ready()
                self._measures.connect_ms = self._streams.connect_ms
                await self._speak_on(stream)
            except VoiceError as error:
                await self._come_back(error)

    async def _come_back(self, error: VoiceError) -> None:
        """Prepare to ask for the sentence again, or raise."""
        self._streams.leave()
        if isinstance(error, RunawayError):
            if self._ran_away or self._retry is None:
                raise error
            self._ran_away = True
            self._again(Notice("runaway", f"{error.message}; it was stopped and is asked for once more"))
            return
        retry = self._retry
        recoverable = can_recover(error, reconnecting=self._streams.opened > 0)
        if retry is None or not recoverable or self._lost >= retry.attempts:
            raise error
        self._lost += 1
        message = f"{error.message}; opening a new stream and speaking sentence {self.done + 1} again"
        self._again(Notice("reconnecting", message))
        await self._clock.sleep(retry.wait(self._lost))

    def _again(self, notice: Notice) -> None:
        self._measures.again()
        self._tell(notice)
        self._outlet.restart(Restarted(self._utterance, self.done))

    async def _speak_on(self, stream: SpeechStream) -> None:
        """Speak the sentences that are left on one stream, as many as there will be."""
        self._sent = self.done
        sender = asyncio.create_task(self._ask(stream), name="voice-ask")
        sender.add_done_callback(lambda _: self._progress.set())
        try:
            while await self._under_way(sender):
                await self._sentence(stream)
        finally:
            await end_tasks(sender)

    async def _under_way(self, sender: "asyncio.Task[None]") -> bool:
        """Return whether another sentence was asked for, once that is known."""
        while self._sent <= self.done:
            if sender.done():
                sender.result()
                return False
            self._progress.clear()
            await self._progress.wait()
        return True

    async def _ask(self, stream: SpeechStream) -> None:
        """Ask for each sentence when it is known, though not too many before their turn."""
        first = self._sent
        while await self._text.has(self._sent):
            while self._sent > self.done + self._settings.sentences_ahead:
                self._progress.clear()
                await self._progress.wait()
            if self._sent > self.done and self._streams.worn(stream):
                return  # the next sentence would outlive the stream
            if self._sent == self.done > first and (stream.connection.ended or self._streams.worn(stream)):
                self._streams.leave()  # it ended while there was nothing to say
                return
            self._measures.asked(self._clock.now())
            await stream.connection.send(speech.input_text(self._text.sentences[self._sent]))
            await stream.connection.send(speech.input_done())
            self._sent += 1
            self._progress.set()

    async def _sentence(self, stream: SpeechStream) -> None:
        """Hand on the audio of the sentence whose turn it is, to its `session.done`."""
        text = self._text.sentences[self.done]
        longest = longest_speech(text, self._settings)
        self._measures.turn(self._clock.now())
        aligner, pace = SampleAligner(), self._pace()
        received = part = 0  # bytes; some releases cut a sentence into parts, each with its own start and end
        started = False
        due = self._due(heard=False)
        while True:
            match await self._next(stream, due, heard=received > 0):
                case speech.Audio(data) if data:
                    received += len(data)
                    part += len(data)
                    if received > longest * speech.BYTES_PER_SECOND:
                        raise RunawayError(
                            f"sentence {self.done + 1} went on for more than {longest:.0f} s, "
                            f"far longer than its {len(text)} characters take"
                        )
                    await self._hand_on(pace.change(aligner.align(data)))
                    due = self._due(heard=True)
                case speech.AudioStart(sample_rate=rate):
                    started, stream.fresh, part = True, False, 0
                    if rate not in {None, speech.SAMPLE_RATE_HZ}:
                        raise ProtocolError(f"the model speaks at {rate} Hz instead of {speech.SAMPLE_RATE_HZ} Hz")
                case speech.ErrorEvent(message):
                    if not started and not self._is_about_config(stream) and not await self._goes_on(stream):
                        # Its idle time was over just now.
                        raise ConnectionLostError(f"the server gave up the idle stream: {message}")
                    raise self._failed(message)
                case speech.AudioDone() as end:
                    self._check_end(end, part)
                case speech.SessionDone(utterance_index=index) if started or index >= stream.spoken:
                    # It comes after failures too, so it is a success only when something was spoken. One that comes
                    # before its time ends a second time what is over already.
                    if not received:
                        raise self._failed("it ended the sentence without any audio")
                    await self._hand_on(pace.finish())
                    break
                case _:  # an event of a later release, or one that says nothing
                    continue
        self._measures.over()
        stream.spoken += 1
        self.done += 1
        self._lost, self._ran_away = 0, False
        self._progress.set()

    async def _hand_on(self, pcm: bytes) -> None:
        if pcm:
            self._measures.chunk(pcm, self._clock.now())
            await self._outlet.put(SpeechChunk(self._utterance, self.done, pcm))

    def _is_about_config(self, stream: SpeechStream) -> bool:
        return stream.fresh and self._clock.now() - stream.opened < self._settings.config_answer

    async def _goes_on(self, stream: SpeechStream) -> bool:
        """Whether the server goes on after an error: then the sentence was its reason, and not the idle stream."""
        try:
            async with asyncio.timeout(self._settings.error_end):
                await stream.connection.receive()
        except (TimeoutError, VoiceError):
            return False
        return True

    def _check_end(self, end: speech.AudioDone, received: int) -> None:
        if end.error:
            raise self._failed("it broke off in the middle of the audio")
        if end.total_bytes != received:
            raise ProtocolError(
                f"sentence {self.done + 1}: {received} bytes of audio arrived but {end.total_bytes} were sent"
            )

    def _due(self, *, heard: bool) -> float:
        """Return when audio must have come, whatever else comes: a server may send signs of life and never speak."""
        return asyncio.get_running_loop().time() + self._patience(heard=heard)

    def _patience(self, *, heard: bool) -> float:
        return self._settings.next_audio if heard else self._settings.first_audio

    async def _next(self, stream: SpeechStream, due: float, *, heard: bool) -> speech.ServerEvent:
        try:
            async with asyncio.timeout_at(due):
                return (await stream.connection.receive()).event
        except TimeoutError as error:
            wanted = "more audio" if heard else "audio"
            raise DeadlineError(
                f"sentence {self.done + 1}: no {wanted} within {self._patience(heard=heard):g} s"
            ) from error

    def _failed(self, reason: str) -> ModelError:
        return ModelError(
            f"the model did not speak sentence {self.done + 1}: {reason.rstrip('.')}",
            advice="Check voice and language against the model, and look into the endpoint's log group",
        )
