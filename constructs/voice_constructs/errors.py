"""What a construct raises when its properties cannot work."""

from collections.abc import Sequence


class VoiceConstructError(Exception):
    """Base of every error of this package."""


class InvalidPropertiesError(VoiceConstructError):
    """The properties of one construct cannot work; all that is wrong with them is listed at once.

    Attributes:
        where: construct path, or name of the value object.
        problems: one sentence each, naming the property and what to give instead.
    """

    def __init__(self, where: str, problems: Sequence[str]) -> None:
        self.where = where
        self.problems = tuple(problems)
        super().__init__(f"{where}: " + "; ".join(self.problems))


class UnknownInstanceTypeError(VoiceConstructError):
    """The instance type is none whose GPU is known here."""


class UnsupportedCudaError(VoiceConstructError):
    """No SageMaker inference AMI serves this CUDA version."""


class UnsupportedRegionError(VoiceConstructError):
    """AWS publishes no Deep Learning Container in this region."""
