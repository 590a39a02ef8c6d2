"""Images that were "pushed" on a machine without Docker: the recorded build instead of layers.

`voice_local.docker_shim` writes them, the container host reads them to know what to run for an image URI, and the
control plane reads them to list them in ECR. One image is one directory:

    {images_dir}/{sha256 of the URI}/image.json     what was built and pushed
    {images_dir}/{sha256 of the URI}/context/       a copy of the build context, as it was at build time

A directory appears by one rename, so an image is there whole or not at all.
"""

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

_MANIFEST = "image.json"
_CONTEXT = "context"
_UNFINISHED = ".unfinished-"


class ImageStoreError(Exception):
    """A stored image cannot be read or written; the message names its path."""


@dataclass(frozen=True, slots=True)
class StoredImage:
    """One image as it was pushed."""

    uri: str
    """Full image URI, `{registry}/{repository}:{tag}`."""
    context: Path
    """The store's own copy of the build context, a directory."""
    dockerfile: Path
    """The Dockerfile, inside `context`."""
    build_args: Mapping[str, str]
    """`--build-arg` values of the build; a Dockerfile's defaults are not among them."""
    platform: str | None
    """`--platform` of the build, such as `linux/amd64`; None when the build named none."""
    labels: Mapping[str, str]
    """LABELs of the Dockerfile's last stage, variables expanded."""

    @property
    def repository(self) -> str:
        """Repository name without registry and tag."""
        return split_uri(self.uri)[1]

    @property
    def tag(self) -> str:
        """Tag of the image, `latest` when the URI names none."""
        return split_uri(self.uri)[2]

    @property
    def digest(self) -> str:
        """A stand-in for the manifest digest: `sha256:` and the hash of what was recorded."""
        recorded = json.dumps(
            [sorted(self.build_args.items()), self.platform, sorted(self.labels.items()), self.tag],
        )
        return "sha256:" + hashlib.sha256(recorded.encode()).hexdigest()


def split_uri(uri: str) -> tuple[str, str, str]:
    """Split an image URI into registry, repository and tag; an absent registry is "", an absent tag `latest`."""
    first, slash, rest = uri.partition("/")
    registry, path = (first, rest) if slash and ("." in first or ":" in first or first == "localhost") else ("", uri)
    repository, colon, tag = path.rpartition(":")
    return (registry, repository, tag) if colon else (registry, path, "latest")


class ImageStore:
    """The images of one local cloud, on disk; safe for readers and writers in several processes."""

    def __init__(self, images_dir: Path) -> None:
        """Use `images_dir`, which need not exist yet."""
        self._dir = images_dir

    def find(self, uri: str) -> StoredImage | None:
        """Return the image of exactly that URI, or None when none was pushed.

        Raises:
            ImageStoreError: the image is there and cannot be read.
        """
        return self._read(self._place(uri))

    def __iter__(self) -> Iterator[StoredImage]:
        """Go through all images, ordered by directory name."""
        if not self._dir.is_dir():
            return
        for place in sorted(self._dir.iterdir()):
            if not place.name.startswith(_UNFINISHED) and (image := self._read(place)) is not None:
                yield image

    def save(self, image: StoredImage) -> StoredImage:
        """Copy an image (its context too) into the store, in place of an earlier one of that URI.

        Returns:
            The image with `context` and `dockerfile` inside the store.

        Raises:
            ImageStoreError: the Dockerfile is outside the context, or the disk refuses.
        """
        place = self._place(image.uri)
        with _Unfinished(self._dir) as work:
            try:
                relative = image.dockerfile.relative_to(image.context)
                shutil.copytree(image.context, work / _CONTEXT, symlinks=True)
                manifest = {
                    "uri": image.uri,
                    "context": _CONTEXT,
                    "dockerfile": relative.as_posix(),
                    "build_args": dict(image.build_args),
                    "platform": image.platform,
                    "labels": dict(image.labels),
                }
                (work / _MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
                shutil.rmtree(place, ignore_errors=True)
                work.rename(place)
            except (OSError, ValueError, shutil.Error) as error:
                raise ImageStoreError(f"Cannot store the image {image.uri} in {place}: {error}") from error
        return replace(image, context=place / _CONTEXT, dockerfile=place / _CONTEXT / relative)

    def remove(self, uri: str) -> bool:
        """Remove an image; return whether there was one."""
        place = self._place(uri)
        if not place.exists():
            return False
        # Renamed first: a reader sees the image whole or not at all.
        with _Unfinished(self._dir) as work:
            place.rename(work / "removed")
        return True

    def _place(self, uri: str) -> Path:
        return self._dir / hashlib.sha256(uri.encode()).hexdigest()

    def _read(self, place: Path) -> StoredImage | None:
        try:
            recorded: dict[str, Any] = json.loads((place / _MANIFEST).read_text(encoding="utf-8"))
            return StoredImage(
                uri=recorded["uri"],
                context=place / recorded["context"],
                dockerfile=place / recorded["context"] / recorded["dockerfile"],
                build_args=recorded["build_args"],
                platform=recorded["platform"],
                labels=recorded["labels"],
            )
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ImageStoreError(
                f"The stored image in {place} cannot be read ({error!r}); delete that directory and deploy again"
            ) from error


class _Unfinished:
    """A directory beside the images that is gone at the end unless it was renamed into place."""

    def __init__(self, parent: Path) -> None:
        self._parent = parent
        self._path: Path | None = None

    def __enter__(self) -> Path:
        self._parent.mkdir(parents=True, exist_ok=True)
        self._path = Path(tempfile.mkdtemp(prefix=f"{_UNFINISHED}{os.getpid()}-", dir=self._parent))
        return self._path

    def __exit__(self, *_: object) -> None:
        if self._path is not None:
            shutil.rmtree(self._path, ignore_errors=True)
