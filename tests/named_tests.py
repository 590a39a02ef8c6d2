"""Tests that a table names, `client/session/test_x.py::test_y` from the folder of the tests: whether they are there."""

import ast
from collections.abc import Iterable
from functools import cache
from pathlib import Path

TESTS = Path(__file__).parent


def astray(named: Iterable[str]) -> list[str]:
    """Return those that do not exist."""
    return [test for test in named if test.partition("::")[2] not in _tests_of(TESTS / test.partition("::")[0])]


@cache
def _tests_of(file: Path) -> set[str]:
    if not file.is_file():
        return set()
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
