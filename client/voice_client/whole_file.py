"""Files that appear under their name when they are complete, or not at all."""

import contextlib
import errno
import os
import re
import secrets
import shutil
import stat
import tempfile
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

from voice_client.errors import BadInputError

_OPEN_FILE = re.compile(r"/dev/(stdin|stdout|stderr|fd/\d+)|/proc/(self|\d+)/fd/\d+")
"""Names of files this process has open: they are written to and never replaced, whatever lies behind them."""

_NAME_CHARACTERS = 60
"""Of a file's name in its temporary one: at four bytes each, still within the 255 that a name may have."""


class WholeFile:
    """A binary file that is written beside its name and takes the name at the end of the `with` block.

    When the block fails, an older file of that name stays as it was and no half file is left. A link is followed: what
    it points at is replaced. A file that is replaced passes its rights on. A pipe or a device (`/dev/null`,
    `/dev/stdout`) is never replaced: it is handed all of the content at the end of the block, and nothing when it
    fails.

    Args:
        path: the file to be.

    Raises:
        BadInputError: on entering: it cannot be written; on leaving: the disk is full, or nobody reads the pipe.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._target: Path | None = None
        self._temporary: Path | None = None
        self._file: BinaryIO | None = None

    def __enter__(self) -> BinaryIO:
        check_writable(self.path)
        try:
            if is_stream(self.path):
                self._file = tempfile.TemporaryFile()
            else:
                self._target = self.path.resolve()
                name = f".{self._target.name[:_NAME_CHARACTERS]}.{secrets.token_hex(4)}.part"
                self._temporary = self._target.with_name(name)
                self._file = self._temporary.open("xb")
        except OSError as error:
            raise _unwritable(self.path, error) from error
        return self._file

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._file is not None, "left before it was entered"  # noqa: S101
        try:
            with self._file:  # closing fails when the disk is full
                if kind is None and self._target is None:
                    _hand_over(self._file, self.path)
            if kind is None and self._target is not None and self._temporary is not None:
                with contextlib.suppress(FileNotFoundError):
                    shutil.copymode(self._target, self._temporary)
                self._temporary.replace(self._target)
        except OSError as failure:
            if kind is None:
                raise _unwritable(self.path, failure) from failure
        finally:
            if self._temporary is not None:
                self._temporary.unlink(missing_ok=True)


def write_whole(path: Path, text: str) -> None:
    """Write a text as UTF-8, under its name only when it is complete.

    Raises:
        BadInputError: it cannot be written.
    """
    with WholeFile(path) as file:
        try:
            file.write(text.encode())
        except OSError as error:
            raise _unwritable(path, error) from error


def check_writable(path: Path) -> None:
    """See before the work that a file can be written after it.

    Raises:
        BadInputError: it is a folder or write-protected, or its folder is missing or takes no new file.
    """
    try:
        target = path.resolve()
        if path.is_dir():
            raise BadInputError(f"{path} is a folder; give the name of a file")
        if path.exists() and not os.access(path, os.W_OK):
            raise BadInputError(f"{path} cannot be written: it is write-protected")
        if is_stream(path):
            return
        if not target.parent.is_dir():
            raise BadInputError(f"{path} cannot be written: there is no folder {target.parent}")
    except (OSError, RuntimeError) as error:  # such as a name that is too long, or links in a circle
        raise _unwritable(path, error) from error
    if not os.access(target.parent, os.W_OK):
        raise BadInputError(f"{path} cannot be written: the folder takes no new file")


def is_stream(path: Path) -> bool:
    """Return whether a name is that of a pipe or a device, or of a file this process has open."""
    if _OPEN_FILE.fullmatch(str(path)):
        return True
    try:
        return not stat.S_ISREG(path.stat().st_mode)
    except FileNotFoundError:
        return False


def _hand_over(content: BinaryIO, path: Path) -> None:
    """Write what was collected into a pipe or a device."""
    content.seek(0)
    # Not waiting: the opening of a pipe that nobody reads would never end.
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK), "wb") as stream:
        os.set_blocking(stream.fileno(), True)
        shutil.copyfileobj(content, stream)


def _unwritable(path: Path, error: Exception) -> BadInputError:
    reason = "nobody reads it" if getattr(error, "errno", None) == errno.ENXIO else getattr(error, "strerror", None)
    return BadInputError(f"{path} cannot be written: {reason or error}")
