"""Writes a text file whole or not at all."""

import os
import tempfile
from pathlib import Path

from voice_client.errors import BadInputError


def check_writable(path: Path) -> None:
    """See before the work that a file can be written after it.

    Raises:
        BadInputError: it is a folder, or its folder is missing or cannot be written to.
    """
    try:
        is_folder = path.is_dir()
    except OSError as error:  # such as a name that is too long
        raise BadInputError(f"{path} cannot be written: {error.strerror or error}") from error
    if is_folder:
        raise BadInputError(f"{path} is a folder; give the name of a file")
    if not path.parent.is_dir():
        raise BadInputError(f"{path} cannot be written: there is no folder {path.parent}")
    if not os.access(path.parent, os.W_OK):
        raise BadInputError(f"{path} cannot be written: the folder takes no new file")


def write_whole(path: Path, text: str) -> None:
    """Write a file under its name only when it is complete; until then an older one stays.

    Raises:
        BadInputError: it cannot be written.
    """
    temporary: Path | None = None
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
        temporary = Path(name)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        # mkstemp makes the file for its owner only; a result has the rights any new file has.
        mask = os.umask(0)
        os.umask(mask)
        temporary.chmod(0o666 & ~mask)
        temporary.replace(path)
    except OSError as error:
        raise BadInputError(f"{path} cannot be written: {error.strerror or error}") from error
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)
