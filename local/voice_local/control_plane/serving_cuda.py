"""Whether a serving image's CUDA and an inference AMI's driver fit, as far as both are known.

SageMaker does not refuse a pair that does not fit: the endpoint stays Creating, writes no logs, and fails when its
time is over. So the local cloud knows the pairs that AWS names for the images of this project; it judges no other.
"""

import re

from voice_local.dockerfile import DockerfileError, base_image_of
from voice_local.image_store import ImageStore

AMI_CUDA = {
    "al2-ami-sagemaker-inference-gpu-3-1": (12, 4),
    "al2023-ami-sagemaker-inference-gpu-4-1": (13, 0),
}
"""CUDA release of the AMI's driver: 550 and 580."""

_TAGS = (
    # AWS's containers name their own release, not CUDA's.
    (re.compile(r"(?:^|/)vllm:omni-sagemaker-cuda-v1\.5(?:$|[.-])"), (13, 0)),
    (re.compile(r"(?:^|/)vllm:server-sagemaker-cuda-v2\.\d+(?:$|[.-])"), (13, 0)),
)
_NAMED = re.compile(r":[^:/]*-cu(\d\d)(\d)(?:$|-)")
"""The older containers name it: `0.17.1-gpu-py312-cu129-ubuntu22.04`."""


def cuda_of(image: str) -> tuple[int, int] | None:
    """Return the CUDA release of an image of AWS by its URI, None when it is not known."""
    for pattern, release in _TAGS:
        if pattern.search(image):
            return release
    named = _NAMED.search(image)
    return (int(named[1]), int(named[2])) if named is not None else None


def serving_cuda(image: str, store: ImageStore) -> tuple[int, int] | None:
    """Return the CUDA release of an image, of its base image when it was pushed here; None when it is not known.

    Raises:
        ImageStoreError: the stored image cannot be read.
    """
    stored = store.find(image)
    if stored is None:
        return cuda_of(image)
    try:
        base = base_image_of(stored.dockerfile.read_text(encoding="utf-8"), stored.build_args)
    except (DockerfileError, OSError):
        return None  # the container host says what is wrong with it
    return cuda_of(base)


def mismatch(image: str, ami: str | None, store: ImageStore) -> str | None:
    """Return what is wrong with an image on an AMI, None when they fit or one of them is not known."""
    driver = AMI_CUDA.get(ami or "")
    wanted = serving_cuda(image, store)
    if driver is None or wanted is None or driver[0] == wanted[0]:
        return None
    fitting = next((name for name, cuda in AMI_CUDA.items() if cuda[0] == wanted[0]), None)
    advice = f"use InferenceAmiVersion {fitting}" if fitting else "no known inference AMI fits it"
    return (
        f"The image {image} holds CUDA {wanted[0]}.{wanted[1]}, and InferenceAmiVersion {ami} has a driver for CUDA "
        f"{driver[0]}.{driver[1]}: such a container never starts and writes no logs; {advice}."
    )
