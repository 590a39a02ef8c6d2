"""Fixtures of the bridge's tests."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bridge.staging import Stage


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    """Real processes, ended after the test."""
    it = Stage(tmp_path)
    try:
        yield it
    finally:
        it.close()
