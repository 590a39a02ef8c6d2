"""The streams of one voice: the one it speaks on, a spare, and those that are being left."""

import asyncio
import contextlib

from voice_client.audio.pacing import Clock
from voice_client.errors import ProtocolError, VoiceError
from voice_client.protocol import speech
from voice_client.session.connection import Connection, StreamOpener
from voice_client.session.ending import end_tasks
from voice_client.session.settings import SynthesizerSettings

type SpeechConnection = Connection[speech.ServerEvent]


class SpeechStream:
    """An open stream on which the session is configured."""

    def __init__(self, connection: SpeechConnection, *, opened: float, connect_ms: float) -> None:
        self.connection = connection
        self.opened = opened
        """When, in seconds of the synthesizer's clock."""
        self.connect_ms = connect_ms
        self.spoken = 0
        """Sentences spoken on it to their end."""
        self.fresh = True
        """Whether nothing was spoken on it yet: an error is then about the configuration."""


class SpeakingStreams:
    """Opens, keeps and leaves streams.

    A model that speaks reads nothing, so a stream is left rather than told to stop: `leave` takes no time, and the
    stream closes in the background while the next one is used.

    Args:
        opener: opens a stream.
        config: the `session.config` that is sent on each.
        clock: time for ages and measures.
        settings: limits.
        spare: keep one configured stream waiting, and keep idle ones from being ended by the server. Each open stream
            counts towards the endpoint's concurrency, which its scaling follows.
    """

    def __init__(
        self, opener: StreamOpener, config: str, *, clock: Clock, settings: SynthesizerSettings, spare: bool
    ) -> None:
        self._opener = opener
        self._config = config
        self._clock = clock
        self._settings = settings
        self._wants_spare = spare
        self._current: SpeechStream | None = None
        self._spare: SpeechStream | None = None
        self._opening: asyncio.Task[SpeechStream] | None = None
        self._closing: set[asyncio.Task[None]] = set()
        self._keeper: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._closed = False
        self.speaking = False
        """Whether the current stream belongs to an utterance now."""
        self.opened = 0
        """How many streams were opened."""
        self.connect_ms = 0.0
        """How long the stream in use took to open, in milliseconds."""

    async def start(self) -> None:
        """Open the first stream.

        Raises:
            VoiceError: it cannot be opened.
        """
        await self.ready()
        if self._wants_spare:
            self._keeper = asyncio.create_task(self._keep(), name="voice-spare")

    async def ready(self) -> SpeechStream:
        """Return a stream on which the session is configured: the one in use, the spare, or a new one.

        May be cancelled; a stream that is being opened then is for the next call.

        Raises:
            ProtocolError: all was closed.
            VoiceError: it cannot be opened.
        """
        self._check_open()
        if self._current is not None and not self._usable(self._current):
            self.leave()
        if self._current is None:
            spare, self._spare = self._spare, None
            if spare is not None and not self._usable(spare):
                self._close_later(spare)
                spare = None
            self._current = spare or await self._open()
            self.connect_ms = self._current.connect_ms
            self._wake.set()
        return self._current

    def worn(self, stream: SpeechStream) -> bool:
        """Return whether a stream is so old that nothing more should be begun on it."""
        return self._clock.now() - stream.opened >= self._settings.stream_lifetime

    def leave(self) -> None:
        """Let go of the stream in use; whatever the server still speaks on it is lost."""
        stream, self._current = self._current, None
        if stream is not None:
            self._close_later(stream)

    async def close(self) -> None:
        """Close all streams and end every task; none is opened any more."""
        self._closed = True
        if self._keeper is not None:
            await end_tasks(self._keeper)
        if self._opening is not None:
            opening, self._opening = self._opening, None
            await end_tasks(opening)
            if not _failed(opening):
                self._close_later(opening.result())
        self.leave()
        if self._spare is not None:
            self._close_later(self._spare)
            self._spare = None
        while self._closing:
            await asyncio.wait(self._closing)

    def _check_open(self) -> None:
        if self._closed:
            raise ProtocolError("the synthesizer is closed; open another one")

    def _usable(self, stream: SpeechStream) -> bool:
        return not stream.connection.ended and not self.worn(stream)

    async def _open(self) -> SpeechStream:
        """Open a stream, in a task of its own: who waits for it may be cancelled, and the next call takes it."""
        if self._opening is None or _failed(self._opening):
            self._opening = asyncio.create_task(self._open_configured(), name="voice-open")
            self._opening.add_done_callback(_failed)  # nobody may be waiting for its error
        opening = self._opening
        waited_for_someone = opening.done()
        await asyncio.wait([opening])
        self._check_open()
        if self._opening is opening:
            self._opening = None
        stream = opening.result()
        if waited_for_someone and stream.connection.ended:  # for too long
            self._close_later(stream)
            return await self._open()
        return stream

    async def _open_configured(self) -> SpeechStream:
        started = self._clock.now()
        connection = await Connection.open(self._opener, speech.parse)
        try:
            await connection.send(self._config)
        except BaseException:
            await connection.close()
            raise
        self.opened += 1
        now = self._clock.now()
        return SpeechStream(connection, opened=now, connect_ms=(now - started) * 1000)

    def _close_later(self, stream: SpeechStream) -> None:
        closing = asyncio.create_task(stream.connection.close(), name="voice-close")
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

    async def _keep(self) -> None:
        """Keep a spare, and every idle stream from the server's idle time-out (a repeated config counts as life)."""
        while True:
            if self._spare is None or not self._usable(self._spare):
                if self._spare is not None:
                    self._close_later(self._spare)
                    self._spare = None
                # Without a spare the next utterance opens its stream itself, and tells why when that fails.
                with contextlib.suppress(VoiceError):
                    self._spare = await self._open_configured()
            self._wake.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._settings.keep_alive):
                    await self._wake.wait()
                    continue
            await self._touch(self._spare)
            if not self.speaking:  # a config between a text and its end would be refused
                await self._touch(self._current)

    async def _touch(self, stream: SpeechStream | None) -> None:
        if stream is not None and not stream.connection.ended:
            with contextlib.suppress(VoiceError):
                await stream.connection.send(self._config)


def _failed(opening: "asyncio.Task[SpeechStream]") -> bool:
    """Return whether an opening came to nothing; its error counts as taken."""
    return opening.done() and (opening.cancelled() or opening.exception() is not None)
