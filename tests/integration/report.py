"""What a run of the suite measured: `report.json`, whose schema is fixed, and `report.md` for people.

Two runs can be compared by their figures: each has a name, a unit and every value. A change of a field's name or
meaning is a new `schema_version`; `report.schema.json` beside this module is the schema, and a test compares the two.
"""

import math
import os
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Unit = Literal["ms", "ratio", "s", "dBFS", "count"]

RunOutcome = Literal["passed", "failed", "interrupted"]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Figure(_Part):
    """Everything measured under one name, in the order it was measured."""

    unit: Unit = Field(description="ms: milliseconds; ratio: such as a real-time factor or an error rate; s: seconds")
    values: list[float] = Field(min_length=1)
    count: int = Field(ge=1)
    p50: float = Field(description="the smallest value that half of the values do not exceed (nearest rank)")
    p95: float = Field(description="the smallest value that 95 % of the values do not exceed (nearest rank)")
    least: float
    most: float

    @classmethod
    def of(cls, unit: Unit, values: Sequence[float]) -> "Figure":
        """Sum values up; at least one."""
        rounded = [round(value, 4) for value in values]
        ordered = sorted(rounded)
        return cls(
            unit=unit,
            values=rounded,
            count=len(rounded),
            p50=_nearest_rank(ordered, 0.50),
            p95=_nearest_rank(ordered, 0.95),
            least=ordered[0],
            most=ordered[-1],
        )


def _nearest_rank(ordered: Sequence[float], share: float) -> float:
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


class EndpointFacts(_Part):
    """What one endpoint ran on."""

    name: str
    config: str | None = Field(description="the endpoint configuration that served")
    model: str | None = Field(description="the model's id, as the stage published it")
    image: str | None = Field(description="the serving image, with its digest where SageMaker tells it")
    inference_ami: str | None
    instance_type: str | None = Field(description="of the instance that really serves; null when SageMaker did not say")
    instance_types: list[str] = Field(description="the pool's types, the first choice first")


class TestOutcome(_Part):
    """One test."""

    name: str
    outcome: Literal["passed", "failed", "skipped"]
    seconds: float
    message: str | None = Field(default=None, description="why it failed or was skipped, its first lines")


class Versions(_Part):
    """What was tested, and with what."""

    commit: str | None = Field(description="of this repository; ends in +changes when files differ from it")
    python: str
    packages: dict[str, str] = Field(description="installed release by package: the client, its SDK and transport")


class IntegrationReport(_Part):
    """One run of the integration suite."""

    schema_version: Literal[1] = 1
    date: datetime = Field(description="when it began, UTC")
    target: Literal["local", "aws"]
    stage: str
    region: str | None
    endpoint_url: str | None = Field(description="where AWS's APIs were led to instead of AWS; null on AWS itself")
    outcome: RunOutcome = Field(description="interrupted: ended by Ctrl-C before all tests were run")
    seconds: Annotated[float, Field(ge=0)]
    slow: bool = Field(description="whether the slow tests were run too")
    versions: Versions
    endpoints: dict[str, EndpointFacts] = Field(description="by service: stt, tts")
    figures: dict[str, Figure] = Field(description="by name, such as stt.finalization")
    tests: list[TestOutcome]

    def write(self, folder: Path) -> None:
        """Write `report.json` and `report.md`, each whole or not at all."""
        _write_whole(folder / "report.json", self.model_dump_json(indent=2) + "\n")
        _write_whole(folder / "report.md", "\n".join(self.markdown()) + "\n")

    def markdown(self) -> Iterator[str]:
        """Yield the lines of the summary."""
        where = "the local cloud" if self.target == "local" else f"AWS, {self.region}"
        if self.target == "aws" and self.endpoint_url:
            where = f"{self.endpoint_url}, which stands in for AWS"
        count = {kind: sum(test.outcome == kind for test in self.tests) for kind in ("passed", "failed", "skipped")}
        yield f"# Integration of stage {self.stage} on {where}: {self.outcome}"
        yield ""
        yield (
            f"{self.date:%Y-%m-%d %H:%M} UTC, {self.seconds:.0f} s: {count['passed']} passed, "
            f"{count['failed']} failed, {count['skipped']} skipped; slow tests "
            f"{'included' if self.slow else 'left out'}."
        )
        if self.outcome == "interrupted":
            yield "Ended by Ctrl-C: what is not counted was not run."
        yield from self._failures()
        yield from self._figure_table()
        yield from self._endpoint_table()
        yield from self._versions()

    def _failures(self) -> Iterator[str]:
        for test in self.tests:
            if test.outcome != "passed":
                yield ""
                yield f"- **{test.outcome}** {test.name}: {(test.message or 'no reason given').splitlines()[0]}"

    def _figure_table(self) -> Iterator[str]:
        if self.figures:
            yield ""
            yield "| measured | unit | count | p50 | p95 | least | most |"
            yield "|---|---|--:|--:|--:|--:|--:|"
        for name, figure in sorted(self.figures.items()):
            numbers = (_number(value, figure.unit) for value in (figure.p50, figure.p95, figure.least, figure.most))
            yield f"| {name} | {figure.unit} | {figure.count} | {' | '.join(numbers)} |"

    def _endpoint_table(self) -> Iterator[str]:
        if self.endpoints:
            yield ""
            yield "| endpoint | model | instance | inference AMI | image |"
            yield "|---|---|---|---|---|"
        for facts in self.endpoints.values():
            instance = facts.instance_type or f"one of {', '.join(facts.instance_types)}"
            yield f"| {facts.name} | {facts.model} | {instance} | {facts.inference_ami} | {facts.image} |"

    def _versions(self) -> Iterator[str]:
        versions = self.versions
        yield ""
        packages = ", ".join(f"{name} {release}" for name, release in versions.packages.items())
        yield f"Commit {versions.commit or 'unknown'}, Python {versions.python}, {packages}."
        if self.target == "local":
            yield ""
            yield "The local cloud speaks and hears with small CPU models: no figure here is the real models'."


def _number(value: float, unit: Unit) -> str:
    return f"{value:.0f}" if unit in {"ms", "count"} else f"{value:.3f}" if unit == "ratio" else f"{value:.1f}"


def _write_whole(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_text(text, encoding="utf-8")
    draft.replace(path)
