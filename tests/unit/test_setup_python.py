"""Set-up finds a Python wherever a developer keeps one: every place, beside shims and versions that do not suit."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SETUP = Path(__file__).parents[2] / "scripts" / "setup"
SHELL_TOOLS = ("bash", "dirname", "awk", "cat", "cksum", "mkdir", "tail", "rm")

INACTIVE_SHIM = """#!/bin/sh
cat >/dev/null  # a shim may read what it is given: it must not eat the list of the other candidates
echo 'pyenv: python3: command not found' >&2
exit 127
"""


def interpreter(path: Path, version: tuple[int, int] = (3, 13), *, threaded: bool = False, venv: bool = True) -> Path:
    """Put a small interpreter there: this one, which says that it is of that version and build."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        f"#!{sys.executable}\n"
        "import sys, sysconfig\n"
        f"sys.version_info = {(*version, 1)!r}\n"
        "of_this_one = sysconfig.get_config_var\n"
        f"sysconfig.get_config_var = lambda name: {threaded} if name == 'Py_GIL_DISABLED' else of_this_one(name)\n"
        f"sys.modules['venv'] = sys if {venv} else None\n"
        "assert sys.argv[1] == '-c', sys.argv\n"
        "exec(sys.argv[2])\n"
    )
    path.chmod(0o755)
    return path


class Developer:
    """A home and a PATH with nothing in them but what a test puts there."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.bin = folder / "bin"
        self.home.mkdir()
        self.bin.mkdir()
        for tool in SHELL_TOOLS:
            found = shutil.which(tool)
            assert found, tool
            (self.bin / tool).symlink_to(found)

    def script(self, path: Path, text: str) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
        return path

    def which_python(self, **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [SETUP, "--which-python"],
            env={"PATH": str(self.bin), "HOME": str(self.home), **variables},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )


@pytest.fixture
def developer(tmp_path: Path) -> Developer:
    return Developer(tmp_path)


@pytest.mark.parametrize(
    ("place", "variables"),
    [
        (str(Path("home", ".pyenv", "versions", "3.12.9")), {}),
        ("elsewhere/pyenv/versions/3.14.0", {"PYENV_ROOT": "elsewhere/pyenv"}),
        ("home/.asdf/installs/python/3.13.1", {}),
        ("tools/asdf/installs/python/3.12.4", {"ASDF_DATA_DIR": "tools/asdf"}),
        ("home/.local/share/mise/installs/python/3.13", {}),
        ("data/mise/installs/python/3.12.8", {"XDG_DATA_HOME": "data"}),
        ("home/.local/share/uv/python/cpython-3.12.11-linux-x86_64-gnu", {}),
        ("managed/cpython-3.14.0-macos-aarch64-none", {"UV_PYTHON_INSTALL_DIR": "managed"}),
        ("home/miniforge3", {}),
        ("home/miniconda3", {}),
    ],
)
def test_a_python_that_no_command_leads_to_is_found(
    developer: Developer, place: str, variables: dict[str, str]
) -> None:
    root = developer.home.parent
    wanted = interpreter(root / place / "bin" / "python3")
    for name in ("python3", "python3.12", "python3.13", "python"):
        developer.script(developer.bin / name, INACTIVE_SHIM)

    found = developer.which_python(**{name: str(root / value) for name, value in variables.items()})

    assert (found.returncode, found.stdout.strip()) == (0, str(wanted)), found.stderr


@pytest.mark.parametrize("name", ["python3", "python3.12", "python3.13", "python3.14", "python"])
def test_a_python_on_the_path_is_found_under_any_of_its_names(developer: Developer, name: str) -> None:
    interpreter(developer.bin / name, (3, 14))

    found = developer.which_python()

    assert (found.returncode, found.stdout.strip()) == (0, name), found.stderr


def test_versions_and_builds_that_do_not_suit_are_passed_over(developer: Developer) -> None:
    versions = developer.home / ".pyenv" / "versions"
    interpreter(developer.bin / "python3", (3, 11))
    interpreter(developer.bin / "python3.14", (3, 15))
    interpreter(versions / "3.13.5t" / "bin" / "python3", threaded=True)
    interpreter(versions / "3.13.5" / "bin" / "python3", threaded=True)
    interpreter(versions / "3.12.1" / "bin" / "python3", venv=False)
    wanted = interpreter(versions / "3.14.2" / "bin" / "python3", (3, 14))

    found = developer.which_python()

    assert (found.returncode, found.stdout.strip()) == (0, str(wanted)), found.stderr


@pytest.mark.parametrize("folder", [".local/bin", ".cargo/bin"])
def test_uv_is_asked_and_used_where_its_installer_puts_it(developer: Developer, folder: str) -> None:
    # Without venv of its own: only uv can make an environment from it.
    wanted = interpreter(developer.home / "anywhere" / "python3", venv=False)
    developer.script(developer.home / folder / "uv", f"#!/bin/sh\ncat >/dev/null\necho '{wanted}'\n")

    found = developer.which_python()

    assert (found.returncode, found.stdout.strip()) == (0, str(wanted)), found.stderr


def test_with_uv_and_no_python_the_advice_is_one_command(developer: Developer) -> None:
    developer.script(developer.bin / "uv", "#!/bin/sh\necho 'error: No interpreter found' >&2\nexit 2\n")

    found = developer.which_python()

    assert found.returncode == 1
    assert found.stderr.count("\n") == 1
    assert "uv python install 3.13" in found.stderr


def test_an_interpreter_of_ones_choice_is_taken_or_refused_by_name(developer: Developer) -> None:
    interpreter(developer.bin / "python3")
    chosen = interpreter(developer.home / "mine" / "python3", (3, 12))
    old = interpreter(developer.home / "old" / "python3", (3, 10))

    assert developer.which_python(PYTHON=str(chosen)).stdout.strip() == str(chosen)
    refused = developer.which_python(PYTHON=str(old))
    assert refused.returncode == 1
    assert f"PYTHON={old}" in refused.stderr


def test_paths_with_spaces_are_taken_whole(developer: Developer) -> None:
    wanted = interpreter(developer.home / "my tools" / "versions" / "3.13.1" / "bin" / "python3")

    found = developer.which_python(PYENV_ROOT=str(developer.home / "my tools"))

    assert (found.returncode, found.stdout.strip()) == (0, str(wanted)), found.stderr


def test_without_a_home_it_still_answers(developer: Developer) -> None:
    interpreter(developer.bin / "python3")

    found = subprocess.run(
        [SETUP, "--which-python"],
        env={"PATH": os.fspath(developer.bin)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (found.returncode, found.stdout.strip()) == (0, "python3"), found.stderr
