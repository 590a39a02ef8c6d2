"""Shows in ECR what was pushed without Docker, and forgets what is deleted there.

The Docker stand-in runs in a process of its own and writes into the image store, as a real push writes into the
registry and not into ECR's API. So before an ECR call the store is read, and after it the store follows ECR.
"""

import json
from collections.abc import Callable, Iterable
from typing import Any

from moto.ecr.models import ecr_backends

from voice_local.identity import LocalIdentity
from voice_local.image_store import ImageStore, StoredImage, split_uri

_MEDIA_TYPE = "application/vnd.docker.distribution.manifest.v2+json"


class ImageRegistry:
    """Keeps moto's ECR and the image store alike. Called with moto's state locked."""

    def __init__(self, store: ImageStore, identity: LocalIdentity) -> None:
        self._store = store
        self._identity = identity
        self._listed: dict[str, StoredImage] = {}

    def around(self, call: Callable[[], Iterable[bytes]]) -> Iterable[bytes]:
        """Make an ECR call see every pushed image, and remove from the store what the call deleted."""
        self._show_pushed()
        answer = call()
        self._forget_deleted()
        return answer

    def _show_pushed(self) -> None:
        for image in self._store:
            repository = self._repositories(image).get(image.repository)
            if repository is None or self._listed.get(image.uri) == image:
                continue
            manifest = {
                "schemaVersion": 2,
                "mediaType": _MEDIA_TYPE,
                "config": {"mediaType": "application/vnd.docker.container.image.v1+json", "digest": image.digest},
                "layers": [],
            }
            if self._tagged(repository, image.tag) is None:
                self._backend(image).put_image(image.repository, json.dumps(manifest), image.tag, _MEDIA_TYPE)
            self._listed[image.uri] = image

    def _forget_deleted(self) -> None:
        for uri, image in list(self._listed.items()):
            repository = self._repositories(image).get(image.repository)
            if repository is None or self._tagged(repository, image.tag) is None:
                self._store.remove(uri)
                del self._listed[uri]

    @staticmethod
    def _tagged(repository: Any, tag: str) -> Any:
        return next((image for image in repository.images if tag in image.image_tags), None)

    def _repositories(self, image: StoredImage) -> dict[str, Any]:
        repositories: dict[str, Any] = self._backend(image).repositories
        return repositories

    def _backend(self, image: StoredImage) -> Any:
        # {account}.dkr.ecr.{region}.amazonaws.com
        parts = split_uri(image.uri)[0].split(".")
        region = parts[3] if len(parts) > 3 and parts[1:3] == ["dkr", "ecr"] else self._identity.region
        return ecr_backends[self._identity.account_id][region]
