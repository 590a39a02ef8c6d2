"""A local cloud in a process of its own, with both voices deployed by the real CDK CLI."""

import os
import selectors
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

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
        descendants = psutil.Process(self.process.pid).children(recursive=True)
        return [child.pid for child in descendants if any(name in part for part in child.cmdline())]


def first_line(process: subprocess.Popen[str], seconds: float) -> str:
    assert process.stdout is not None
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        if not selector.select(timeout=seconds):
            return ""
    return process.stdout.readline()
