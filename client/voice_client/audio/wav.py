"""Writes a WAV file, whole or not at all."""

import os
import tempfile
import wave
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

from voice_client.errors import BadInputError


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
        self._temporary: Path | None = None
        self._file: BinaryIO | None = None
        self._wave: wave.Wave_write | None = None

    def __enter__(self) -> Self:
        if self.path.is_dir():
            raise BadInputError(f"{self.path} is a folder; give the name of a file")
        try:
            handle, name = tempfile.mkstemp(dir=self.path.parent, prefix=f".{self.path.name}.", suffix=".part")
        except OSError as error:
            raise BadInputError(f"{self.path} cannot be written: {error.strerror or error}") from error
        self._temporary = Path(name)
        self._file = os.fdopen(handle, "wb")
        writer = wave.open(self._file, "wb")
        writer.setnchannels(1)
        writer.setsampwidth(2)
        writer.setframerate(self._rate)
        self._wave = writer
        return self

    def write(self, pcm: bytes) -> None:
        """Add whole samples of PCM16 little-endian."""
        assert self._wave is not None, "used outside its with block"  # noqa: S101
        self._wave.writeframesraw(pcm)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._wave is not None  # noqa: S101
        assert self._file is not None  # noqa: S101
        assert self._temporary is not None  # noqa: S101
        try:
            with self._file:  # wave closes only files it opened itself
                self._wave.close()  # writes the lengths into the header
            if kind is None:
                # mkstemp makes the file for its owner only; a result has the rights any new file has.
                mask = os.umask(0)
                os.umask(mask)
                self._temporary.chmod(0o666 & ~mask)
                self._temporary.replace(self.path)
        finally:
            self._temporary.unlink(missing_ok=True)
