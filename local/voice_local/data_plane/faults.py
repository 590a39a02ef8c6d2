"""What can be made to go wrong on the data plane: one `Fault` says what happens, when, and how often.

The same words serve the Python API, the command line (`reset-stream,after=5`) and the admin route (JSON).
"""

import re
from enum import StrEnum
from typing import Annotated, Any, Self

from h2.errors import ErrorCodes
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from voice_local.data_plane.errors import DataPlaneError


class FaultSpecError(DataPlaneError, ValueError):
    """A description of a fault that cannot be understood, or that contradicts itself; names every problem."""


class FaultKind(StrEnum):
    """What goes wrong. docs/data-plane.md shows one example of each."""

    REFUSE = "refuse"
    """Answer with an HTTP error (`status`) instead of a stream."""
    SLOW_HEADERS = "slow-headers"
    """Hold the response headers back for `seconds`."""
    KILL_CONNECTION = "kill-connection"
    """Drop the socket with a TCP reset, as the death of a process does."""
    CLOSE_CONNECTION = "close-connection"
    """Close TLS and TCP in order, without GOAWAY."""
    RESET_STREAM = "reset-stream"
    """Send RST_STREAM with `code`; the streams beside it live on."""
    GO_AWAY = "go-away"
    """Announce the end of the connection: GOAWAY(NO_ERROR), open streams go on, new ones are refused, and the
    connection closes with its last stream."""
    GO_AWAY_NOW = "go-away-now"
    """Send GOAWAY with `code` and close the connection at once, with every stream on it."""
    STOP_READING = "stop-reading"
    """Take nothing more from the client: its flow-control window runs out and stays shut."""
    STOP_WRITING = "stop-writing"
    """Send the client nothing more, not even the end of the stream."""
    DELAY = "delay"
    """Hold every further message back for `seconds`."""
    STALL = "stall"
    """Let no message pass for `seconds`, once; then go on."""
    MODEL_STREAM_ERROR = "model-stream-error"
    """End the stream with the modeled exception for a failing container."""
    INTERNAL_STREAM_FAILURE = "internal-stream-failure"
    """End the stream with the modeled exception for a failing platform."""
    UNKNOWN_EXCEPTION = "unknown-exception"
    """End the stream with an exception event that the operation does not model."""
    UNKNOWN_EVENT = "unknown-event"
    """Put in an event that the operation does not model; the stream goes on."""
    CORRUPT_FRAME = "corrupt-frame"
    """Put in a message whose checksum is wrong; the stream goes on."""


class Direction(StrEnum):
    """Which messages of a stream are counted, and held back by `delay` and `stall`."""

    TO_CLIENT = "to-client"
    TO_CONTAINER = "to-container"


class Scope(StrEnum):
    """How far `stop-reading` and `stop-writing` reach."""

    STREAM = "stream"
    CONNECTION = "connection"


ENDINGS_OF_CONNECTION = frozenset({FaultKind.KILL_CONNECTION, FaultKind.CLOSE_CONNECTION, FaultKind.GO_AWAY_NOW})
"""Kinds that take every stream of the connection with them."""

_ALWAYS_BEFORE_HEADERS = frozenset({FaultKind.REFUSE, FaultKind.SLOW_HEADERS})
_MAY_BE_BEFORE_HEADERS = _ALWAYS_BEFORE_HEADERS | ENDINGS_OF_CONNECTION | {FaultKind.RESET_STREAM, FaultKind.GO_AWAY}
_NEEDS_SECONDS = frozenset({FaultKind.SLOW_HEADERS, FaultKind.DELAY, FaultKind.STALL})
_EXCEPTIONS = frozenset({FaultKind.MODEL_STREAM_ERROR, FaultKind.INTERNAL_STREAM_FAILURE, FaultKind.UNKNOWN_EXCEPTION})
_MEANT_FOR = {
    "status": {FaultKind.REFUSE},
    "code": {FaultKind.RESET_STREAM, FaultKind.GO_AWAY_NOW},
    "seconds": _NEEDS_SECONDS,
    "error_type": {FaultKind.REFUSE, FaultKind.UNKNOWN_EXCEPTION, FaultKind.UNKNOWN_EVENT},
    "message": {FaultKind.REFUSE, *_EXCEPTIONS},
    "error_code": {FaultKind.MODEL_STREAM_ERROR},
    "scope": {FaultKind.STOP_READING, FaultKind.STOP_WRITING},
}
"""Fields that mean something for some kinds only."""

STATUSES = (400, 403, 424, 429, 500, 503)
"""What `refuse` can answer with: the statuses SageMaker's runtime is known to use."""

_ERROR_CODE_NAMES = frozenset(code.name for code in ErrorCodes)
_RANGE = re.compile(r"(\d+)\.\.(\d+)")


def _read_times(value: Any) -> Any:
    return None if value == "every" else value


def _read_range(value: Any) -> Any:
    match = _RANGE.fullmatch(value) if isinstance(value, str) else None
    return (int(match[1]), int(match[2])) if match else value


class Fault(BaseModel):
    """One thing that goes wrong.

    It waits for a place in a stream: before the response headers, after a number of messages or seconds, or at a
    random message. Left out, that is the moment after the response headers, or now for a stream that is open already.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: FaultKind

    before_headers: bool = False
    """Happens when the request has been checked, before anything is answered."""
    after: int | None = Field(default=None, ge=0)
    """Happens when so many messages have passed in `direction`, before the next one does."""
    after_seconds: float | None = Field(default=None, ge=0)
    """Happens so many seconds after the response headers."""
    random: Annotated[tuple[int, int] | None, BeforeValidator(_read_range)] = None
    """Happens after a number of messages drawn anew for each stream, both ends included; in text `1..20`."""
    seed: int | None = None
    """Seeds the draw of `random`: the same seed gives the same places for the same order of streams. By default one
    is drawn when the fault is armed; what is armed shows it."""
    direction: Direction | None = None
    """Which messages count; by default those to the client, for `stop-reading` those to the container."""
    times: Annotated[Annotated[int, Field(ge=1)] | None, BeforeValidator(_read_times)] = 1
    """How many streams it happens to; None, in text `every`, means each one."""
    endpoint: str | None = None
    """Happens to streams of this endpoint only; by default to any."""

    status: int | None = None
    """`refuse`: one of `STATUSES`; 503 by default."""
    code: str | None = None
    """`reset-stream`, `go-away-now`: name of the HTTP/2 error code; INTERNAL_ERROR by default."""
    seconds: float | None = Field(default=None, gt=0)
    """`slow-headers`, `delay`, `stall`: how long."""
    error_type: str | None = Field(default=None, min_length=1, max_length=255)
    """`refuse`: what `x-amzn-errortype` says; `unknown-exception`, `unknown-event`: the type of the event."""
    message: str | None = None
    """`refuse` and the exceptions: the words."""
    error_code: str | None = None
    """`model-stream-error`: the ErrorCode; StreamBroken by default."""
    scope: Scope | None = None
    """`stop-reading`, `stop-writing`: this stream (the default), or its whole connection."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        problems = [
            f"{name} means nothing for {self.kind}"
            for name, kinds in _MEANT_FOR.items()
            if getattr(self, name) is not None and self.kind not in kinds
        ]
        places = [name for name in ("after", "after_seconds", "random") if getattr(self, name) is not None]
        if self.before_headers or self.kind in _ALWAYS_BEFORE_HEADERS:
            if self.kind not in _MAY_BE_BEFORE_HEADERS:
                problems.append(f"{self.kind} can happen to an open stream only, not before_headers")
            problems += [f"{name} cannot be where the place is before the headers" for name in places]
        elif len(places) > 1:
            problems.append(f"the places {' and '.join(places)} exclude one another")
        if self.random is not None and self.random[0] > self.random[1]:
            problems.append(f"random={self.random[0]}..{self.random[1]} is empty")
        if self.seed is not None and self.random is None:
            problems.append("seed means nothing without random")
        if self.kind in _NEEDS_SECONDS and self.seconds is None:
            problems.append(f"{self.kind} needs seconds")
        if self.status is not None and self.status not in STATUSES:
            problems.append(f"status must be one of {', '.join(map(str, STATUSES))}")
        if self.code is not None and self.code not in _ERROR_CODE_NAMES:
            problems.append(f"code must be one of {', '.join(sorted(_ERROR_CODE_NAMES))}")
        if problems:
            raise ValueError("; ".join(problems))
        return self

    @property
    def is_before_headers(self) -> bool:
        """Whether it happens before anything is answered."""
        return self.before_headers or self.kind in _ALWAYS_BEFORE_HEADERS

    @property
    def counted_direction(self) -> Direction:
        """Which messages `after` and `random` count."""
        default = Direction.TO_CONTAINER if self.kind is FaultKind.STOP_READING else Direction.TO_CLIENT
        return self.direction or default

    @property
    def http2_code(self) -> ErrorCodes:
        """The HTTP/2 error code to send."""
        return ErrorCodes[self.code or "INTERNAL_ERROR"]

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `KIND[,before-headers][,FIELD=VALUE]...`, the form of the command line; `-` and `_` are the same.

        Raises:
            FaultSpecError: names every problem.
        """
        kind, *rest = (part.strip() for part in text.split(","))
        fields: dict[str, str | bool] = {"kind": kind}
        for part in rest:
            name, assigned, value = part.partition("=")
            fields[name.strip().replace("-", "_")] = value.strip() if assigned else True
        try:
            return cls.model_validate(fields)
        except ValidationError as error:
            raise FaultSpecError(f"fault {text!r}: {_describe(error)}") from None

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Read a JSON object with the fields of this class, the form of the admin route.

        Raises:
            FaultSpecError: names every problem.
        """
        try:
            return cls.model_validate_json(text)
        except ValidationError as error:
            raise FaultSpecError(f"fault: {_describe(error)}") from None


def _describe(error: ValidationError) -> str:
    problems = []
    for problem in error.errors(include_url=False, include_context=False):
        place = ".".join(str(part) for part in problem["loc"])
        if place == "kind" and problem["type"] == "enum":
            words = f"kind must be one of {', '.join(FaultKind)}"
        elif problem["type"] == "extra_forbidden":
            words = f"there is no field {place}; there are {', '.join(Fault.model_fields)}"
        else:
            words = problem["msg"].removeprefix("Value error, ")
            words = f"{place}: {words}" if place else words
        problems.append(words)
    return "; ".join(problems)
