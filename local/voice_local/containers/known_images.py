"""The serving images of AWS that the local cloud knows by name, and what their labels say."""

import re
from dataclasses import dataclass

BIDIRECTIONAL_LABEL = "com.amazonaws.sagemaker.capabilities.bidirectional-streaming"
"""Without this label, `true`, SageMaker never opens a socket to a container."""

_OMNI = re.compile(r"(?:.*/)?vllm:omni-sagemaker-cuda-v(?P<major>\d+)\.(?P<minor>\d+)(?:$|[-.])")

_OMNI_FIRST_BIDIRECTIONAL = (1, 5)
"""vLLM-Omni container v1.5 is the first with the label and with the routing behind it."""

_VLLM_RELEASE = re.compile(r"vllm:0\.(?P<minor>\d+)\.\d+-")

_VLLM_FIRST_CHECKING = 26
"""From vLLM 0.26 on, the realtime front-end checks models and events; the stand-in knows 0.17 and 0.27."""


@dataclass(frozen=True, slots=True)
class KnownImage:
    """An image that a stand-in takes the place of."""

    module: str
    """Python module of the stand-in, run with the argument `serve`."""
    bidirectional: bool
    """Whether the image carries the label for bidirectional streaming."""


def known_image(uri: str) -> KnownImage | None:
    """Return what stands in for an image of AWS, None when none does."""
    omni = _OMNI.match(uri)
    if omni is None:
        return None
    version = (int(omni["major"]), int(omni["minor"]))
    return KnownImage("voice_local.containers.stand_in_omni", version >= _OMNI_FIRST_BIDIRECTIONAL)


def vllm_release_of(base_image: str) -> str | None:
    """Return the stand-in's release that is nearest to the one a vLLM image's tag names, None when it names none."""
    named = _VLLM_RELEASE.search(base_image)
    if named is None:
        return None
    return "0.27" if int(named["minor"]) >= _VLLM_FIRST_CHECKING else "0.17"
