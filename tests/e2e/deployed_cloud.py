"""A local cloud in a process of its own, with both voices deployed by the real CDK CLI."""

import json
import os
import selectors
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).parents[2]
VOICE = Path(sys.executable).parent / "voice"
RECORDINGS = ROOT / "tests" / "recordings"

DEPLOY_SECONDS = 240
"""Start, synth, bootstrap and deploy: 40 s on two idle cores."""
COMMAND_SECONDS = 90
"""One `voice` command about a few seconds of audio."""
STOP_SECONDS = 30
"""An orderly end, containers included."""


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
        descendants = psutil.Process(self.process.pid).children(recursive=True)
        return [child.pid for child in descendants if any(name in part for part in child.cmdline())]


@contextmanager
def deployed_cloud(
    folder: Path, *, stage: str = "dev", home: Path | None = None, keep: bool = False
) -> Iterator[DeployedCloud]:
    """Run a local cloud with a stage deployed to it, as long as the block runs.

    Args:
        folder: holds its log and its run folder.
        stage: the stage of this project to deploy.
        home: a home folder of its own, so that it is no part of the user's; None leaves it the user's, who then finds
            it with `voice local status`.
        keep: leave it running after the block, as the user's own. Otherwise it ends with this process, however that
            ends, but not by the same Ctrl-C: whoever runs the block may need it to clean up.

    Raises:
        AssertionError: it did not come up, or did not end in order; with the end of its log.
    """
    log = folder / "cloud.log"
    run_dir = folder / "run"
    bound = [] if keep else ["--until-stdin-closes"]
    apart = {} if home is None else {"HOME": str(home), "XDG_STATE_HOME": str(home / "state")}
    with log.open("wb") as stderr:
        process = subprocess.Popen(
            [VOICE, "local", "up", "--deploy", "--stage", stage, "--data-port", "0", "--run-dir", run_dir, *bound],
            cwd=ROOT,
            env={**os.environ, **apart},
            stdin=subprocess.DEVNULL if keep else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            start_new_session=True,
        )
    code = None
    try:
        line = first_line(process, DEPLOY_SECONDS)
        assert line, f"{_why_silent(process)}:\n{log.read_text()[-4000:]}"
        yield DeployedCloud(json.loads(line), process, log, run_dir, home or Path.home())
    except BaseException:
        keep = False
        raise
    finally:
        if not keep:
            code = end(process)
    assert keep or code == 0, log.read_text()[-4000:]


def _why_silent(process: subprocess.Popen[str]) -> str:
    try:
        code = process.wait(1)  # its output ended because it did
    except subprocess.TimeoutExpired:
        return f"the local cloud was not ready within {DEPLOY_SECONDS} s"
    return f"the local cloud ended with exit code {code} before it was ready"


def end(process: subprocess.Popen[str]) -> int:
    """Ask a cloud to end, kill it when it does not; return its exit code."""
    process.terminate()
    try:
        code = process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        code = process.wait(STOP_SECONDS)
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()
    return code


def first_line(process: subprocess.Popen[str], seconds: float) -> str:
    assert process.stdout is not None
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        if not selector.select(timeout=seconds):
            return ""
    return process.stdout.readline()
