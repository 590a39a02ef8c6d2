"""A shell as a user has it after `voice local up &` and `eval "$(voice local env)"`: nothing is deployed yet."""

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.e2e.deployed_cloud import ROOT, VOICE, end, first_line

READY_SECONDS = 180
COMMAND_SECONDS = 400
"""A deploy takes 20 s on an idle machine, with its proof 40 s, and several times that on a busy one."""


@dataclass(frozen=True)
class UserShell:
    """Runs commands against an empty local cloud."""

    environment: dict[str, str]
    description: dict[str, Any]
    """What `voice local up` printed."""

    def start(self, *command: str | Path) -> subprocess.Popen[str]:
        """Start a command of the project in a session of its own; its stdout and stderr come together."""
        line = 'eval "$("$0" local env)" && exec "$@"'
        return subprocess.Popen(
            ["bash", "-c", line, VOICE, *command],
            cwd=ROOT,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run(self, *command: str | Path, expect: int = 0) -> subprocess.CompletedProcess[str]:
        """Run a command of the project and look at its exit code; stdout and stderr are kept apart."""
        line = 'eval "$("$0" local env)" && exec "$@"'
        done = subprocess.run(
            ["bash", "-c", line, VOICE, *command],
            cwd=ROOT,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS,
            check=False,
        )
        assert done.returncode == expect, done.stderr[-4000:] + done.stdout[-2000:]
        return done


@contextmanager
def user_shell(folder: Path) -> Iterator[UserShell]:
    """Run a local cloud as long as the block runs; everything of it lies in `folder`, the home folder too."""
    home, log = folder / "home", folder / "cloud.log"
    home.mkdir()
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "CDK_"))},
        "HOME": str(home),
        "XDG_STATE_HOME": str(home / "state"),
        "CDK_HOME": str(folder / "cdk-home"),
        "NODE_NO_WARNINGS": "1",
    }
    with log.open("wb") as stderr:
        process = subprocess.Popen(
            [VOICE, "local", "up", "--data-port", "0", "--run-dir", folder / "run"],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        )
    try:
        line = first_line(process, READY_SECONDS)
        assert line, log.read_text()[-4000:]
        yield UserShell(environment, json.loads(line))
    finally:
        end(process)
