"""The rules of the house that a slip would break silently."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

FORBIDDEN_IMPORTS = {
    "client/voice_client": {"voice_local", "voice_constructs", "voxtral_bridge", "stacks", "aws_cdk", "moto", "piper"},
    "local/voice_local": {"voice_client", "voice_constructs", "voxtral_bridge", "stacks", "aws_cdk"},
    "container_assets/voxtral_bridge": {"voice_client", "voice_local", "voice_constructs", "stacks", "aws_cdk"},
    "ops/voice_ops": {"voice_client", "voice_local", "voxtral_bridge", "aws_cdk", "moto"},
    "constructs/voice_constructs": {"voice_client", "voice_local", "voxtral_bridge", "stacks", "app"},
}
"""What the modules of a folder may not import: docs/architecture.md, "Who may know whom"."""


def imported_packages(module: Path) -> set[str]:
    packages: set[str] = set()
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            packages.update(name.name.split(".")[0] for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            packages.add(node.module.split(".")[0])
    return packages


@pytest.mark.parametrize("folder", sorted(FORBIDDEN_IMPORTS))
def test_nobody_imports_what_it_may_not_know(folder: str) -> None:
    modules = sorted((ROOT / folder).rglob("*.py"))
    assert modules, folder

    trespasses = {
        str(module.relative_to(ROOT)): sorted(imported_packages(module) & FORBIDDEN_IMPORTS[folder])
        for module in modules
        if imported_packages(module) & FORBIDDEN_IMPORTS[folder]
    }

    assert trespasses == {}


def test_only_gpl_marked_modules_import_the_gpl_engine() -> None:
    for module in (ROOT / "local").rglob("*.py"):
        if "piper" in imported_packages(module):
            assert "SPDX-License-Identifier: GPL-3.0-or-later" in module.read_text(encoding="utf-8"), module


def test_constructs_stays_a_source_root_and_the_registry_package_is_found() -> None:
    assert not (ROOT / "constructs" / "__init__.py").exists()
    found = subprocess.run(
        [sys.executable, "-c", "import constructs, voice_constructs; print(constructs.Construct.__name__)"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert found.stdout.strip() == "Construct"


@pytest.mark.parametrize("lock", ["requirements/bootstrap.txt", "requirements/dev.txt", "package-lock.json"])
def test_lock_files_hold_hashes_and_name_no_host(lock: str) -> None:
    text = (ROOT / lock).read_text(encoding="utf-8")

    assert "://" not in text
    assert ("--hash=sha256:" if lock.endswith(".txt") else '"integrity"') in text
    if lock.endswith(".txt"):
        pinned = re.findall(r"^[a-z0-9][a-z0-9._-]*(?:\[[a-z,]+\])?==\S+.*$", text, re.MULTILINE)
        assert pinned
        assert all(line.rstrip().endswith("\\") for line in pinned), "a requirement without hashes"


def test_the_client_imports_without_cdk_moto_or_an_engine() -> None:
    program = (
        "import sys, voice_client, voice_client.cli\n"
        "heavy = {'aws_cdk', 'moto', 'voice_local', 'faster_whisper', 'ctranslate2', 'piper'} & set(sys.modules)\n"
        "print(sorted(heavy))"
    )
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True, cwd=ROOT
    )
    assert found.stdout.strip() == "[]"
