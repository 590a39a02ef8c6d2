"""The GPUs behind SageMaker's `ml.` instance types.

A model's fit is decided here, before anything is created: memory per GPU, and whether the GPU computes in
bfloat16. A family that is missing is not refused by SageMaker but unknown to us: add its row.
"""

from dataclasses import dataclass

from voice_constructs.errors import UnknownInstanceTypeError


@dataclass(frozen=True, slots=True)
class Accelerator:
    """One GPU model.

    Attributes:
        name: NVIDIA's product name.
        memory_gb: nominal memory of one GPU, in GB.
        architecture: NVIDIA's name of the generation.
        bfloat16: whether the GPU computes in bfloat16 (compute capability 8.0 and up; a T4 has 7.5).
    """

    name: str
    memory_gb: int
    architecture: str
    bfloat16: bool


_T4 = Accelerator("T4", 16, "Turing", bfloat16=False)
_A10G = Accelerator("A10G", 24, "Ampere", bfloat16=True)
_L4 = Accelerator("L4", 24, "Ada Lovelace", bfloat16=True)
_L40S = Accelerator("L40S", 48, "Ada Lovelace", bfloat16=True)

_SIZES_OF_G5_AND_LATER = ("xlarge", "2xlarge", "4xlarge", "8xlarge", "12xlarge", "16xlarge", "24xlarge", "48xlarge")

# Source: the instance tables of EC2's g4dn, g5, g6 and g6e families, in the sizes SageMaker hosting offers.
_FAMILIES: dict[str, tuple[Accelerator, tuple[str, ...]]] = {
    "g6": (_L4, _SIZES_OF_G5_AND_LATER),
    "g6e": (_L40S, _SIZES_OF_G5_AND_LATER),
    "g5": (_A10G, _SIZES_OF_G5_AND_LATER),
    "g4dn": (_T4, ("xlarge", "2xlarge", "4xlarge", "8xlarge", "12xlarge", "16xlarge")),
}

ACCELERATOR_BY_INSTANCE_TYPE: dict[str, Accelerator] = {
    f"ml.{family}.{size}": accelerator for family, (accelerator, sizes) in _FAMILIES.items() for size in sizes
}
"""Every known instance type, for example `ml.g6.xlarge`."""


def accelerator_of(instance_type: str) -> Accelerator:
    """Return the GPU of an instance type such as `ml.g6.xlarge`.

    Raises:
        UnknownInstanceTypeError: the type is not in the table.
    """
    try:
        return ACCELERATOR_BY_INSTANCE_TYPE[instance_type]
    except KeyError:
        families = ", ".join(f"ml.{family}.*" for family in _FAMILIES)
        raise UnknownInstanceTypeError(f"{instance_type!r} is no known GPU instance type; known: {families}") from None
