"""Set-up finds a working Python and Node wherever a developer has one, and says in one sentence what is missing."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SETUP = Path(__file__).parents[2] / "scripts" / "setup"
SYSTEM_TOOLS = ("bash", "dirname", "awk", "cat", "cksum", "mkdir", "tail", "rm")
WORKING_PYTHON = f'#!/bin/sh\nexec "{sys.executable}" "$@"\n'
INACTIVE_SHIM = "#!/bin/sh\necho 'pyenv: command not found: not active' >&2\nexit 127\n"
OLD_PYTHON = "#!/bin/sh\nexit 1\n"


def executable(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A bin folder with nothing of a developer's in it but the shell's own tools."""
    bin_dir = tmp_path / "bin"
    bin_dir.mkdir()
    for tool in SYSTEM_TOOLS:
        found = shutil.which(tool)
        assert found, tool
        (bin_dir / tool).symlink_to(found)
    return bin_dir


def run_setup(machine: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    home = machine.parent / "home"
    home.mkdir(exist_ok=True)
    return subprocess.run(
        [SETUP, *arguments],
        env={"PATH": os.pathsep.join([str(machine)]), "HOME": str(home), **variables},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_shim_that_fails_is_passed_over_for_an_inactive_pyenv_version(machine: Path) -> None:
    pyenv = machine.parent / "pyenv"
    for name in ("python3", "python3.12", "python3.13", "python3.14"):
        executable(machine / name, INACTIVE_SHIM)
    wanted = executable(pyenv / "versions" / "3.12.9" / "bin" / "python3", WORKING_PYTHON)
    executable(pyenv / "versions" / "3.13.1" / "bin" / "python3", INACTIVE_SHIM)

    found = run_setup(machine, "--which-python", PYENV_ROOT=str(pyenv))

    assert (found.returncode, found.stdout.strip()) == (0, str(wanted)), found.stderr


def test_pyenv_is_found_through_its_shims_folder_on_the_path(machine: Path) -> None:
    pyenv = machine.parent / "elsewhere" / "pyenv"
    executable(pyenv / "shims" / "python3", INACTIVE_SHIM)
    wanted = executable(pyenv / "versions" / "3.13.2" / "bin" / "python3", WORKING_PYTHON)

    found = run_setup(machine, "--which-python", PATH=f"{pyenv / 'shims'}:{machine}")

    assert (found.returncode, found.stdout.strip()) == (0, str(wanted)), found.stderr


def test_a_pythonx_y_beside_an_old_python3_is_used(machine: Path) -> None:
    executable(machine / "python3", OLD_PYTHON)
    executable(machine / "python3.12", WORKING_PYTHON)

    found = run_setup(machine, "--which-python")

    assert (found.returncode, found.stdout.strip()) == (0, "python3.12"), found.stderr


def test_the_projects_own_environment_is_not_taken_for_a_python_to_make_it_from(machine: Path) -> None:
    executable(machine / "python3.12", WORKING_PYTHON)

    found = run_setup(machine, "--which-python", PATH=f"{SETUP.parents[1] / '.venv' / 'bin'}:{machine}")

    assert (found.returncode, found.stdout.strip()) == (0, "python3.12"), found.stderr


def test_a_python_that_only_uv_knows_is_used(machine: Path) -> None:
    wanted = executable(machine.parent / "managed" / "python3", WORKING_PYTHON)
    executable(machine / "uv", f"#!/bin/sh\necho '{wanted}'\n")

    found = run_setup(machine, "--which-python")

    assert (found.returncode, found.stdout.strip()) == (0, str(wanted)), found.stderr


def test_no_python_is_one_sentence_that_says_what_to_install(machine: Path) -> None:
    executable(machine / "python3", OLD_PYTHON)

    found = run_setup(machine, "--which-python")

    assert found.returncode == 1
    assert found.stderr.count("\n") == 1
    assert "no working Python 3.12, 3.13 or 3.14 found: install one" in found.stderr


@pytest.mark.parametrize(("version", "reason"), [("v18.20.0", "this is 18.20.0"), (None, "none was found")])
def test_a_missing_or_old_node_is_one_sentence_that_says_what_to_install(
    machine: Path, version: str | None, reason: str
) -> None:
    executable(machine / "python3", WORKING_PYTHON)
    if version:
        executable(machine / "node", f"#!/bin/sh\necho {version}\n")

    found = run_setup(machine)

    assert found.returncode == 1
    assert found.stderr.count("\n") == 1
    assert "Node.js 20 or newer" in found.stderr
    assert reason in found.stderr


def test_an_unknown_option_is_refused(machine: Path) -> None:
    found = run_setup(machine, "--frobnicate")

    assert found.returncode == 1
    assert "--frobnicate" in found.stderr
