"""The folder of a stage's deployments, build/deploy/{stage}: one deployment at a time writes there."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from voice_ops.errors import OpsError


class FolderUnusableError(OpsError):
    """It cannot be written, or another deployment has it."""


@contextmanager
def work_folder(path: Path) -> Iterator[None]:
    """Make a folder, and have it alone for as long as the block lasts; it is free again however the process ends.

    Raises:
        FolderUnusableError: see the class.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
        lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise FolderUnusableError(f"templates and logs cannot be written: {error}") from error
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise FolderUnusableError(
                f"another deploy, pause or destroy of stage {path.name} runs from this folder ({path}): "
                "wait until it has ended"
            ) from None
        yield
    finally:
        os.close(lock)
