"""What the doctor says: one line a thing that was looked at."""

from dataclasses import dataclass
from enum import StrEnum


class Status(StrEnum):
    """How a check ended."""

    PASS = "pass"  # noqa: S105 - no password
    WARN = "warn"
    """A deploy may work; read the advice."""
    FAIL = "fail"
    """A deploy would fail, or bring up something that does not work."""
    SKIP = "skip"
    """Not looked at; the detail says why."""


@dataclass(frozen=True, slots=True)
class Check:
    """One line.

    Attributes:
        id: dotted, stable between releases: `quota.ml.g6.xlarge`.
        status: how it ended.
        detail: what was found, with the figures.
        advice: what to do next; empty when there is nothing to do.
    """

    id: str
    status: Status
    detail: str
    advice: str = ""

    def as_json(self) -> dict[str, str]:
        """Return the four fields for scripts."""
        return {"id": self.id, "status": str(self.status), "detail": self.detail, "advice": self.advice}


def passed(check: str, detail: str) -> Check:
    """Return a line with nothing to do."""
    return Check(check, Status.PASS, detail)


def warned(check: str, detail: str, advice: str) -> Check:
    """Return a line that stops nothing."""
    return Check(check, Status.WARN, detail, advice)


def failed(check: str, detail: str, advice: str) -> Check:
    """Return a line that stops a deploy."""
    return Check(check, Status.FAIL, detail, advice)


def skipped(check: str, why: str, advice: str = "") -> Check:
    """Return a line that could not be looked at."""
    return Check(check, Status.SKIP, why, advice)
