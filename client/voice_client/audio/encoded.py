"""Writes speech as FLAC or MP3, and picks the writer by a file's ending."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Protocol, Self

import av
import numpy as np

from voice_client.audio.wav import WavFile
from voice_client.errors import BadInputError
from voice_client.whole_file import WholeFile

_ENCODERS = {".flac": ("flac", "flac", "s16"), ".mp3": ("mp3", "libmp3lame", "s16p")}
"""Ending to FFmpeg's container, encoder and sample format."""

_MP3_BITS_PER_SECOND = 64_000
"""Transparent for one channel of speech at 24 kHz."""

ENDINGS = (".wav", ".wave", *_ENCODERS)
"""What files of speech can be written."""


class SpeechWriter(Protocol):
    """A file of speech that is complete, or is not there at all, when its `with` block ends."""

    def __enter__(self) -> Self: ...

    def write(self, pcm: bytes) -> None:
        """Add whole samples of PCM16 little-endian, mono."""
        ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None, /
    ) -> None: ...


def speech_file(path: str | Path, *, rate: int) -> SpeechWriter:
    """Return the writer that a file's ending asks for; nothing is written yet.

    Args:
        path: a name that ends in `.wav`, `.flac` or `.mp3`.
        rate: sample rate in Hz.

    Raises:
        BadInputError: another ending; on entering also: the folder is missing or cannot be written to.
    """
    ending = Path(path).suffix.lower()
    if ending in {".wav", ".wave"}:
        return WavFile(path, rate=rate)
    if ending in _ENCODERS:
        return EncodedFile(path, rate=rate)
    raise BadInputError(f"{path}: speech is written as WAV, FLAC or MP3", advice="End the name in .wav, .flac or .mp3")


class EncodedFile:
    """A mono FLAC or MP3 file that appears under its name when it is complete. Arguments as `speech_file`."""

    def __init__(self, path: str | Path, *, rate: int) -> None:
        self.path = Path(path)
        self._rate = rate
        self._open = ExitStack()
        self._file: _SteadyFile
        self._container: Any = None
        self._stream: Any = None
        self._samples = 0

    def __enter__(self) -> Self:
        container_format, encoder, sample_format = _ENCODERS[self.path.suffix.lower()]
        with ExitStack() as opening:
            self._file = _SteadyFile(opening.enter_context(WholeFile(self.path)))
            opening.push(lambda kind, *_: self._file.check() if kind is None else None)
            self._container = opening.enter_context(av.open(self._file, mode="w", format=container_format))
            self._stream = self._container.add_stream(encoder, rate=self._rate)
            self._stream.codec_context.layout = "mono"
            self._stream.codec_context.format = sample_format
            if encoder == "libmp3lame":
                self._stream.codec_context.bit_rate = _MP3_BITS_PER_SECOND
            self._open = opening.pop_all()
        return self

    def write(self, pcm: bytes) -> None:
        """Add whole samples of PCM16 little-endian.

        Raises:
            OSError: the disk is full.
        """
        if not pcm:
            return
        frame = av.AudioFrame.from_ndarray(np.frombuffer(pcm, "<i2").reshape(1, -1), format="s16", layout="mono")
        frame.sample_rate = self._rate
        frame.pts = self._samples
        self._samples += frame.samples
        self._container.mux(self._stream.encode(frame))
        self._file.check()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is not None:
            self._open.__exit__(kind, error, traceback)
            return
        with self._open:
            self._container.mux(self._stream.encode(None))  # what the encoder still holds


class _SteadyFile:
    """A file that fails only when it is asked: FFmpeg goes on after an exception in a callback, and loses it."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._error: OSError | None = None
        self.tell = file.tell

    def write(self, data: bytes) -> int:
        """Write."""
        with self._kept():
            self._file.write(data)
        return len(data)

    def seek(self, offset: int, whence: int = 0) -> int:
        """Seek, which writes what is held back."""
        with self._kept():
            return self._file.seek(offset, whence)
        return offset

    def check(self) -> None:
        """Raise what went wrong.

        Raises:
            OSError: such as a full disk.
        """
        if self._error is not None:
            raise self._error

    @contextmanager
    def _kept(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self._error = self._error or error
