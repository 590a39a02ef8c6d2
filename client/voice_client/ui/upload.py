"""A file as it comes from the page, in a temporary folder."""

import re
from pathlib import Path

from voice_client.errors import BadInputError


class Upload:
    """A file of a known length that arrives in pieces.

    Args:
        folder: where it lies until it has been heard.
        name: what the user calls it.
        size: its length in bytes.
        largest: longest file that is taken, in bytes.

    Raises:
        BadInputError: an empty file, or one that is too long.
    """

    def __init__(self, folder: Path, *, name: str, size: int, largest: int) -> None:
        self.name = name or "the file"
        if size <= 0:
            raise BadInputError(f"{self.name} is empty")
        if size > largest:
            raise BadInputError(
                f"{self.name} has {size / 1024**2:.0f} MiB, more than {largest / 1024**2:.0f}",
                advice="`voice transcribe` takes files of any length",
            )
        ending = re.sub(r"[^A-Za-z0-9.]", "", Path(name).suffix)[:10]  # it helps FFmpeg to tell raw formats apart
        self._path = folder / f"upload{ending}"
        self._file = self._path.open("wb")
        self._left = size

    def take(self, data: bytes) -> Path | None:
        """Write the next piece; returns the file's path when it is complete.

        Raises:
            BadInputError: the disk is full, or the page sent more than it said.
        """
        self._left -= len(data)
        if self._left < 0:
            self.drop()
            raise BadInputError(f"{self.name} is longer than the page said")
        try:
            self._file.write(data)
            if self._left:
                return None
            self._file.close()
        except OSError as error:
            self.drop()
            raise BadInputError(f"{self.name} cannot be kept: {error.strerror or error}") from error
        return self._path

    def drop(self) -> None:
        """Forget it."""
        self._file.close()
        self._path.unlink(missing_ok=True)
