"""What is seen while a stage is deployed: on a terminal of any width, and in a log."""

import io
import time

import pytest
from rich.console import Console

from voice_ops import deployment_display
from voice_ops.deployment_display import Display, Moving
from voice_ops.stack_watch import StackView

NAME = "dev-voice-stt"
VIEW = StackView(NAME, "CREATE_IN_PROGRESS", ("VoiceEndpoint",), "Creating", "loading [weights] " + "and more " * 20)


@pytest.mark.parametrize("width", [60, 100])
def test_a_containers_long_words_leave_room_for_the_stacks(width: int) -> None:
    written = io.StringIO()
    console = Console(file=written, width=width, force_terminal=True, color_system=None)
    moving = Moving(console, "cdk deploy")
    moving.views = [VIEW, StackView("dev-voice-tts", "", (), "", "")]

    console.print(moving.page())

    first, ear, voice, words = (line.rstrip() for line in written.getvalue().splitlines())
    assert "cdk deploy" in first
    assert NAME in ear
    assert "CREATE_IN_PROGRESS" in ear
    assert voice.split() == ["dev-voice-tts", "waiting"]
    assert words.strip().startswith(f"{NAME} says: loading [weights]")
    assert max(map(len, (ear, words))) <= width


def test_a_log_is_told_now_and_then_that_it_goes_on_and_with_what(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deployment_display, "QUIET_SECONDS", 0.05)
    written = io.StringIO()
    deadline = time.monotonic() + 30
    with Display(Console(file=written, width=100)).moving("cdk deploy") as moving:
        moving.show([], [VIEW])
        while "endpoint Creating" not in written.getvalue() and time.monotonic() < deadline:
            time.sleep(0.05)
        moving.outcome = "done"

    assert f"    cdk deploy, 0 s: {NAME} CREATE_IN_PROGRESS endpoint Creating, VoiceEndpoint" in written.getvalue()
    assert written.getvalue().splitlines()[-1].endswith("done")


def test_a_step_that_was_done_with_a_bad_outcome_is_marked() -> None:
    written = io.StringIO()
    with Display(Console(file=written, width=100)).step("voice doctor") as step:
        step.failed = True
        step.outcome = "1 failed"

    assert written.getvalue().splitlines()[-1].startswith("  ✗ voice doctor")
