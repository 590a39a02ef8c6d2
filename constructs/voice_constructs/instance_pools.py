"""The instance types a variant may run on, in order of preference."""

from collections.abc import Sequence

from voice_constructs.accelerators import Accelerator, accelerator_of
from voice_constructs.errors import InvalidPropertiesError, UnknownInstanceTypeError
from voice_constructs.prices import HourlyPriceRange, hourly_price_range

DEFAULT_INSTANCE_TYPES = ("ml.g6.xlarge", "ml.g6e.xlarge", "ml.g5.xlarge", "ml.g4dn.xlarge")
"""Cheapest proven fit first; each next one is another capacity pool to fall back to."""

MAX_POOLS = 5
"""SageMaker's limit of `ProductionVariant.InstancePools`."""

DEFAULT_PROVISION_TIMEOUT_SECONDS = 1800
"""Half of SageMaker's maximum: long enough to try every pool, short enough that a deploy without capacity ends."""

MIN_PROVISION_TIMEOUT_SECONDS = 300
MAX_PROVISION_TIMEOUT_SECONDS = 3600


class InstancePools:
    """One to five distinct instance types; SageMaker provisions one of them, the first that has capacity.

    Quota is checked for *every* entry when the endpoint is created, so each type listed needs quota. Pools take
    the place of `InstanceType`; the two are never given together.
    """

    def __init__(
        self,
        instance_types: Sequence[str] = DEFAULT_INSTANCE_TYPES,
        *,
        min_gpu_memory_gb: int = 0,
        provision_timeout_seconds: int = DEFAULT_PROVISION_TIMEOUT_SECONDS,
    ) -> None:
        """Check and keep the pools.

        Args:
            instance_types: in order of preference; the first gets priority 1.
            min_gpu_memory_gb: what the model needs on one GPU, in GB. Default: not checked.
            provision_timeout_seconds: for capacity over all pools together, 300-3600 s. Default: 1800.

        Raises:
            InvalidPropertiesError: all that is wrong, at once.
        """
        problems = pool_problems(instance_types, min_gpu_memory_gb=min_gpu_memory_gb)
        if not MIN_PROVISION_TIMEOUT_SECONDS <= provision_timeout_seconds <= MAX_PROVISION_TIMEOUT_SECONDS:
            problems.append(
                f"provision_timeout_seconds is {provision_timeout_seconds}; SageMaker takes "
                f"{MIN_PROVISION_TIMEOUT_SECONDS}-{MAX_PROVISION_TIMEOUT_SECONDS}"
            )
        if problems:
            raise InvalidPropertiesError("InstancePools", problems)
        self.instance_types = tuple(instance_types)
        self.provision_timeout_seconds = provision_timeout_seconds

    @property
    def accelerators(self) -> tuple[Accelerator, ...]:
        """The GPU of each pool, in order of priority."""
        return tuple(accelerator_of(instance_type) for instance_type in self.instance_types)

    @property
    def without_bfloat16(self) -> tuple[str, ...]:
        """Instance types whose GPU has no bfloat16; the model needs another environment there."""
        return tuple(name for name in self.instance_types if not accelerator_of(name).bfloat16)

    @property
    def hourly_price_range(self) -> HourlyPriceRange:
        """What one instance costs, in US dollars an hour: estimates, see `prices`."""
        return hourly_price_range(self.instance_types)


def pool_problems(instance_types: Sequence[str], *, min_gpu_memory_gb: int = 0) -> list[str]:
    """List all that is wrong with a choice of instance types; empty when nothing is."""
    problems: list[str] = []
    if not 1 <= len(instance_types) <= MAX_POOLS:
        problems.append(f"{len(instance_types)} instance types given; SageMaker takes 1 to {MAX_POOLS}")
    duplicates = sorted({name for name in instance_types if instance_types.count(name) > 1})
    if duplicates:
        problems.append(f"{', '.join(duplicates)} given more than once; each pool needs its own type")
    for name in dict.fromkeys(instance_types):
        try:
            accelerator = accelerator_of(name)
        except UnknownInstanceTypeError as error:
            problems.append(str(error))
            continue
        if accelerator.memory_gb < min_gpu_memory_gb:
            problems.append(
                f"{name} has {accelerator.memory_gb} GB on its {accelerator.name}; "
                f"the model needs {min_gpu_memory_gb} GB on one GPU"
            )
    return problems
