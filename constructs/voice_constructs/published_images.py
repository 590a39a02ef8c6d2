"""The containers that AWS publishes for vLLM and vLLM-Omni, and the CUDA version each of them holds."""

import re

from voice_constructs.inference_ami import CudaVersion

BRIDGE_BASE_CUDA_13 = "public.ecr.aws/deep-learning-containers/vllm:server-sagemaker-cuda-v2.3"
"""vLLM 0.27, CUDA 13.0: the default base of the Voxtral bridge."""

BRIDGE_BASE_CUDA_12 = (
    "public.ecr.aws/deep-learning-containers/vllm:0.17.1-gpu-py312-cu129-ubuntu22.04-sagemaker-v1.0-soci"
)
"""vLLM 0.17.1, CUDA 12.9: the base that AWS's walkthrough of a Voxtral endpoint uses."""

OMNI_REPOSITORY = "vllm"
"""The private ECR repository of vLLM-Omni in AWS's container account; SageMaker takes no public image."""

DEFAULT_OMNI_VERSION = "v1.5"
"""vLLM-Omni 0.26, CUDA 13.0: the first version with SageMaker's bidirectional-streaming label."""


def omni_tag(version: str) -> str:
    """Return the image tag of a vLLM-Omni container version such as `v1.5`."""
    return f"omni-sagemaker-cuda-{version}"


# The release series of AWS's vLLM containers whose tag does not spell the CUDA version out.
_CUDA_BY_TAG_SERIES = {
    "server-sagemaker-cuda-v2": CudaVersion(13, 0),
    omni_tag(DEFAULT_OMNI_VERSION): CudaVersion(13, 0),
}


def cuda_of_image(image: str) -> CudaVersion | None:
    """Read the CUDA version out of the tag of an AWS vLLM container; None when the tag does not tell.

    Tags say it (`0.17.1-gpu-py312-cu129-...` is CUDA 12.9) or belong to a series whose version is known
    (`server-sagemaker-cuda-v2.3` is CUDA 13.0).
    """
    tag = image.rpartition(":")[2]
    if spelled := re.search(r"(?:^|-)cu(\d{2})(\d)(?:-|$)", tag):
        return CudaVersion(int(spelled[1]), int(spelled[2]))
    for series, cuda in _CUDA_BY_TAG_SERIES.items():
        if tag == series or tag.startswith((f"{series}.", f"{series}-")):
            return cuda
    return None
