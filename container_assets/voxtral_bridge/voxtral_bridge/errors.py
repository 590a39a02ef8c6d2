"""Errors of the bridge and its supervisor."""

from collections.abc import Sequence


class BridgeError(Exception):
    """Base of every error this package raises."""


class ConfigurationError(BridgeError):
    """The environment cannot be served with; every problem found in it is listed at once."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("wrong configuration: " + "; ".join(problems))
