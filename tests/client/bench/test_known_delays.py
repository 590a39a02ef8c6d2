"""What was injected is what the bench reports. How exactly is shown by `make soak`, with a machine to itself; here the
limits are wide, and what is counted is counted to the last one."""

import json
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

QUICK = ("--ramp", "0.3", "--warm-up", "0.3")


def test_faults_and_wrong_words_of_an_ear(bench: Any, stand_in: Callable[..., Any], recordings: Path) -> None:
    """Every fifth utterance fails, and one word is heard wrong as soon as two streams are open."""
    target = stand_in(partial=(0.3, 0.3), final=(0.4, 0.4), fails_every=5, wrong_word_when_busy=True)

    report = bench.measure(
        "stt", target, *QUICK, "--recordings", recordings, "--concurrency", "1,4", "--duration", "4.5", "-o", "out"
    )

    alone, busy = report["steps"]
    samples = report["samples"]
    for step in (alone, busy):
        assert 300 <= step["measures"]["first_partial_ms"]["p50"] <= 900
        assert 400 <= step["measures"]["finalization_ms"]["p50"] <= 1200
        assert step["utterances"] == sum(s["measured"] for s in samples if s["streams"] == step["streams"])
    failed = [sample for sample in samples if "error" in sample]
    assert {sample["error"] for sample in failed} == {"Model: unknown_event"}
    # Those that were under way at the end of a step count for the stand-in only.
    assert len(samples) / 5 - 1.5 <= len(failed) <= len(samples) / 5 + 2
    assert busy["failed"] == busy["errors"]["Model: unknown_event"]["count"] > 0
    assert busy["errors"]["Model: unknown_event"]["message"].endswith("the engine is broken")
    assert busy["verdict"]["kept"] is not True
    # 17 words in three recordings, one wrong in each.
    assert alone["word_errors"]["rate"] == 0
    assert busy["word_errors"]["rate"] == pytest.approx(3 / 17, abs=1e-5)
    assert 1 / 7 - 1e-5 <= busy["word_errors"]["drift"] <= 1 / 4  # of those that the single stream heard
    # Speech goes up as base64, with something around it.
    for sample in samples:
        if "error" not in sample:
            assert sample["sent_bytes"] > sample["audio_seconds"] * 32_000 * 4 / 3 > sample["sent_bytes"] / 1.2
    (page,) = (bench.home / "out").glob("*.html")
    text = page.read_text()
    assert text.count("<svg") >= 5
    for forbidden in ("<script", "src=", "@import", "url(http", "<link", "https://"):
        assert forbidden not in text
    for words in ("seven eight", "quick brown"):
        assert words not in text + json.dumps(report)


def test_an_interrupted_run_of_two_processes_writes_what_it_measured(bench: Any, stand_in: Callable[..., Any]) -> None:
    """A voice with silence in front, and a halt longer than what it sent ahead: playback runs dry each time."""
    target = stand_in(first_audio=(0.2, 0.3), silence=0.2, frames=10, frame_every=0.02, gap=1.3)
    (bench.home / "texts").write_text("Good morning.\n")
    process = bench.start(
        *(
            "tts",
            "--texts",
            "texts",
            "--endpoint",
            "voice",
            *target.options,
            *QUICK,
            "--concurrency",
            "4",
            "--processes",
            "2",
        ),
        *("--duration", "300", "-o", "out", "--price-per-hour", "2"),
        **target.environment,
    )
    deadline = time.monotonic() + 60
    while len(target.injected("good")) < 13:  # one to see that it works, two or more of each caller
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=60)

    assert process.returncode == 130, errors
    assert "broken off" in errors
    assert "4" in output
    (path,) = (bench.home / "out").glob("*.json")
    report = json.loads(path.read_text())
    (step,) = report["steps"]
    assert report["interrupted"]
    assert not step["complete"]
    assert step["processes"] == 2
    assert {sample["caller"] for sample in report["samples"]} == {0, 1, 2, 3}
    for sample in report["samples"]:
        assert sample["measures"]["first_byte_ms"] >= 200
        assert sample["measures"]["ttfa_ms"] >= sample["measures"]["first_byte_ms"]
        assert sample["audio_seconds"] == pytest.approx(1.2)
        assert sample["underruns"] >= 1
    assert step["underruns"] >= step["utterances"] > 0
    assert step["client"] is None
    assert "broken off" in step["verdict"]["reasons"][0]
    assert step["dollars_per_audio_hour"] == pytest.approx(2 / step["audio_rate"], rel=1e-3)
    assert step["verdict"]["kept"] is not True
