"""One local cloud, shared by the end-to-end tests."""

import json
import os
import subprocess
from collections.abc import Iterator

import pytest

from tests.e2e.deployed_cloud import DEPLOY_SECONDS, ROOT, VOICE, DeployedCloud, first_line


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
