"""Why a demo ends early."""

from pathlib import Path


class DemoError(Exception):
    """A step failed; `log` has the whole story."""

    def __init__(self, reason: str, log: Path) -> None:
        super().__init__(reason)
        self.log = log
