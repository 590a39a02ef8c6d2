"""The processes that measure: started, told what to play, and what they say put together."""

import asyncio
import contextlib
import json
import os
import signal
import sys
import tempfile
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from typing import IO, Any

from voice_client import errors
from voice_client.bench.load import Step, split_callers
from voice_client.bench.own_load import OwnLoad
from voice_client.bench.plan import DRAIN_SECONDS, BenchPlan
from voice_client.bench.sample import Sample
from voice_client.errors import VoiceError
from voice_client.session.ending import end_tasks

START_SECONDS = 120.0
"""Until a process can begin: imports, decoding, the look-up of the endpoint, and one call to see that it works."""

STEP_SLACK_SECONDS = 60.0
"""How much longer than planned a step may take, drained, before its processes count as stuck."""

STOP_SECONDS = 15.0
"""For a process to close its streams (5 s each at most, all at once) and end; after that it is killed."""

LEAD_SECONDS = 0.3
"""From telling the processes of a step to its beginning, so that all begin at once."""

LONGEST_LINE = 16 * 1024 * 1024
STDERR_KEPT = 2000
"""Characters of a dead process's last words that are shown."""


class WorkerError(VoiceError):
    """A process that measures ended, or said nothing in time."""


@dataclass(slots=True)
class StepMeasured:
    """What came back of one step; whatever there is when it is interrupted."""

    streams: int
    calls_per_second: float | None
    processes: int
    samples: list[Sample] = field(default_factory=list)
    own: list[OwnLoad] = field(default_factory=list)
    timelines: list[dict[str, Any]] = field(default_factory=list)
    complete: bool = False
    measured_seconds: float = 0.0
    """Length of the measured window, as far as it went."""


type OnSample = Callable[[Sample], None]


class _Worker:
    """One process."""

    def __init__(self, process: asyncio.subprocess.Process, stderr: IO[bytes]) -> None:
        self._process = process
        self._stderr = stderr
        assert process.stdin is not None  # noqa: S101 - pipes were asked for
        assert process.stdout is not None  # noqa: S101
        self._input, self._output = process.stdin, process.stdout

    def tell(self, **message: Any) -> None:
        """Send a message; a process that has ended is noticed where its answer is read."""
        with contextlib.suppress(ConnectionError):
            self._input.write((json.dumps(message) + "\n").encode())

    async def hear(self) -> dict[str, Any]:
        """Return the next message.

        Raises:
            VoiceError: the process's own error, or `WorkerError` when it ended without one.
        """
        line = await self._output.readline()
        if not line:
            code = await self._process.wait()
            how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
            raise WorkerError(f"a measuring process {how}: {self._last_words()}")
        message: dict[str, Any] = json.loads(line)
        if (failed := message.get("failed")) is not None:
            raise _error(failed)
        return message

    async def ready(self, on_note: Callable[[str], None]) -> list[dict[str, Any]]:
        """Return the endpoints that it found, once it can begin.

        Raises:
            VoiceError: see `hear`.
        """
        while (endpoints := (message := await self.hear()).get("endpoints")) is None:
            if (note := message.get("doing")) is not None:
                on_note(note)
        found: list[dict[str, Any]] = endpoints
        return found

    async def end(self) -> None:
        """Let the process end: its input closes, and it leaves its streams."""
        self._input.close()
        draining = asyncio.create_task(self._drain(), name="voice-bench-drain")
        try:
            async with asyncio.timeout(STOP_SECONDS):
                await self._process.wait()
        except (TimeoutError, asyncio.CancelledError) as error:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            await self._process.wait()  # at once: nothing survives that
            if isinstance(error, asyncio.CancelledError):
                raise
        finally:
            await end_tasks(draining)
            self._stderr.close()

    async def _drain(self) -> None:
        while await self._output.read(65536):  # a full pipe would keep it from ending
            pass

    def _last_words(self) -> str:
        self._stderr.seek(0)
        text = self._stderr.read().decode(errors="replace").strip()
        if not text:
            return "it said nothing"
        if os.environ.get("VOICE_DEBUG", "0") not in {"", "0"}:
            return text[-STDERR_KEPT:]
        # What an unknown error says may hold anything, also what was spoken; its type may not.
        return f"{text.splitlines()[-1].partition(':')[0][:80]}; VOICE_DEBUG=1 shows where"


class Fleet:
    """Measuring processes that are ready; made by `fleet`."""

    def __init__(self, plan: BenchPlan, workers: list[_Worker], endpoints: list[dict[str, Any]]) -> None:
        self._plan = plan
        self._workers = workers
        self.endpoints = endpoints
        """Name, region, model and instances of each endpoint."""

    async def run(self, measured: StepMeasured, on_sample: OnSample) -> None:
        """Run one step.

        Args:
            measured: takes what comes back, as it comes.
            on_sample: is told each utterance.

        Raises:
            VoiceError: a process failed.
        """
        plan = self._plan
        loop = asyncio.get_running_loop()
        workers = self._workers[: measured.processes]
        starts_at = loop.time() + LEAD_SECONDS
        window_from = starts_at + plan.ramp + plan.warm_up
        window_to = window_from + plan.duration
        rate = measured.calls_per_second
        for number, (worker, callers) in enumerate(
            zip(workers, split_callers(measured.streams, len(workers)), strict=True)
        ):
            step = Step(
                streams=measured.streams,
                callers=callers,
                starts_at=starts_at,
                ramp=plan.ramp,
                window_from=window_from,
                window_to=window_to,
                calls_per_second=rate * len(callers) / measured.streams if rate is not None else None,
                seed=hash((plan.seed, measured.streams, number)),
            )
            worker.tell(step=asdict(step))
        deadline = window_to + DRAIN_SECONDS + STEP_SLACK_SECONDS
        try:
            await _all(deadline, [self._until(worker, "measured", measured, on_sample) for worker in workers])
            for worker in workers:
                worker.tell(stop=True)
            await _all(
                loop.time() + STEP_SLACK_SECONDS,
                [self._until(worker, "idle", measured, lambda _: None) for worker in workers],
            )
            measured.complete = True
        finally:
            measured.measured_seconds = min(max(0.0, loop.time() - window_from), plan.duration)

    @staticmethod
    async def _until(worker: _Worker, wanted: str, measured: StepMeasured, on_sample: OnSample) -> None:
        while True:
            message = await worker.hear()
            if (values := message.get("sample")) is not None:
                sample = Sample.from_json(values)
                measured.samples.append(sample)
                on_sample(sample)
            elif (timeline := message.get("timeline")) is not None:
                measured.timelines.append(timeline)
            elif (own := message.get("measured")) is not None:
                measured.own.append(OwnLoad(**own))
            if wanted in message:
                return


@asynccontextmanager
async def fleet(
    plan: BenchPlan, environment: Mapping[str, str], *, processes: int, on_note: Callable[[str], None]
) -> AsyncGenerator[Fleet]:
    """Start the processes; they are ready when the block begins, and have ended when it is left.

    Args:
        plan: the run.
        environment: what leads them to the endpoint.
        processes: how many.
        on_note: is told what is done before they are ready.

    Raises:
        VoiceError: the endpoint cannot be used, or a process did not start.
    """
    workers: list[_Worker] = []
    on_note(f"starting {processes} measuring process{'es' if processes > 1 else ''}")
    try:
        for _ in range(processes):
            stderr = tempfile.TemporaryFile()  # noqa: SIM115 - closed by the worker's end
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "voice_client.bench.worker",
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=stderr,
                env=dict(environment),
                limit=LONGEST_LINE,
                start_new_session=True,  # Ctrl-C is for this process, which ends the others in order
            )
            workers.append(_Worker(process, stderr))
        for number, worker in enumerate(workers):
            worker.tell(plan=plan.as_json(), first=number == 0)
        deadline = asyncio.get_running_loop().time() + START_SECONDS
        answers = await _all(deadline, [worker.ready(on_note) for worker in workers])
        yield Fleet(plan, workers, answers[0])
    finally:
        await asyncio.gather(*(worker.end() for worker in workers))


async def _all[T](deadline: float, waits: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """Wait for all of several things until a moment; the first failure ends the others."""
    try:
        async with asyncio.timeout_at(deadline), asyncio.TaskGroup() as group:
            tasks = [group.create_task(wait) for wait in waits]
    except TimeoutError as error:
        raise WorkerError(
            "the measuring processes did not answer in time",
            advice="Run it again with VOICE_DEBUG=1, or with less load",
        ) from error
    except BaseExceptionGroup as group_error:
        raise group_error.exceptions[0] from None
    return [task.result() for task in tasks]


def _error(said: Mapping[str, Any]) -> VoiceError:
    """Return the error that a process ended with, as it was there."""
    kind = getattr(errors, str(said["type"]), errors.ModelError)
    fields = {name: said[name] for name in ("endpoint", "request_id", "retryable", "advice")}
    raised: VoiceError = kind(said["message"], **fields)
    return raised
