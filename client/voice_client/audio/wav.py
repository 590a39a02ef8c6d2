"""Writes a WAV file, whole or not at all."""

import wave
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from voice_client.whole_file import WholeFile


class WavFile:
    """A mono PCM16 WAV file that appears under its name when it is complete.

    What is written goes into a temporary file beside it, which takes the name at the end of the `with` block; when
    the block fails, an older file of that name stays as it was and no half file is left.

    Args:
        path: the file to be.
        rate: sample rate in Hz.

    Raises:
        BadInputError: on entering: the folder is missing or cannot be written to.
    """

    def __init__(self, path: str | Path, *, rate: int) -> None:
        self.path = Path(path)
        self._rate = rate
        self._open = ExitStack()
        self._wave: wave.Wave_write | None = None

    def __enter__(self) -> Self:
        writer = wave.open(self._open.enter_context(WholeFile(self.path)), "wb")
        writer.setnchannels(1)
        writer.setsampwidth(2)
        writer.setframerate(self._rate)
        self._open.callback(writer.close)  # writes the lengths into the header
        self._wave = writer
        return self

    def write(self, pcm: bytes) -> None:
        """Add whole samples of PCM16 little-endian."""
        assert self._wave is not None, "used outside its with block"  # noqa: S101
        self._wave.writeframesraw(pcm)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._open.__exit__(kind, error, traceback)
