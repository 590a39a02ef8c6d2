"""A run: the steps one after the other, and what came of them, also of a run that was broken off."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from voice_client.bench.fleet import StepMeasured, fleet
from voice_client.bench.material import load_recordings, load_texts, mean_seconds
from voice_client.bench.plan import CHARACTERS_PER_SECOND, BenchPlan
from voice_client.bench.sample import Sample


@dataclass(slots=True)
class Measured:
    """What is known so far; a run that is broken off leaves here what it had."""

    plan: BenchPlan
    material: list[dict[str, Any]]
    """Recordings (name, seconds, words) or texts (characters), without their words."""
    mean_seconds: float
    """Mean length of an utterance: measured for recordings, estimated for texts."""
    started: datetime = field(default_factory=lambda: datetime.now(UTC))
    endpoints: list[dict[str, Any]] = field(default_factory=list)
    steps: list[StepMeasured] = field(default_factory=list)


class Watching(Protocol):
    """Is told how a run goes on."""

    def note(self, line: str) -> None:
        """Something begins that has to be waited for."""
        ...

    def starting(self, step: StepMeasured, number: int, of: int) -> None:
        """A step begins."""
        ...

    def sample(self, sample: Sample) -> None:
        """An utterance is over."""
        ...

    def finished(self, step: StepMeasured) -> None:
        """A step is over."""
        ...


def prepared(plan: BenchPlan) -> Measured:
    """Read the material, so that what is wrong with it is known before anything is started.

    Raises:
        BadInputError: it cannot be used.
    """
    if plan.kind == "tts":
        texts = load_texts(Path(plan.texts) if plan.texts else None)
        lengths = [len(text) for text in texts]
        material = [{"name": f"text {number + 1}", "characters": length} for number, length in enumerate(lengths)]
        return Measured(plan, material, sum(lengths) / len(lengths) / CHARACTERS_PER_SECOND)
    recordings = load_recordings(Path(plan.recordings) if plan.recordings else None)
    return Measured(
        plan,
        [
            {"name": recording.name, "seconds": round(recording.seconds, 3), "words": len(recording.text.split())}
            for recording in recordings
        ],
        mean_seconds(recordings) * (2 if plan.kind == "talk" else 1),  # the answer is about as long as the turn
    )


async def measure(measured: Measured, environment: Mapping[str, str] | None, watching: Watching) -> None:
    """Run all steps, each into `measured` as it goes.

    Args:
        measured: the plan, and what takes the results.
        environment: what leads to the endpoint; None is this process's own.
        watching: is told how it goes on.

    Raises:
        VoiceError: the endpoint cannot be used, or a process failed.
    """
    plan = measured.plan
    processes = max(plan.processes_for(streams) for streams in plan.concurrency)
    variables = os.environ if environment is None else environment
    async with fleet(plan, variables, processes=processes, on_note=watching.note) as ready:
        measured.endpoints = ready.endpoints
        for number, streams in enumerate(plan.concurrency):
            rate = streams / measured.mean_seconds if plan.arrivals == "open" else None
            step = StepMeasured(streams, rate, plan.processes_for(streams))
            measured.steps.append(step)
            watching.starting(step, number, len(plan.concurrency))
            await ready.run(step, watching.sample)
            watching.finished(step)
