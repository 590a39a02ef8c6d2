"""Requests that are answered without moto's state locked, because what answers them calls the control plane itself."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True)
class UnlockedRequest:
    """A request as the server got it."""

    method: str
    path: str
    """Not decoded."""
    query: str
    headers: Mapping[str, str]
    """Names as WSGI has them, without `HTTP_`: upper case, underscores."""
    body: bytes


@dataclass(frozen=True, slots=True)
class UnlockedAnswer:
    """What is sent back."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


class UnlockedPart(Protocol):
    """Answers some requests."""

    def answer(self, request: UnlockedRequest) -> UnlockedAnswer | None:
        """Answer a request, or return None when it is somebody else's."""
        ...
