"""The manifest beside staged weights: which files make up a revision, and how to tell that they are there and right.

Keys in the bucket: `models/{owner}/{name}/{revision}/...` holds the files, mounted as they are by SageMaker;
`models/{owner}/{name}/{revision}.manifest.json` is written last, so that its presence means that all were complete.
"""

import fnmatch
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

FORMAT = 1
"""Of the manifest; another one is not read."""


def prefix_of(model: str, revision: str) -> str:
    """Return the folder of a revision: `models/owner/name/revision/`."""
    return f"models/{model}/{revision}/"


def manifest_key(model: str, revision: str) -> str:
    """Return where the manifest of a revision is; outside of the folder, which a container sees as a whole."""
    return f"models/{model}/{revision}.manifest.json"


@dataclass(frozen=True, slots=True)
class StagedFile:
    """One file as it was when its copy was verified.

    Attributes:
        path: within the model's repository.
        size: bytes.
        sha256: of the content, hexadecimal; compared with the hub's before it was uploaded.
        checksum: SHA-256 as S3 keeps it of the object (of several parts: base64 of the parts' checksum, `-`, number
            of parts); None when S3 did not tell.
    """

    path: str
    size: int
    sha256: str
    checksum: str | None


@dataclass(frozen=True, slots=True)
class Manifest:
    """A complete revision.

    Attributes:
        model: `owner/name`.
        revision: the commit.
        patterns: which files were asked for.
        files: all of them, sorted by path.
    """

    model: str
    revision: str
    patterns: tuple[str, ...]
    files: tuple[StagedFile, ...]

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)

    def to_json(self) -> str:
        """Write it down."""
        return json.dumps({"format": FORMAT, **asdict(self)}, indent=1)

    @staticmethod
    def from_json(text: str | bytes) -> "Manifest":
        """Read it.

        Raises:
            ValueError: it is no manifest of this format.
        """
        try:
            told: Mapping[str, Any] = json.loads(text)
            if told["format"] != FORMAT:
                raise ValueError(f"format {told['format']}, not {FORMAT}")
            files = tuple(StagedFile(**file) for file in told["files"])
            manifest = Manifest(told["model"], told["revision"], tuple(told["patterns"]), files)
            wrong = next(_faults(manifest), None)
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"a part is missing or wrong: {error!r}") from error
        if wrong is not None:
            raise ValueError(wrong)
        return manifest


def _faults(manifest: Manifest) -> Iterator[str]:
    """Yield what no manifest that this package wrote can hold: somebody changed it, or it is not whole."""
    paths = [file.path for file in manifest.files]
    if len(set(paths)) != len(paths):
        yield "a file is listed twice"
    for file in manifest.files:
        if not isinstance(file.size, int) or file.size < 0:
            yield f"{file.path} has {file.size!r} as its size"
        if re.fullmatch("[0-9a-f]{64}", file.sha256) is None:
            yield f"{file.path} has {file.sha256!r} as its sha256"
    if not manifest.patterns:
        yield "it is of no files"
    for pattern in manifest.patterns:
        if not any(fnmatch.fnmatchcase(path, pattern) for path in paths):
            yield f"it lists no file like {pattern}"


def problems(manifest: Manifest, sizes: Mapping[str, int]) -> list[str]:
    """Return what is missing or has another size.

    Args:
        manifest: what should be there.
        sizes: path to bytes, of what is there.
    """
    found = []
    for file in manifest.files:
        if file.path not in sizes:
            found.append(f"{file.path} is missing")
        elif sizes[file.path] != file.size:
            found.append(f"{file.path} has {sizes[file.path]} bytes, not {file.size}")
    return found


def surplus(manifest: Manifest, paths: Iterable[str]) -> list[str]:
    """Return the files that the manifest does not know; a container sees them too."""
    return sorted(set(paths) - {file.path for file in manifest.files})
