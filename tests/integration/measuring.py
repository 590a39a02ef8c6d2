"""Gathers figures and outcomes while the suite runs, and makes the report of them."""

import importlib.metadata
import platform
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from tests.integration.report import EndpointFacts, Figure, IntegrationReport, RunOutcome, TestOutcome, Unit, Versions
from voice_client.session import HearingMetrics

PACKAGES = ("sagemaker-voice", "aws-sdk-sagemaker-runtime-http2", "smithy-core", "smithy-http", "h2", "awscrt", "boto3")
"""What a figure may depend on, as far as it is installed."""

GIT_SECONDS = 10.0
"""`git` on a cold disk; it answers in hundredths of a second otherwise."""

MESSAGE_CHARACTERS = 600
"""Of a failure's message in the report; the JUnit file has all of it."""


@dataclass
class Measuring:
    """One run of the suite."""

    target: Literal["local", "aws"]
    stage: str
    slow: bool
    folder: Path
    """Where the run's files go."""
    began: datetime = field(default_factory=lambda: datetime.now(UTC))
    region: str | None = None
    endpoint_url: str | None = None
    endpoints: dict[str, EndpointFacts] = field(default_factory=dict)
    tests: dict[str, TestOutcome] = field(default_factory=dict)
    _figures: dict[str, tuple[Unit, list[float]]] = field(default_factory=dict)
    _clock: float = field(default_factory=time.monotonic)

    def add(self, name: str, unit: Unit, value: float | None) -> None:
        """Note one value of a figure; None, for what did not happen, is not a value."""
        if value is not None:
            self._figures.setdefault(name, (unit, []))[1].append(value)

    def heard(self, metrics: HearingMetrics, *, paced: bool, name: str = "stt") -> None:
        """Note what one utterance heard took. How long an unpaced one took says nothing about live speech."""
        self.add(f"{name}.connect", "ms", metrics.connect_ms)
        if paced:
            self.add(f"{name}.first_partial", "ms", metrics.first_partial_ms)
            self.add(f"{name}.finalization", "ms", metrics.finalization_ms)
        self.add(f"{name}.rtf.{'paced' if paced else 'unpaced'}", "ratio", metrics.rtf)

    def spoke(self, metrics: Any, *, name: str = "tts") -> None:
        """Note what one utterance spoken took; `metrics` of a `voice_client` speech."""
        self.add(f"{name}.connect", "ms", metrics.connect_ms)
        self.add(f"{name}.ttfa", "ms", metrics.ttfa_ms)
        self.add(f"{name}.rtf", "ratio", metrics.rtf)

    def outcome(self, name: str, kind: Literal["passed", "failed", "skipped"], seconds: float, message: str) -> None:
        """Note how a phase of a test ended; a failure of any of its phases stays."""
        before = self.tests.get(name)
        if before is not None and before.outcome == "failed":
            before.seconds = round(before.seconds + seconds, 3)
            return
        total = seconds + (before.seconds if before is not None else 0.0)
        short = message.strip()[:MESSAGE_CHARACTERS] or None
        self.tests[name] = TestOutcome(name=name, outcome=kind, seconds=round(total, 3), message=short)

    def figures(self) -> dict[str, Figure]:
        """Return what was measured so far, by name."""
        return {name: Figure.of(unit, values) for name, (unit, values) in self._figures.items()}

    def report(self, outcome: RunOutcome) -> IntegrationReport:
        """Return the report of what was noted so far."""
        return IntegrationReport(
            date=self.began,
            target=self.target,
            stage=self.stage,
            region=self.region,
            endpoint_url=self.endpoint_url,
            outcome=outcome,
            seconds=round(time.monotonic() - self._clock, 1),
            slow=self.slow,
            versions=versions(),
            endpoints=self.endpoints,
            figures=self.figures(),
            tests=list(self.tests.values()),
        )


def versions() -> Versions:
    """Return what is installed here and which commit this is."""
    packages = {}
    for name in PACKAGES:
        with suppress(importlib.metadata.PackageNotFoundError):
            packages[name] = importlib.metadata.version(name)
    return Versions(commit=_commit(), python=platform.python_version(), packages=packages)


def _commit() -> str | None:
    commit = _git("rev-parse", "HEAD")
    if commit is None:
        return None
    return commit if _git("status", "--porcelain", "--untracked-files=no") == "" else f"{commit}+changes"


def _git(*arguments: str) -> str | None:
    """Return what git says of this folder, None where it is no repository or git is not there."""
    try:
        done = subprocess.run(
            ["git", *arguments],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            timeout=GIT_SECONDS,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
