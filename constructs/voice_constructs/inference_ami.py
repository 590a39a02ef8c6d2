"""The inference AMI that a container's CUDA version needs.

SageMaker starts a container on the AMI that the variant names. Without one, the HTTP/2 WebSocket sidecar is
missing and a stream never reaches the container; with one whose driver is older than the image's CUDA, the
endpoint stays `Creating` and writes no log. So the AMI is never chosen by hand: it follows from the image.
"""

import re
from dataclasses import dataclass
from typing import NamedTuple, Self

from voice_constructs.errors import UnsupportedCudaError


class CudaVersion(NamedTuple):
    """A CUDA toolkit version, for example `CudaVersion(13, 0)`."""

    major: int
    minor: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `13.0`.

        Raises:
            ValueError: the text is not of the form MAJOR.MINOR.
        """
        match = re.fullmatch(r"(\d{1,2})\.(\d{1,2})", text)
        if match is None:
            raise ValueError(f"{text!r} is no CUDA version; write it as MAJOR.MINOR, for example 13.0")
        return cls(int(match[1]), int(match[2]))

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


@dataclass(frozen=True, slots=True)
class InferenceAmi:
    """A value of `ProductionVariant.InferenceAmiVersion`.

    Attributes:
        version: SageMaker's name of the AMI.
        driver: major version of its NVIDIA driver.
    """

    version: str
    driver: int

    @classmethod
    def for_cuda(cls, cuda: CudaVersion) -> "InferenceAmi":
        """Return the AMI for images of this CUDA version.

        Within one major version CUDA is compatible with an older driver of the same generation, so the major
        version decides.

        Raises:
            UnsupportedCudaError: no inference AMI is known for that major version.
        """
        try:
            return _AMI_BY_CUDA_MAJOR[cuda.major]
        except KeyError:
            known = ", ".join(f"{major}.x" for major in sorted(_AMI_BY_CUDA_MAJOR))
            raise UnsupportedCudaError(f"no inference AMI is known for CUDA {cuda}; known: CUDA {known}") from None


_AMI_BY_CUDA_MAJOR = {
    12: InferenceAmi("al2-ami-sagemaker-inference-gpu-3-1", driver=550),
    13: InferenceAmi("al2023-ami-sagemaker-inference-gpu-4-1", driver=580),
}
