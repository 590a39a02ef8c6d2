"""Fills moto's gap in ECR: the containers that AWS publishes, in registries of AWS's own accounts.

moto 5.2 has the caller's registry only. A deploy does not ask for them (nothing is pulled here); who checks before a
deploy whether a tag exists does.
"""

import hashlib
import json
from collections.abc import Sequence
from typing import Any

from moto.ecr.exceptions import ImageNotFoundException, RepositoryNotFoundException
from moto.ecr.models import ECRBackend, Image

from voice_local.control_plane.patches import Patches

ACCOUNT_BY_REGION = {
    # AWS's list of Deep Learning Container registries; most regions share one.
    "af-south-1": "626614931356",
    "ap-east-1": "871362719292",
    "ap-southeast-3": "907027046896",
    "eu-central-2": "380420809688",
    "eu-south-1": "692866216735",
    "eu-south-2": "503227376785",
    "me-central-1": "914824155844",
    "me-south-1": "217643126080",
}
_ACCOUNT = "763104351884"

PUBLISHED = {"vllm": ("omni-sagemaker-cuda-v1.5", "server-sagemaker-cuda-v2.3")}
"""Tags by repository: the ones that this project's containers are built on or run from."""

_MEDIA_TYPE = "application/vnd.docker.distribution.manifest.v2+json"


def install(patches: Patches) -> None:
    """Put the gap's filling into moto; `patches` takes it out again."""
    patches.around(ECRBackend, "batch_get_image", _batch_get)
    patches.around(ECRBackend, "describe_images", _describe)


def _batch_get(
    get: Any,
    backend: Any,
    repository_name: str,
    registry_id: str | None = None,
    image_ids: list[dict[str, str]] | None = None,
) -> dict[str, Any]:
    if registry_id in {None, backend.account_id}:
        answer: dict[str, Any] = get(backend, repository_name, registry_id, image_ids)
        return answer
    published = _published(backend, str(registry_id), repository_name)
    found, failures = [], []
    for image_id in image_ids or ():
        matching = [image for image in published if _is(image, image_id)]
        found += matching
        if not matching:
            failures.append(
                {"imageId": image_id, "failureCode": "ImageNotFound", "failureReason": "Requested image not found"}
            )
    return {"images": found, "failures": failures}


def _describe(
    describe: Any,
    backend: Any,
    repository_name: str,
    registry_id: str | None = None,
    image_ids: list[dict[str, str]] | None = None,
) -> Any:
    if registry_id in {None, backend.account_id}:
        return describe(backend, repository_name, registry_id, image_ids)
    published = _published(backend, str(registry_id), repository_name)
    if not image_ids:
        return published
    found = []
    for image_id in image_ids:
        matching = [image for image in published if _is(image, image_id)]
        if not matching:
            raise ImageNotFoundException(json.dumps(image_id), repository_name, str(registry_id))
        found += matching
    return found


def _published(backend: Any, registry: str, repository: str) -> Sequence[Image]:
    if registry != ACCOUNT_BY_REGION.get(backend.region_name, _ACCOUNT) or repository not in PUBLISHED:
        raise RepositoryNotFoundException(repository, registry)
    return [_image(registry, repository, tag) for tag in PUBLISHED[repository]]


def _image(registry: str, repository: str, tag: str) -> Image:
    digest = f"sha256:{hashlib.sha256(f'{registry}/{repository}:{tag}'.encode()).hexdigest()}"
    manifest = {"schemaVersion": 2, "mediaType": _MEDIA_TYPE, "config": {"digest": digest}, "layers": []}
    return Image(registry, tag, json.dumps(manifest), repository, _MEDIA_TYPE, digest, registry)


def _is(image: Image, image_id: dict[str, str]) -> bool:
    return image_id.get("imageTag") in image.image_tags or image_id.get("imageDigest") == image.image_digest
