"""Where audio to be transcribed comes from."""

import os
import stat
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol

from voice_client.audio.background import BackgroundReader
from voice_client.audio.decode import Readable, decode, duration
from voice_client.audio.pcm import rechunk, to_pcm16
from voice_client.audio.raw import RawFormat
from voice_client.audio.resample import resample
from voice_client.errors import BadInputError

STDIN = "-"

type PcmReader = AsyncIterator[bytes]
"""Chunks of PCM16. A cancelled `anext` must lose nothing: the next one goes on where it stopped."""


class AudioSource(Protocol):
    """Audio that can be read as PCM16."""

    @property
    def live(self) -> bool:
        """Whether the audio comes at the speed at which it is spoken (a microphone) and wants no pacing."""
        ...

    def open(self, *, rate: int, chunk_bytes: int) -> AbstractAsyncContextManager[PcmReader]:
        """Read the audio from its start as PCM16 little-endian mono.

        Args:
            rate: wanted sample rate in Hz.
            chunk_bytes: length of every chunk but the last, an even number.

        Raises:
            BadInputError: while reading: not audio, or unreadable.
        """
        ...


@dataclass(frozen=True, slots=True)
class AudioFile:
    """A file of any format that FFmpeg decodes, or standard input.

    Args:
        path: the file, or "-" for standard input (which can be read once).
        raw: what the bytes mean, for PCM without a header; None finds the format out.
    """

    path: str | Path
    raw: RawFormat | None = None

    @property
    def live(self) -> bool:
        """A file is there all at once and wants to be paced."""
        return False

    @property
    def name(self) -> str:
        """What messages call it."""
        return "standard input" if str(self.path) == STDIN else str(self.path)

    @property
    def _read_once(self) -> bool:
        """Whether what was read of it is gone: standard input, a named pipe, a shell's `<(...)`."""
        try:
            mode = 0 if str(self.path) == STDIN else Path(self.path).stat().st_mode
        except OSError:
            return False  # opening it says why
        return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)

    def is_file_of(self, path: Path) -> bool:
        """Return whether this is the file of that name."""
        try:
            return str(self.path) != STDIN and path.samefile(self.path)
        except OSError:
            return False

    def check(self) -> None:
        """Decode the first block, to find a wrong file before anything is connected; a pipe is left alone.

        Raises:
            BadInputError: missing, unreadable, empty, not audio; or there is no standard input.
        """
        if str(self.path) == STDIN:
            _standard_input()
        elif not self._read_once:
            self._check_start()

    def _check_start(self) -> None:
        with self._bytes() as source:
            next(decode(source, self.name, self.raw))

    def seconds(self) -> float | None:
        """Return how long the file says it is; None when it does not say, and for pipes and raw audio.

        Raises:
            BadInputError: as `check`.
        """
        if self._read_once or self.raw is not None:
            return None
        with self._bytes() as source:
            return duration(source, self.name)

    def open(self, *, rate: int, chunk_bytes: int) -> AbstractAsyncContextManager[PcmReader]:
        """See `AudioSource.open`; decoding runs in a thread, a few chunks ahead."""
        return BackgroundReader(lambda: self._chunks(rate, chunk_bytes))

    def _chunks(self, rate: int, chunk_bytes: int) -> Iterator[bytes]:
        with self._bytes() as source:
            blocks = resample(decode(source, self.name, self.raw), rate)
            yield from rechunk(map(to_pcm16, blocks), chunk_bytes)

    @contextmanager
    def _bytes(self) -> Iterator[BinaryIO | Readable]:
        stdin = str(self.path) == STDIN
        try:
            # Through a file of ours and not by name: FFmpeg would take a name such as http://... as an address.
            file = os.fdopen(_standard_input(), "rb", closefd=False) if stdin else Path(self.path).open("rb")  # noqa: SIM115
        except OSError as error:
            raise BadInputError(f"{self.name} cannot be read: {error.strerror or error}") from error
        with file:
            about = os.fstat(file.fileno())
            if not stat.S_ISREG(about.st_mode) or (stdin and os.lseek(file.fileno(), 0, os.SEEK_CUR)):
                pipe = _Pipe(file.fileno())
                try:
                    yield pipe
                except BadInputError as error:
                    if pipe.at_start:
                        raise BadInputError(f"{self.name} is empty") from error
                    raise
                return
            if not about.st_size:
                raise BadInputError(f"{self.name} is empty")
            yield file


def _standard_input() -> int:
    if sys.stdin is None:
        raise BadInputError("there is no standard input to read")
    return sys.stdin.fileno()


class _Pipe:
    """What cannot go back, without `seek`; read as it comes instead of waiting for full blocks.

    Read by its descriptor: Python's own buffered reader holds a lock while it waits, and a process that ends meanwhile
    (Ctrl-C) would be aborted for that lock.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.at_start = True

    def read(self, size: int, /) -> bytes:
        data = os.read(self._descriptor, size)
        self.at_start = self.at_start and not data
        return data
