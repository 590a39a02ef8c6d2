"""One local cloud with both voices deployed by the real CDK CLI, shared by the end-to-end tests."""

import json
import os
import selectors
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
VOICE = Path(sys.executable).parent / "voice"
RECORDINGS = ROOT / "tests" / "recordings"

DEPLOY_SECONDS = 240
COMMAND_SECONDS = 90


@dataclass(frozen=True)
class DeployedCloud:
    """A running local cloud, and a way to run `voice` against it as a user would: with the SDKs' own variables."""

    description: dict[str, Any]
    process: subprocess.Popen[str]
    log: Path
    run_dir: Path
    home: Path = field(repr=False)

    def environment(self, **changes: str) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "TERM") if name in os.environ}
        return {
            **kept,
            "HOME": str(self.home),
            "AWS_ENDPOINT_URL": self.description["control_plane"],
            "AWS_ENDPOINT_URL_SAGEMAKER_RUNTIME_HTTP2": self.description["data_plane"],
            "SSL_CERT_FILE": self.description["ca_bundle"],
            "AWS_REGION": self.description["region"],
            "AWS_ACCESS_KEY_ID": self.description["access_key"],
            "AWS_SECRET_ACCESS_KEY": self.description["secret_key"],
            "AWS_EC2_METADATA_DISABLED": "true",
            **changes,
        }

    def voice(self, *arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [VOICE, *arguments],
            env=self.environment(**environment),
            cwd=self.home,
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS,
            check=False,
        )

    def containers(self, name: str) -> list[int]:
        """Process ids of the running containers' processes whose command line holds `name`."""
        import psutil

        descendants = psutil.Process(self.process.pid).children(recursive=True)
        return [child.pid for child in descendants if any(name in part for part in child.cmdline())]


def first_line(process: subprocess.Popen[str], seconds: float) -> str:
    assert process.stdout is not None
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        if not selector.select(timeout=seconds):
            return ""
    return process.stdout.readline()


@pytest.fixture(scope="session")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DeployedCloud]:
    folder = tmp_path_factory.mktemp("cloud")
    home = tmp_path_factory.mktemp("home")
    log = folder / "cloud.log"
    run_dir = folder / "run"
    with log.open("wb") as stderr:
        process = subprocess.Popen(
            [VOICE, "local", "up", "--deploy", "--data-port", "0", "--run-dir", run_dir],
            cwd=ROOT,
            env={**os.environ, "HOME": str(home), "XDG_STATE_HOME": str(home / "state")},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        )
    try:
        line = first_line(process, DEPLOY_SECONDS)
        assert line, f"no line within {DEPLOY_SECONDS} s:\n{log.read_text()[-4000:]}"
        yield DeployedCloud(json.loads(line), process, log, run_dir, home)
    finally:
        process.terminate()
        code = process.wait(30)
        assert process.stdout is not None
        process.stdout.close()
    assert code == 0, log.read_text()[-4000:]
