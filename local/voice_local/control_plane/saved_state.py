"""The control plane's state in a folder, so that stacks and endpoints are there again after a restart.

moto has no such thing. All of its state is plain Python objects that refer to each other, so they are pickled together.
A pickle can run code when it is read: the file is its owner's alone, and only classes of moto, of this package and
plain containers are read out of it. State is saved between stack operations, never during one: a cloud that ends in the
middle of a deployment starts again as it was before it.
"""

import fcntl
import importlib.metadata
import io
import json
import logging
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from moto.core.base_backend import BackendDict

from voice_local.control_plane.errors import StateError
from voice_local.control_plane.state_pickling import UNPICKLABLE, Reader, backend_key, backend_of, pickled, put_back
from voice_local.identity import LocalIdentity

_log = logging.getLogger(__name__)

_FORMAT = 1
_FILE = "state"
_LOCK = "lock"


class StateInUseError(StateError):
    """Another local cloud runs with the same folder."""

    def __init__(self, folder: Path) -> None:
        super().__init__(f"Another local cloud uses the state in {folder}: end it, or choose another folder.")


class SavedState:
    """The state of one control plane in one folder."""

    def __init__(self, folder: Path, identity: LocalIdentity) -> None:
        """Use `folder`, made when missing, readable by its owner alone."""
        self._folder = folder
        self._identity = identity
        self._saved = b""
        self._left_out = {"moto_api"}  # moto's own API has nothing to keep
        self._lock: io.TextIOWrapper | None = None

    @property
    def file(self) -> Path:
        """The file that holds the state."""
        return self._folder / _FILE

    def open(self) -> None:
        """Take the folder for this process.

        Raises:
            StateInUseError: another process has it.
            StateError: the folder cannot be made or written.
        """
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            lock = (self._folder / _LOCK).open("w", encoding="ascii")
        except OSError as error:
            raise StateError(f"The state cannot be kept in {self._folder}: {error}") from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            lock.close()
            raise StateInUseError(self._folder) from error
        self._lock = lock

    def close(self) -> None:
        """Leave the folder to others. Idempotent."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def load(self) -> bool:
        """Put the saved state into moto, whose own must be empty; return whether there was one. State locked.

        Raises:
            StateError: it was saved by another version or for another region, is not its owner's alone, or is damaged.
        """
        try:
            with self.file.open("rb") as file:
                mode = os.fstat(file.fileno())
                if mode.st_uid != os.getuid() or mode.st_mode & 0o022:
                    raise StateError(f"The state in {self.file} can be written by others than you; it is not read.")
                header, content = file.readline(), file.read()
        except FileNotFoundError:
            return False
        except OSError as error:
            raise StateError(f"The state in {self.file} cannot be read: {error}") from error
        self._check(header)
        try:
            loaded = Reader(io.BytesIO(content)).load()
            for (service, account, region), attributes in loaded.items():
                put_back(backend_of(service, account, region), attributes)
        except StateError:
            raise
        except Exception as error:
            # A damaged pickle can raise anything.
            raise StateError(
                f"The state in {self.file} is damaged ({type(error).__name__}: {error}); delete it and deploy again."
            ) from error
        self._saved = content
        return True

    def save(self) -> None:
        """Write the state of now, whole or not at all, unless it is what was written before. Called with it locked.

        Raises:
            StateError: the disk refuses.
        """
        in_use: list[Any] = list(vars(BackendDict)["_instances"])
        kept = {
            backend_key(backend): vars(backend)
            for services in in_use
            for accounts in list(services.values())
            for backend in list(accounts.values())
            if backend_key(backend)[0] not in self._left_out
        }
        try:
            content = pickled(kept)
        except UNPICKLABLE:
            content = pickled(self._without_the_impossible(kept))
        if content == self._saved:
            return
        draft = self.file.with_suffix(".draft")
        try:
            descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(json.dumps(self._header()).encode() + b"\n")
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(self.file)
        except OSError as error:
            raise StateError(f"The state cannot be saved in {self.file}: {error}") from error
        self._saved = content

    def _without_the_impossible(self, kept: dict[tuple[str, str, str], Any]) -> dict[tuple[str, str, str], Any]:
        """Leave out the services that moto keeps in a way that cannot be saved, from now on, and say so once."""
        for key, attributes in kept.items():
            try:
                pickled({key: attributes})
            except UNPICKLABLE as error:
                _log.warning("What %s holds cannot be saved and will be gone after a restart: %s", key[0], error)
                self._left_out.add(key[0])
        return {key: attributes for key, attributes in kept.items() if key[0] not in self._left_out}

    def _header(self) -> dict[str, Any]:
        return {
            "format": _FORMAT,
            "moto": importlib.metadata.version("moto"),
            "account": self._identity.account_id,
            "region": self._identity.region,
        }

    def _check(self, line: bytes) -> None:
        try:
            found = json.loads(line)
        except ValueError as error:
            raise StateError(f"{self.file} is no state of a local cloud; choose another folder.") from error
        differences = [
            f"{name} {found.get(name)} there, {value} here"
            for name, value in self._header().items()
            if not isinstance(found, dict) or found.get(name) != value
        ]
        if differences:
            raise StateError(
                f"The state in {self.file} was saved by another local cloud ({'; '.join(differences)}); "
                "use that one, or delete the file and deploy again."
            )


class StateSaver:
    """Saves the state of a running control plane whenever something may have changed."""

    def __init__(
        self, state: SavedState, state_lock: threading.RLock, is_quiet: Callable[[], bool], interval_seconds: float
    ) -> None:
        """`is_quiet` tells whether no stack operation runs."""
        self._state = state
        self._state_lock = state_lock
        self._is_quiet = is_quiet
        self._interval = interval_seconds
        self._touched = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="state-saver", daemon=True)
        self._thread.start()

    def touch(self) -> None:
        """Say that something may have changed; never blocks."""
        self._touched.set()

    def stop(self) -> None:
        """Save a last time, unless a stack operation runs, and end."""
        self._stopping.set()
        self._touched.set()
        self._thread.join()
        self._save()

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._touched.wait()
            if self._stopping.wait(self._interval):
                return
            self._touched.clear()
            if not self._save():
                self._touched.set()  # again when the operation has ended

    def _save(self) -> bool:
        with self._state_lock:
            if not self._is_quiet():
                return False
            try:
                self._state.save()
            except StateError as error:
                _log.error("%s", error)
            return True
