"""Runs `voice bench` against endpoints of which every delay, fault and wrong word is known."""

import json
import os
import select
import subprocess
import sys
import wave
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.client.cli.conftest import VoiceHere

HERE = Path(__file__).parent
VOICE = Path(sys.executable).parent / "voice"
READY_SECONDS = 60
RUN_SECONDS = 180
"""Outer limit of one run, which takes a tenth of it: only a hang reaches it."""

TEXTS = {0.8: "one two three four five six", 1.0: "seven eight nine ten", 1.2: "the quick brown fox jumps over it"}
"""What is said in recordings of so many seconds."""


@dataclass
class StandIn:
    """Endpoints that run, and what they did."""

    url: str
    environment: dict[str, str]
    options: tuple[str, ...]
    log: Path

    def injected(self, name: str) -> list[float]:
        """Return what was waited for of one kind of delay, in seconds, or one entry for each fault of a kind."""
        entries = [json.loads(line) for line in self.log.read_text().splitlines()]
        return [entry[name] for entry in entries if name in entry]


@pytest.fixture
def stand_in(tmp_path: Path) -> Iterator[Callable[..., StandIn]]:
    """Start an ear and a voice that behave as told; see `stand_in_process.Behaviour`."""
    processes: list[subprocess.Popen[str]] = []

    def start(**behaviour: Any) -> StandIn:
        folder = tmp_path / f"stand-in-{len(processes)}"
        folder.mkdir()
        texts = {str(int(seconds * 32_000)): text for seconds, text in TEXTS.items()}
        arguments = ["--folder", str(folder), "--behaviour", json.dumps({"texts": texts} | behaviour)]
        with (folder / "log").open("w") as log:
            process = subprocess.Popen(
                [sys.executable, str(HERE / "stand_in_process.py"), *arguments],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        processes.append(process)
        assert process.stdout is not None
        ready, _, _ = select.select([process.stdout], [], [], READY_SECONDS)
        line = process.stdout.readline() if ready else ""
        assert line, (folder / "log").read_text()
        said = json.loads(line)
        return StandIn(
            url=said["url"],
            environment={
                "AWS_ACCESS_KEY_ID": said["access_key"],
                "AWS_SECRET_ACCESS_KEY": said["secret_key"],
                "AWS_REGION": said["region"],
            },
            options=("--endpoint-url", said["url"], "--ca-bundle", said["ca_bundle"]),
            log=folder / "injected.jsonl",
        )

    yield start
    for process in processes:
        process.terminate()
    for process in processes:
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@pytest.fixture(scope="session")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of recordings with texts: noise, which the stand-in tells apart by its length."""
    folder = tmp_path_factory.mktemp("recordings")
    noise = np.random.default_rng(7).integers(-9000, 9000, 32_000).astype("<i2")
    for seconds, text in TEXTS.items():
        with wave.open(str(folder / f"clip-{seconds}.wav"), "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(2)
            file.setframerate(16_000)
            file.writeframes(noise[: int(seconds * 16_000)].tobytes())
        (folder / f"clip-{seconds}.txt").write_text(text + "\n")
    return folder


@dataclass
class Bench:
    """Runs `voice bench` with an environment in which nothing leads to AWS."""

    home: Path

    def start(self, *arguments: str | Path, **environment: str) -> subprocess.Popen[str]:
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "PYTHONPATH") if name in os.environ}
        variables = {
            **kept,
            "HOME": str(self.home),
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
            **environment,
        }
        return subprocess.Popen(
            [VOICE, "bench", *map(str, arguments)],
            env=variables,
            cwd=self.home,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def __call__(
        self, *arguments: str | Path, expect: int = 0, environment: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        process = self.start(*arguments, **(environment or {}))
        try:
            output, errors = process.communicate(timeout=RUN_SECONDS)
        finally:
            process.kill()
        assert process.returncode == expect, (output[-3000:], errors[-3000:])
        return subprocess.CompletedProcess(process.args, process.returncode, output, errors)

    def measure(self, kind: str, target: StandIn, *arguments: str | Path) -> dict[str, Any]:
        """Run a bench and return its report."""
        names = {"stt": ("--endpoint", "ear"), "tts": ("--endpoint", "voice")}.get(
            kind, ("--endpoint", "ear", "--speaking-endpoint", "voice")
        )
        done = self(kind, *names, *target.options, "--json", *arguments, environment=target.environment)
        report: dict[str, Any] = json.loads(done.stdout)
        return report


@pytest.fixture
def voice_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> VoiceHere:
    """The `voice` command in this process, in a home folder of its own."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.chdir(home)
    return VoiceHere(home)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """The command, with a home folder of its own."""
    home = tmp_path / "home"
    home.mkdir()
    return Bench(home)
