"""Brings the files of a revision from the hub to the bucket, and writes the manifest when all are there and right."""

import fnmatch
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from .errors import StagingError
from .hub import Hub, HubFile, Revision
from .manifest import Manifest, StagedFile, manifest_key
from .store import WeightsStore

PROGRESS_SECONDS = 5.0
"""Between two lines about a file that is under way."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run did.

    Attributes:
        manifest: of the complete revision.
        copied: paths that this run brought.
        kept: paths that were there and right before.
    """

    manifest: Manifest
    copied: tuple[str, ...]
    kept: tuple[str, ...]


@dataclass(slots=True)
class Copier:
    """One run.

    Attributes:
        hub: where from.
        store: where to.
        say: is told what a reader of the log should know.
        work_dir: takes one file at a time; None for a temporary folder of the system.
    """

    hub: Hub
    store: WeightsStore
    say: Callable[[str], None]
    work_dir: Path | None = None
    _copied: list[str] = field(default_factory=list, init=False)

    def run(self, model: str, revision: str, patterns: Sequence[str]) -> Outcome:
        """Copy what is missing.

        Args:
            model: `owner/name`.
            revision: the commit; a branch or tag is refused, for it moves.
            patterns: of the files that are needed, `*` for any text, `/` included; each must match at least one.

        Raises:
            StagingError: the hub does not have it, or a file cannot be brought whole and right.
        """
        found = self.hub.revision(model, revision)
        if found.commit != revision:
            raise StagingError(
                f"{revision} of {model} is commit {found.commit} now: pin that commit as the revision, so that what is "
                "deployed does not move."
            )
        files = chosen(found, patterns)
        before = {file.path: self.store.find(model, revision, file) for file in files}
        there = [path for path, staged in before.items() if staged is not None]
        total = sum(file.size for file in files)
        self.say(f"{model}@{revision}: {len(files)} files, {readable(total)}; {len(there)} are there and right")
        staged = tuple(before[file.path] or self._copy(found, file) for file in files)
        manifest = Manifest(model, revision, tuple(patterns), staged)
        # Also when nothing was copied: the manifest may be missing, or of other patterns.
        if self._known(model, revision) == manifest:
            self.say(f"the manifest {manifest_key(model, revision)} is there and right")
        else:
            self.say(f"complete; manifest {self.store.write_manifest(manifest)}")
        return Outcome(manifest, tuple(self._copied), tuple(there))

    def _known(self, model: str, revision: str) -> Manifest | None:
        try:
            return self.store.manifest(model, revision)
        except ValueError:
            return None

    def _copy(self, revision: Revision, file: HubFile) -> StagedFile:
        with tempfile.TemporaryDirectory(prefix="weights-", dir=self.work_dir) as folder:
            content = Path(folder) / "content"
            sha256 = self.hub.download(revision, file, content, _Pace(file, "from the hub", self.say).at)
            self.say(f"{file.path}: {readable(file.size)}, verified, sha256 {sha256}")
            staged = self.store.upload(
                revision.model,
                revision.commit,
                file,
                source=content,
                sha256=sha256,
                progress=_Pace(file, "to S3", self.say).add,
            )
        self.say(f"{file.path}: copied")
        self._copied.append(file.path)
        return staged


def chosen(revision: Revision, patterns: Sequence[str]) -> list[HubFile]:
    """Return the files that match any of the patterns, sorted by path.

    Raises:
        StagingError: a pattern matches none, so that something the server needs is not in the repository.
    """
    if not patterns:
        raise StagingError("no files are asked for")
    paths = {file.path: file for file in revision.files}
    idle = [pattern for pattern in patterns if not any(fnmatch.fnmatchcase(path, pattern) for path in paths)]
    if idle:
        raise StagingError(
            f"{revision.model}@{revision.commit} has no file like {', '.join(idle)}. It has: {', '.join(sorted(paths))}"
        )
    return [paths[path] for path in sorted(paths) if any(fnmatch.fnmatchcase(path, one) for one in patterns)]


def readable(size: float) -> str:
    """Write bytes for people: `8.9 GB`."""
    for unit in ("bytes", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"


class _Pace:
    """Says how far a file is, now and then."""

    def __init__(self, file: HubFile, where: str, say: Callable[[str], None]) -> None:
        self._file = file
        self._where = where
        self._say = say
        self._began = self._said = time.monotonic()
        self._size = 0

    def add(self, more: int) -> None:
        """Take note of so many bytes more."""
        self.at(self._size + more)

    def at(self, size: int) -> None:
        """Take note that so many bytes are there."""
        self._size = size
        now = time.monotonic()
        if now - self._said < PROGRESS_SECONDS:
            return
        self._said = now
        total = self._file.size
        self._say(
            f"{self._file.path}: {100 * size // max(1, total)} % {self._where}, {readable(size)} of {readable(total)}, "
            f"{readable(size / (now - self._began))}/s"
        )
