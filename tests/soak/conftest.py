"""What the long tests share."""

from pathlib import Path

import pytest

SECONDS = 600
"""A test that takes longer hangs. The limit ends the whole process, so it leaves room for a slow or a busy machine."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent) and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(SECONDS))
