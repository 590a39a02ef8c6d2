"""What a run is to measure, and every limit of the bench with its default and the reason for it. Times in seconds."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal, Self

from voice_client.errors import BadInputError
from voice_client.session import TranscriberSettings

type Kind = Literal["stt", "tts", "talk"]
"""What callers do: have recordings heard, have texts spoken, or one after the other in turns."""

type Arrivals = Literal["closed", "open"]
"""closed: a fixed number of callers, each begins again when it has its answer. open: callers come at random, whether
earlier ones were served or not, each on a stream of its own."""

STREAMS_PER_PROCESS = 32
"""Callers one process plays. A stream of speech, 8 messages a second up, took 0.6 % of a core with its session, TLS and
signatures (32 of them 18 %); so many leave the event loop room to be on time on a slower machine too."""

DRAIN_SECONDS = 120.0
"""How long utterances that began in the measured window may take after its end. Longer than any deadline of the
sessions, so that what hangs is reported as the session's own error."""

OPEN_CALLS_PER_STREAM = 4
"""In the open loop, calls under way at most, for each stream of the step: an endpoint that answers nobody must not make
the client collect callers without end. A caller beyond that is counted as an error `TooManyOpenCalls`."""

CHARACTERS_PER_SECOND = 15.0
"""Speed of speech that turns the length of a text into how long it keeps a stream busy (open loop only)."""

SHORTEST_DURATION = 1.0
LONGEST_SECONDS = 24 * 3600.0
"""Of a step's ramp, warm-up and measured part, each: a day. More is a wrong number."""

MOST_STREAMS = 2000
"""More is a wrong number: SageMaker's own limits of concurrent streams lie far below."""

MOST_PROCESSES = 64
"""Each takes some 100 MB; with `STREAMS_PER_PROCESS` each, so many play `MOST_STREAMS`."""


@dataclass(frozen=True, slots=True)
class Place:
    """Which endpoints, as the options of the command line name them; None takes the default."""

    stage: str | None = None
    endpoint: str | None = None
    """A SageMaker endpoint instead of a stage; for `talk`, the one that hears."""
    speaking_endpoint: str | None = None
    """For `talk` with `endpoint`: the one that speaks."""
    region: str | None = None
    endpoint_url: str | None = None
    ca_bundle: str | None = None
    model: str | None = None


@dataclass(frozen=True, slots=True)
class BenchPlan:
    """One run: a step for each number of streams.

    Raises:
        BadInputError: values that cannot be; all of them are named.
    """

    kind: Kind
    place: Place = field(default_factory=Place)
    concurrency: tuple[int, ...] = (1, 4, 8, 16)
    """Streams at once, a step each, in rising order."""
    duration: float = 60.0
    """Measured part of each step."""
    warm_up: float = 5.0
    """Full load before the measured part; what begins in it is not counted."""
    ramp: float = 5.0
    """Callers begin spread over this time before the warm-up, since many opening at once is another measurement."""
    arrivals: Arrivals = "closed"
    chunk_bytes: int = 4096
    """Audio in one message (`stt`, `talk`): 4096 bytes are 128 ms."""
    processes: int | None = None
    """Processes that play callers; None takes one for every `STREAMS_PER_PROCESS`."""
    recordings: str | None = None
    """Folder of recordings with texts; None takes those of the package."""
    texts: str | None = None
    """File of texts to be spoken, one a line; None takes those of the package."""
    voice: str | None = None
    language: str | None = None
    seed: int = 1
    """Of the open loop's arrivals."""

    def __post_init__(self) -> None:
        problems = []
        if not self.concurrency:
            problems.append("no number of streams is given")
        if wrong := [str(count) for count in self.concurrency if not 1 <= count <= MOST_STREAMS]:
            problems.append(f"a number of streams is 1 to {MOST_STREAMS}, not {', '.join(wrong)}")
        if len(set(self.concurrency)) != len(self.concurrency):
            problems.append("a number of streams is given twice")
        least = {"duration": SHORTEST_DURATION, "warm_up": 0.0, "ramp": 0.0}
        problems += [
            f"--{name.replace('_', '-')} is {shortest:g} to {LONGEST_SECONDS:g} seconds"
            for name, shortest in least.items()
            if not shortest <= getattr(self, name) <= LONGEST_SECONDS
        ]
        if self.processes is not None and not 1 <= self.processes <= MOST_PROCESSES:
            problems.append(f"--processes is 1 to {MOST_PROCESSES}")
        try:
            TranscriberSettings(chunk_bytes=self.chunk_bytes)
        except BadInputError as error:
            problems.append(f"--chunk-bytes: {error.message}")
        if self.place.stage is not None and self.place.endpoint is not None:
            problems.append("--stage and --endpoint exclude each other")
        if (self.kind == "talk") and (self.place.endpoint is None) != (self.place.speaking_endpoint is None):
            problems.append("talk needs both endpoints: --endpoint hears, --speaking-endpoint speaks")
        if problems:
            raise BadInputError("; ".join(problems))
        object.__setattr__(self, "concurrency", tuple(sorted(self.concurrency)))

    def processes_for(self, streams: int) -> int:
        """Return how many processes play so many callers."""
        return min(streams, self.processes or -(-streams // STREAMS_PER_PROCESS))

    def as_json(self) -> dict[str, Any]:
        """Return all of it as JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Return the plan that `as_json` wrote down."""
        known = {item.name for item in fields(cls)}
        chosen = {name: value for name, value in values.items() if name in known}
        return cls(**chosen | {"place": Place(**values["place"]), "concurrency": tuple(values["concurrency"])})


def parse_concurrency(text: str) -> tuple[int, ...]:
    """Read `1,4,8,16`.

    Raises:
        BadInputError: something that is no whole number.
    """
    try:
        return tuple(int(part) for part in text.split(",") if part.strip())
    except ValueError as error:
        raise BadInputError(
            f"{text!r} is no list of numbers of streams", advice="Write them with commas between: 1,4,8,16"
        ) from error
