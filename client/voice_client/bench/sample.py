"""What one utterance cost, and how it went: the record that everything is made of. Holds no spoken word."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self

MEASURES = {
    "connect_ms": "open stream",
    "first_partial_ms": "first words",
    "finalization_ms": "final text",
    "first_byte_ms": "first byte",
    "ttfa_ms": "first sound",
    "response_ms": "response",
    "rtf": "real-time factor",
}
"""Measures of an utterance by name, in the order in which they are shown, and what a reader calls them.

`response_ms` is of `talk`: from the end of a turn's speech to the first audible sample of the answer. The others are
those of `voice_client.session.metrics`, where they are defined.
"""


@dataclass(frozen=True, slots=True)
class Sample:
    """One utterance."""

    streams: int
    """The step: how many streams it was measured under."""
    caller: int
    """In the open loop, the number of the call."""
    item: int
    """Which recording or text, by its place in the material."""
    began: float
    """Seconds since the measured window began; below 0 it was ramp or warm-up."""
    elapsed: float
    """Seconds until it was over, well or not."""
    measured: bool
    """Whether it began in the measured window. Others are kept for their `connect_ms` alone."""
    audio_seconds: float = 0.0
    """Speech heard and spoken; 0 when it failed."""
    spoken_seconds: float = 0.0
    """Of it, what the caller said."""
    measures: Mapping[str, float] = field(default_factory=dict)
    """Those of `MEASURES` that this utterance has. `connect_ms` only where it opened its stream."""
    word_errors: int | None = None
    words: int | None = None
    underruns: int | None = None
    sent_bytes: int = 0
    """Messages to the endpoint, before event stream and TLS."""
    received_bytes: int = 0
    error: str | None = None
    """Kind of the failure; None when it went well."""
    message: str | None = None
    """What the error said; errors hold no speech."""

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON values, without what is None."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Return the sample that `as_json` wrote down."""
        return cls(**values)


@dataclass(frozen=True, slots=True)
class Timeline:
    """What happened in one session, moment by moment, for a picture of it."""

    streams: int
    kind: str
    points: list[tuple[float, str, float]]
    """Seconds since the utterance began; what: `sent` and `audio` (seconds of speech so far), `words` (characters so
    far), `end` (of the speech), `final`, `text`, `playing` (the listener hears the first sample)."""

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "streams": self.streams,
            "kind": self.kind,
            "points": [[round(at, 4), what, round(value, 4)] for at, what, value in self.points],
        }
