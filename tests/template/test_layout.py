"""Rules of the source tree that keep the stacks importable."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("folder", ["constructs", "tests/constructs"])
def test_no_package_hides_the_constructs_library(folder: str) -> None:
    """With an __init__.py here, `import constructs` finds this folder and aws-cdk-lib does not load."""
    assert not (ROOT / folder / "__init__.py").exists()


def test_the_constructs_library_is_the_one_that_is_imported() -> None:
    import constructs

    assert "site-packages" in str(constructs.__file__)


def test_settings_are_read_without_aws_cdk() -> None:
    """Operators' commands read the settings where aws-cdk-lib is not installed."""
    code = (
        "import sys; sys.modules['aws_cdk'] = None; sys.modules['constructs'] = None\n"
        "import stacks.settings, stacks.names, voice_constructs.instance_pools\n"
        "print(stacks.settings.load_settings({'voice': {'dev': {}}}).endpoint_name('stt'))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.stdout.strip() == "dev-voice-stt", done.stderr
