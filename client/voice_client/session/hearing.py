"""One attempt to have one segment heard on one session: audio up, words down, at the same time."""

import asyncio

from voice_client.audio.pacing import Clock
from voice_client.errors import BadInputError, ModelError
from voice_client.protocol import realtime
from voice_client.session.deadlines import DoneDeadline, StallWatch
from voice_client.session.ending import end_tasks
from voice_client.session.realtime_session import RealtimeSession, model_error
from voice_client.session.segments import Segment
from voice_client.session.settings import TranscriberSettings
from voice_client.session.tape import Tape
from voice_client.session.utterance import Utterance


class Hearing:
    """Sends a segment and takes in what is heard, to the model's `done`.

    Args:
        session: where to.
        tape: the audio.
        segment: which part of it.
        utterance: what the segment belongs to; told about words.
        settings: limits and time-outs.
        clock: the sessions' clock.
        wordless_before: an earlier attempt at the same audio brought deltas but no word: there may be none in it.
    """

    def __init__(
        self,
        session: RealtimeSession,
        tape: Tape,
        segment: Segment,
        utterance: Utterance,
        *,
        settings: TranscriberSettings,
        clock: Clock,
        wordless_before: bool,
    ) -> None:
        self._session = session
        self._tape = tape
        self._segment = segment
        self._utterance = utterance
        self._settings = settings
        self._clock = clock
        self._deadline = DoneDeadline(settings)
        self._watch = StallWatch(segment, settings, wordless_before=wordless_before)

    async def run(self) -> None:
        """Return when the segment has been heard.

        Raises:
            StallError: somebody speaks and no word comes back.
            DeadlineError: no `done` after the final commit.
            VoiceError: the stream broke, or the model answered with an error.
            Exception: what the source of the audio raised.
        """
        sending = asyncio.create_task(self._send(), name="voice-sender")
        receiving = asyncio.create_task(self._receive(), name="voice-receiver")
        watching = asyncio.create_task(self._watch.run(), name="voice-watch")
        try:
            await asyncio.wait({sending, receiving, watching}, return_when=asyncio.FIRST_COMPLETED)
            if not sending.done() and not receiving.done():
                watching.result()  # a stall; or nothing is left to watch
                await asyncio.wait({sending, receiving}, return_when=asyncio.FIRST_COMPLETED)
            if sending.done() and not receiving.done():
                failed = sending.exception()
                if failed is None:
                    await asyncio.wait({receiving})
                elif not isinstance(failed, BadInputError):
                    # A broken stream fails on both sides, but only the receiving side can tell what the model said.
                    await asyncio.wait({receiving}, timeout=self._settings.cause)
            (receiving if receiving.done() else sending).result()
        finally:
            await end_tasks(sending, receiving, watching)

    async def _send(self) -> None:
        await self._session.connection.send(realtime.start())
        offset = self._segment.start
        while chunk := await self._next(offset):
            self._utterance.sent(chunk)
            await self._session.connection.send(realtime.append(chunk))
            offset += len(chunk)
            self._watch.sent(offset)
        self._watch.all_sent()
        self._deadline.start((offset - self._segment.start) / realtime.BYTES_PER_SECOND)
        self._utterance.all_sent()
        await self._session.connection.send(realtime.finish())

    async def _next(self, offset: int) -> bytes:
        """Return the next chunk, none at the segment's end; a segment that cannot go on here ends here."""
        if self._clock.now() - self._session.opened_at > self._settings.stream_lifetime:
            await self._tape.cut(self._segment)
        try:
            async with asyncio.timeout(self._settings.idle_cut):
                return await self._tape.read(self._segment, offset, self._settings.chunk_bytes)
        except TimeoutError:
            await self._tape.cut(self._segment)
            return await self._tape.read(self._segment, offset, self._settings.chunk_bytes)

    async def _receive(self) -> None:
        text = ""
        async with self._deadline:
            while True:
                received = await self._session.connection.receive()
                self._deadline.progress()
                self._watch.alive()
                match received.event:
                    case realtime.TranscriptionDelta(delta) if delta:
                        self._watch.words()
                        text += delta
                        self._utterance.words(text)
                    case realtime.TranscriptionDone() as done:
                        self._done(done)
                        return
                    case realtime.ErrorEvent() as error:
                        raise model_error(error)
                    case _:  # an empty delta, or an event of a later release
                        continue

    def _done(self, done: realtime.TranscriptionDone) -> None:
        if not self._deadline.started:
            self._utterance.words(done.text)
            # vLLM ends an utterance that reaches the model's length like any other (measured with 0.33).
            seconds = (self._watch.sent_bytes - self._segment.start) / realtime.BYTES_PER_SECOND
            raise ModelError(
                f"the model ended the utterance {seconds:.0f} s into the audio, before its end",
                advice="It reached the model's longest input: raise max_model_len, or lower longest_segment",
            )
        self._utterance.segment_heard(self._segment, done, connect_ms=self._session.connect_ms)
