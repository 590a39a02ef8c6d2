"""A binary file that appears under its name when it is complete."""

import os
import tempfile
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

from voice_client.errors import BadInputError


class WholeFile:
    """A file that is written beside its name and takes the name at the end of the `with` block.

    When the block fails, an older file of that name stays as it was and no half file is left.

    Args:
        path: the file to be.

    Raises:
        BadInputError: on entering: the folder is missing or cannot be written to; on leaving: the disk is full.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._temporary: Path | None = None
        self._file: BinaryIO | None = None

    def __enter__(self) -> BinaryIO:
        if self.path.is_dir():
            raise BadInputError(f"{self.path} is a folder; give the name of a file")
        try:
            handle, name = tempfile.mkstemp(dir=self.path.parent, prefix=f".{self.path.name}.", suffix=".part")
        except OSError as error:
            raise BadInputError(f"{self.path} cannot be written: {error.strerror or error}") from error
        self._temporary = Path(name)
        self._file = os.fdopen(handle, "wb")
        return self._file

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._file is not None, "left before it was entered"  # noqa: S101
        assert self._temporary is not None  # noqa: S101
        try:
            self._file.close()  # fails when the disk is full
            if kind is None:
                # mkstemp makes the file for its owner only; a result has the rights any new file has.
                mask = os.umask(0)
                os.umask(mask)
                self._temporary.chmod(0o666 & ~mask)
                self._temporary.replace(self.path)
        except OSError as failure:
            if kind is None:
                raise BadInputError(f"{self.path} cannot be written: {failure.strerror or failure}") from failure
        finally:
            self._temporary.unlink(missing_ok=True)
