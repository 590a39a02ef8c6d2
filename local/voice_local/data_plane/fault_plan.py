"""Which faults are armed, and when each of them is due on which stream. No I/O happens here.

Everything here belongs to the data plane's loop: call it from there only.
"""

import asyncio
import contextlib
import itertools
import random
import secrets
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from voice_local.data_plane.faults import Direction, Fault

HISTORY = 1000
"""How many of the faults that happened last are remembered."""

type Clock = Callable[[], float]


@dataclass(eq=False, slots=True)
class ArmedFault:
    """A fault that waits for its streams."""

    number: int
    """Names it, for `disarm` and in the history."""
    fault: Fault
    seed: int
    """Of `random`: the fault's own, or the one that was drawn for it."""
    fired: int = 0
    """How many streams it has happened to."""
    _draws: random.Random = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._draws = random.Random(self.seed)  # noqa: S311 - a place in a test, no secret

    @property
    def spent(self) -> bool:
        """Whether it has happened as often as it should."""
        return self.fault.times is not None and self.fired >= self.fault.times

    def draw(self) -> int:
        """Return after how many messages it is due on the next stream."""
        if self.fault.random is None:
            return self.fault.after or 0
        return self._draws.randint(*self.fault.random)


@dataclass(frozen=True, slots=True)
class FiredFault:
    """A fault that happened."""

    number: int
    """Of the armed fault."""
    fault: Fault
    request_id: str
    """Of the stream, as in its header `x-amzn-requestid`."""
    to_client: int
    """Messages the client had been sent by then."""
    to_container: int
    """Messages the container had been sent by then."""


@dataclass(eq=False, slots=True)
class _Waiting:
    armed: ArmedFault
    place: int


class StreamTriggers:
    """What is still to happen to one stream, and whether it is time."""

    def __init__(self, plan: "FaultPlan", endpoint_name: str, request_id: str, clock: Clock) -> None:
        self.changed = asyncio.Event()
        """Set when a fault came after the stream had opened."""
        self.passed = dict.fromkeys(Direction, 0)
        """Messages that went each way so far."""
        self._plan = plan
        self._endpoint_name = endpoint_name
        self._request_id = request_id
        self._clock = clock
        self._opened: float | None = None
        self._waiting: list[_Waiting] = []

    def __bool__(self) -> bool:
        """Whether anything is still to happen."""
        return bool(self._waiting)

    def add(self, armed: ArmedFault) -> None:
        """Let a fault wait for this stream, if it is meant for its endpoint."""
        if armed.fault.endpoint in (None, self._endpoint_name):
            self._waiting.append(_Waiting(armed, armed.draw()))
            self.changed.set()

    def remove(self, armed: ArmedFault) -> None:
        """Let a fault wait no longer."""
        self._waiting = [each for each in self._waiting if each.armed is not armed]

    def headers_sent(self) -> None:
        """Begin the time and the messages of the stream."""
        self._opened = self._clock()

    def claim_due(self) -> Iterator[Fault]:
        """Yield what is due now, in the order it was armed; each counts as happened when it is yielded."""
        for each in tuple(self._waiting):
            # While one fault happens another may be disarmed, or happen from another task.
            if each in self._waiting and self._is_due(each):
                self._waiting.remove(each)
                if not each.armed.spent:
                    self._plan.note(self._fired(each.armed), each.armed)
                    yield each.armed.fault

    def seconds_to_next(self) -> float | None:
        """Return how long it is until the next fault is due by the clock, None when none is."""
        if self._opened is None:
            return None
        moments = [
            self._opened + each.armed.fault.after_seconds
            for each in self._waiting
            if each.armed.fault.after_seconds is not None and not each.armed.spent
        ]
        return max(0.0, min(moments) - self._clock()) if moments else None

    def _is_due(self, each: _Waiting) -> bool:
        fault = each.armed.fault
        if self._opened is None or fault.is_before_headers:
            return self._opened is None and fault.is_before_headers
        if fault.after_seconds is not None:
            return self._clock() >= self._opened + fault.after_seconds
        return self.passed[fault.counted_direction] >= each.place

    def _fired(self, armed: ArmedFault) -> FiredFault:
        to_client, to_container = self.passed[Direction.TO_CLIENT], self.passed[Direction.TO_CONTAINER]
        return FiredFault(armed.number, armed.fault, self._request_id, to_client, to_container)


class FaultPlan:
    """The faults of one data plane: armed, disarmed, happened."""

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._numbers = itertools.count(1)
        self._armed: dict[int, ArmedFault] = {}
        self._streams: set[StreamTriggers] = set()
        self._history: deque[FiredFault] = deque(maxlen=HISTORY)

    @property
    def armed(self) -> tuple[ArmedFault, ...]:
        """Faults that can still happen, in the order they were armed."""
        return tuple(armed for armed in self._armed.values() if not armed.spent)

    @property
    def history(self) -> tuple[FiredFault, ...]:
        """Faults that happened, the latest last; at most `HISTORY`."""
        return tuple(self._history)

    def arm(self, fault: Fault) -> ArmedFault:
        """Let a fault happen to streams, those that are open already included."""
        seed = secrets.randbits(32) if fault.seed is None else fault.seed
        armed = ArmedFault(next(self._numbers), fault, seed)
        self._armed[armed.number] = armed
        for stream in self._streams:
            stream.add(armed)
        return armed

    def disarm(self, number: int) -> bool:
        """Let a fault happen no more; False when there is none of that number."""
        armed = self._armed.pop(number, None)
        if armed is None:
            return False
        for stream in self._streams:
            stream.remove(armed)
        return True

    def clear(self) -> None:
        """Disarm everything. What has happened to a stream already is not undone."""
        for number in list(self._armed):
            self.disarm(number)

    @contextlib.contextmanager
    def stream(self, endpoint_name: str, request_id: str) -> Iterator[StreamTriggers]:
        """Count a request among those that faults happen to, until the block ends."""
        triggers = StreamTriggers(self, endpoint_name, request_id, self._clock)
        for armed in self.armed:
            triggers.add(armed)
        self._streams.add(triggers)
        try:
            yield triggers
        finally:
            self._streams.discard(triggers)

    def note(self, fired: FiredFault, armed: ArmedFault) -> None:
        """Count a fault as happened."""
        armed.fired += 1
        self._history.append(fired)
        if armed.spent:
            self._armed.pop(armed.number, None)
