"""What a user is promised of `voice talk` over files, against endpoints that hear real speech."""

import json
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest

from tests.soak.browser.conftest import VOICE, as_the_engine_speaks, read_wav, spoken, text_of, write_wav
from tests.soak.browser.stage import Stage
from voice_local.word_error_rate import word_error_rate

pytestmark = [pytest.mark.soak, pytest.mark.timeout(180)]

BRIEF = """
def answer(turn, history):
    return f"Answer {len(history) + 1}."
def long(turn):
    yield "This answer goes on. "
    yield "It has three sentences that take a while. "
    yield "This is the last of them."
def broken(turn):
    raise RuntimeError(turn)
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "brief.py").write_text(BRIEF)
    write_wav(tmp_path / "question.wav", spoken("0890", 1.2, "0920"))
    return tmp_path


def start(stage: Stage, home: Path, *options: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [VOICE, "talk", "--input", "question.wav", "--output", "answer.wav", *stage.options, *options],
        env=stage.environment(home),
        cwd=home,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_each_turn_of_a_file_is_answered_and_the_answers_are_written(stage: Stage, home: Path) -> None:
    talking = start(stage, home, "--reply", "brief:answer", "--json")
    output, errors = talking.communicate(timeout=90)

    assert talking.returncode == 0, errors
    turns = json.loads(output)["turns"]
    assert [turn["reply"] for turn in turns] == ["Answer 1.", "Answer 2."]
    for turn, clip in zip(turns, ("0890", "0920"), strict=True):
        assert word_error_rate(text_of(clip), turn["text"]) <= 0.12, turn["text"]
        waits = turn["metrics"]
        assert waits["total_ms"] == pytest.approx(
            waits["final_text_ms"] + waits["first_token_ms"] + waits["first_sound_ms"], abs=0.01
        )
    assert np.array_equal(read_wav(home / "answer.wav"), as_the_engine_speaks(["Answer", "1.", "Answer", "2."]))
    assert turns[0]["text"] not in errors, "a spoken word in a log"


def test_with_barge_in_the_file_interrupts_and_what_was_heard_is_written(stage: Stage, home: Path) -> None:
    talking = start(stage, home, "--reply", "brief:long", "--json", "--barge-in")
    output, errors = talking.communicate(timeout=120)

    assert talking.returncode == 0, errors
    first, second = json.loads(output)["turns"]
    assert first["interrupted"]
    assert first["reply"].startswith(
        first["heard"]
    )  # both empty where a slow ear told the turn after the next had begun
    assert not second["interrupted"]
    whole = len(as_the_engine_speaks(second["reply"].split()))
    assert whole <= len(read_wav(home / "answer.wav")) < 2 * whole


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_command_leaves_no_file(stage: Stage, home: Path, number: signal.Signals) -> None:
    talking = start(stage, home, "--reply", "brief:long")
    end = time.monotonic() + 60
    while not list(home.glob(".answer*")):  # what becomes the file
        assert time.monotonic() < end
        assert talking.poll() is None
        time.sleep(0.05)
    time.sleep(1)
    talking.send_signal(number)
    _, errors = talking.communicate(timeout=30)

    assert talking.returncode == 128 + number, errors
    assert "Traceback" not in errors
    assert not (home / "answer.wav").exists()
    assert not list(home.glob(".answer*"))


def test_a_reply_that_fails_ends_with_an_error_and_no_file(stage: Stage, home: Path) -> None:
    write_wav(home / "question.wav", spoken("0880"))
    talking = start(stage, home, "--reply", "brief:broken")
    output, errors = talking.communicate(timeout=90)

    assert talking.returncode == 4
    assert "the reply failed with RuntimeError" in errors
    assert output.startswith("You: ")
    assert not (home / "answer.wav").exists()


def test_a_file_in_which_nobody_speaks_is_named(stage: Stage, home: Path) -> None:
    write_wav(home / "question.wav", np.zeros(16_000, "<i2"))
    talking = start(stage, home)
    _, errors = talking.communicate(timeout=60)

    assert talking.returncode == 2
    assert "nobody speaks in question.wav" in errors
