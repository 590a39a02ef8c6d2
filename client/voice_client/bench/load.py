"""Callers of one step: begun over a ramp, warmed up, measured, and kept going until all that is measured is over."""

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from voice_client.bench.callers import Caller, CallerMaker
from voice_client.bench.own_load import LoopWatch, OwnLoad
from voice_client.bench.plan import DRAIN_SECONDS, OPEN_CALLS_PER_STREAM
from voice_client.bench.sample import Sample, Timeline
from voice_client.errors import VoiceError
from voice_client.session import Retry

type Emit = Callable[[Sample], None]


@dataclass(frozen=True, slots=True)
class Step:
    """One process's part of a step. Moments are seconds of the machine's monotonic clock, which all processes share."""

    streams: int
    """Of the whole step, over all processes."""
    callers: tuple[int, ...]
    """Which of them this process plays."""
    starts_at: float
    ramp: float
    window_from: float
    """Where the measured part begins."""
    window_to: float
    calls_per_second: float | None = None
    """This process's part of the open loop's arrivals; None is the closed loop."""
    seed: int = 0


class StepLoad:
    """Plays a step.

    Args:
        step: what to play.
        make: opens the streams of a caller.
        items: how many recordings or texts there are.
        kind: what a timeline calls it.
        emit: is given each utterance when it is over.
    """

    def __init__(self, step: Step, make: CallerMaker, *, items: int, kind: str, emit: Emit) -> None:
        self._step = step
        self._make = make
        self._items = items
        self._kind = kind
        self._emit = emit
        self._under_way: dict[int, tuple[int, float]] = {}
        """Measured utterances that are not over: by caller, the item and when it began."""
        self._nothing_under_way = asyncio.Event()
        self._nothing_under_way.set()
        self.timeline: Timeline | None = None
        """Of the first measured utterance that went well."""

    async def run(self, measured: Callable[[OwnLoad], None], stop: asyncio.Event) -> None:
        """Play until `stop` is set.

        The load stays what it is until every utterance that began in the window is over: without that, the last ones
        would be measured under fewer and fewer streams.

        Args:
            measured: is called once, when all that is measured is over, with what this process used meanwhile.
            stop: set when the other processes have measured too.
        """
        loop = asyncio.get_running_loop()
        step = self._step
        callers: list[asyncio.Task[None]] = []
        try:
            async with asyncio.TaskGroup() as group:
                if step.calls_per_second is None:
                    callers += [group.create_task(self._closed(caller)) for caller in step.callers]
                else:
                    callers.append(group.create_task(self._open(step.calls_per_second)))
                await _until(step.window_from)
                async with LoopWatch() as watch:
                    await _until(step.window_to)
                    try:
                        async with asyncio.timeout(DRAIN_SECONDS):
                            await self._nothing_under_way.wait()
                    except TimeoutError:
                        self._give_up(loop.time())
                    own = watch.load()
                measured(own)
                await stop.wait()
                for task in callers:
                    task.cancel()
        finally:
            for task in callers:
                task.cancel()

    async def _closed(self, caller: int) -> None:
        """One caller, utterance after utterance, with a new set of streams when one could not be opened."""
        step = self._step
        await _until(step.starts_at + step.ramp * caller / step.streams)
        failures, turn = 0, 0
        while True:
            item = (caller + turn) % self._items
            began = self._begins(caller, item)
            try:
                async with self._make() as streams:
                    while True:
                        went_well = await self._utterance(streams, caller, item, began)
                        turn += 1
                        failures = 0 if went_well else failures + 1
                        if failures:
                            await asyncio.sleep(Retry().wait(failures))
                        item = (caller + turn) % self._items
                        began = self._begins(caller, item)
            except VoiceError as error:  # from opening
                self._failed(caller, item, began, error)
                failures += 1
            await asyncio.sleep(Retry().wait(failures))

    async def _open(self, calls_per_second: float) -> None:
        """Callers that come at random, each with streams of its own."""
        step = self._step
        draws = random.Random(step.seed)  # noqa: S311 - no secret
        most = OPEN_CALLS_PER_STREAM * len(step.callers)
        due = step.starts_at
        number = step.callers[0]
        calls: set[asyncio.Task[None]] = set()
        async with asyncio.TaskGroup() as group:
            while True:
                due += draws.expovariate(calls_per_second)
                await _until(due)
                number += step.streams  # a number no other process gives
                item = draws.randrange(self._items)
                # From when it was due: a client or an endpoint that is late must not make the calls look shorter.
                began = self._begins(number, item, due)
                if len(calls) >= most:
                    self._failed(number, item, began, TooManyOpenCallsError(f"{most} calls are under way already"))
                    continue
                task = group.create_task(self._one_call(number, item, began))
                calls.add(task)
                task.add_done_callback(calls.discard)

    async def _one_call(self, number: int, item: int, began: float) -> None:
        try:
            async with self._make() as streams:
                await self._utterance(streams, number, item, began)
        except VoiceError as error:
            self._failed(number, item, began, error)

    async def _utterance(self, streams: Caller, caller: int, item: int, began: float) -> bool:
        """Play one utterance and give out its sample; returns whether it went well."""
        try:
            outcome = await streams.call(item)
        except VoiceError as error:
            self._failed(caller, item, began, error, sent=streams.trace.sent_bytes)
            return False
        if not self._counts(caller, began):
            return True
        sample = self._sample(caller, item, began, sent=streams.trace.sent_bytes)
        self._emit(
            replace(
                sample,
                audio_seconds=outcome.audio_seconds,
                spoken_seconds=outcome.spoken_seconds,
                measures=outcome.measures,
                word_errors=outcome.words.errors if outcome.words is not None else None,
                words=outcome.words.words if outcome.words is not None else None,
                underruns=outcome.underruns,
                received_bytes=streams.trace.received_bytes,
            )
        )
        if sample.measured and self.timeline is None:
            self.timeline = Timeline(self._step.streams, self._kind, sorted(streams.trace.points))
        return True

    def _failed(self, caller: int, item: int, began: float, error: VoiceError, *, sent: int = 0) -> None:
        if not self._counts(caller, began):
            return
        kind, message = described(error)
        self._emit(replace(self._sample(caller, item, began, sent=sent), error=kind, message=message))

    def _sample(self, caller: int, item: int, began: float, *, sent: int) -> Sample:
        """Return what is known of every utterance, however it ended."""
        return Sample(
            streams=self._step.streams,
            caller=caller,
            item=item,
            began=began - self._step.window_from,
            elapsed=asyncio.get_running_loop().time() - began,
            measured=self._in_window(began),
            sent_bytes=sent,
        )

    def _in_window(self, began: float) -> bool:
        return self._step.window_from <= began < self._step.window_to

    def _begins(self, caller: int, item: int, began: float | None = None) -> float:
        """Note that an utterance begins, the opening of its stream included; returns when (None: now)."""
        if began is None:
            began = asyncio.get_running_loop().time()
        if self._in_window(began):
            self._under_way[caller] = (item, began)
            self._nothing_under_way.clear()
        return began

    def _counts(self, caller: int, began: float) -> bool:
        """Note that an utterance is over; False when it was given up, and counted, before."""
        known = self._under_way.pop(caller, None) is not None
        if not self._under_way:
            self._nothing_under_way.set()
        return known or not self._in_window(began)

    def _give_up(self, now: float) -> None:
        for caller, (item, began) in list(self._under_way.items()):
            error = NotFinishedError(f"an utterance was not over {now - self._step.window_to:.0f} s after the window")
            self._failed(caller, item, began, error)


class NotFinishedError(VoiceError):
    """An utterance did not end within `DRAIN_SECONDS` after the measured window."""

    exit_code = 4


class TooManyOpenCallsError(VoiceError):
    """The open loop brought one more caller than are kept at once; see `OPEN_CALLS_PER_STREAM`."""

    exit_code = 4


def described(error: VoiceError) -> tuple[str, str]:
    """Return the kind of an error, by the failure at its root, and what it says.

    An interrupted transcription is the loss that interrupted it; a code of the service or the model is part of the
    kind, since `ModelError` alone may be anything.
    """
    root = root_of(error)
    kind = type(root).__name__.removesuffix("Error")
    code = getattr(root, "error_code", None)
    return (f"{kind}: {code}" if code else kind), root.message


def root_of(error: VoiceError) -> VoiceError:
    """Return the failure that an error reports."""
    while isinstance(error.__cause__, VoiceError):
        error = error.__cause__
    return error


def split_callers(streams: int, processes: int) -> Sequence[tuple[int, ...]]:
    """Return which callers each process plays: every process every so-many-th, so that the ramp rises evenly."""
    return [tuple(range(first, streams, processes)) for first in range(processes)]


async def _until(moment: float) -> None:
    await asyncio.sleep(max(0.0, moment - asyncio.get_running_loop().time()))
