"""Fixtures of the bridge's tests."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bridge.staging import Process, Stage, Vllm


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    """Real processes, ended after the test."""
    it = Stage(tmp_path)
    try:
        yield it
    finally:
        it.close()


@pytest.fixture(scope="module")
def _shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Vllm, Process]]:
    it = Stage(tmp_path_factory.mktemp("shared"))
    try:
        yield it.vllm(), it.bridge()
    finally:
        it.close()


@pytest.fixture
def running(_shared: tuple[Vllm, Process]) -> tuple[Vllm, Process]:
    """A scripted vLLM and a bridge with default settings, shared by tests that do them no harm; fresh logs."""
    for process in _shared:
        process.forget()
    return _shared
