"""The demo interrupted while it deploys and while it speaks: it cleans up after itself at any moment."""

import signal
from pathlib import Path

import pytest

from tests.e2e.demo_run import interrupt

pytestmark = [pytest.mark.soak, pytest.mark.timeout(200)]


@pytest.mark.parametrize(("moment", "number"), [(14.0, signal.SIGINT), (25.0, signal.SIGTERM)])
def test_an_interrupted_demo_leaves_no_process(tmp_path: Path, moment: float, number: signal.Signals) -> None:
    interrupt(tmp_path / "build", after=moment, number=number)
