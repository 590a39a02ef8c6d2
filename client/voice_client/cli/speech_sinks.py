"""Where the audio of `voice speak` goes: a file, a pipe, the loudspeaker."""

import asyncio
import contextlib
import os
import struct
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal, Protocol

from voice_client.audio.encoded import SpeechWriter, speech_file
from voice_client.audio.playback import Loudspeaker
from voice_client.errors import BadInputError
from voice_client.protocol.speech import SAMPLE_RATE_HZ
from voice_client.session import Restarted, SpeechChunk, SpeechEvent

_UNKNOWN_LENGTH = 0xFFFFFFFF
"""What a WAV header says that is written before its length is known; FFmpeg, sox and players read on to the end."""

_AHEAD_SECONDS = 2.0
"""Sound that waits in the loudspeaker; more stays with the model, where a restart can still change it."""


class PipeClosedError(Exception):
    """Whoever reads standard output has gone."""


class Sink(Protocol):
    """Takes the events of a speech."""

    async def take(self, event: SpeechEvent) -> None: ...


class FileSink:
    """Writes each sentence when it is complete, since its beginning may have to be taken back."""

    def __init__(self, file: SpeechWriter) -> None:
        self._file = file
        self._sentence = 0
        self._held = bytearray()

    async def take(self, event: SpeechEvent) -> None:
        """Take one event."""
        if isinstance(event, Restarted):
            self._held.clear()
            return
        if event.sentence != self._sentence:
            self.settle()
            self._sentence = event.sentence
        self._held += event.pcm

    def settle(self) -> None:
        """Write the sentence that is complete."""
        self._file.write(bytes(self._held))
        self._held.clear()


class PipeSink:
    """Writes to standard output as the audio comes; nothing can be taken back there."""

    def __init__(self, write: "Write") -> None:
        self._write = write

    async def take(self, event: SpeechEvent) -> None:
        """Take one event."""
        if isinstance(event, SpeechChunk):
            await self._write(event.pcm)


class LoudspeakerSink:
    """Plays the audio as it comes, and drops what has become void."""

    def __init__(self, speaker: Loudspeaker) -> None:
        self._speaker = speaker

    async def take(self, event: SpeechEvent) -> None:
        """Take one event; waits while there is enough to play.

        Raises:
            DeadlineError: the device has gone.
        """
        if isinstance(event, Restarted):
            self._speaker.drop(event.sentence)
            return
        self._speaker.play(event.pcm, event.sentence)
        await self._speaker.has_at_most(_AHEAD_SECONDS)


class Write(Protocol):
    """Writes bytes to standard output."""

    async def __call__(self, data: bytes, /) -> None: ...


@asynccontextmanager
async def file_sink(path: Path) -> AsyncIterator[FileSink]:
    """Write a file that appears when the block ends well.

    Raises:
        BadInputError: an ending that is not known, a place that cannot be written to, or a full disk.
    """
    try:
        with speech_file(path, rate=SAMPLE_RATE_HZ) as file:
            sink = FileSink(file)
            yield sink
            sink.settle()
    except OSError as error:  # what fails on the network is a VoiceError
        raise BadInputError(f"{path} cannot be written: {error.strerror or error}") from error


@asynccontextmanager
async def loudspeaker_sink(device: str | int | None) -> AsyncIterator[LoudspeakerSink]:
    """Play; the block ends when all was heard.

    Raises:
        BadInputError: nothing to play on.
        DeadlineError: the device has gone.
    """
    with Loudspeaker(rate=SAMPLE_RATE_HZ, device=device) as speaker:
        yield LoudspeakerSink(speaker)
        await speaker.played()


@asynccontextmanager
async def pipe_sink(kind: Literal["wav", "raw"]) -> AsyncIterator[PipeSink]:
    """Write to standard output, behind a WAV header of unknown length or without one.

    Raises:
        BadInputError: standard output is a terminal, or takes nothing.
        PipeClosedError: whoever read it has gone.
    """
    if sys.stdout is None:
        raise BadInputError("there is no standard output to write to")
    if sys.stdout.isatty():
        raise BadInputError(
            "audio is not written to a terminal", advice="Pipe it into a player, or give -o a file name"
        )
    async with _standard_output() as write:
        if kind == "wav":
            await write(_open_ended_header())
        yield PipeSink(write)


@asynccontextmanager
async def _standard_output() -> AsyncIterator[Write]:
    descriptor = sys.stdout.fileno()
    blocking = os.get_blocking(descriptor)
    loop = asyncio.get_running_loop()
    writable = asyncio.Event()
    # A player takes the audio in real time: a write that waits for it must hold up neither the streams nor Ctrl-C.
    with contextlib.suppress(OSError):
        os.set_blocking(descriptor, False)

    async def write(data: bytes, /) -> None:
        while data:
            try:
                data = data[os.write(descriptor, data) :]
            except BlockingIOError:
                writable.clear()
                loop.add_writer(descriptor, writable.set)
                try:
                    await writable.wait()
                finally:
                    loop.remove_writer(descriptor)
            except BrokenPipeError as error:
                raise PipeClosedError from error
            except OSError as error:
                raise BadInputError(f"standard output cannot be written: {error.strerror or error}") from error

    try:
        yield write
    finally:
        with contextlib.suppress(OSError):
            os.set_blocking(descriptor, blocking)


def _open_ended_header() -> bytes:
    return struct.pack(
        "<4sI4s4sIHHIIHH4sI",
        b"RIFF",
        _UNKNOWN_LENGTH,
        b"WAVE",
        b"fmt ",
        16,
        1,
        1,
        SAMPLE_RATE_HZ,
        2 * SAMPLE_RATE_HZ,
        2,
        16,
        b"data",
        _UNKNOWN_LENGTH,
    )
