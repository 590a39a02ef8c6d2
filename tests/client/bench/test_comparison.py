"""Whether two runs differ: equal ones do not, and what was added is found."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from voice_client.bench.comparison import Comparison, Row, compare
from voice_client.bench.report import read_report
from voice_client.errors import BadInputError

RECORDINGS = 5


def run(
    seed: int, *, added_ms: float = 0.0, failing: float = 0.0, wrong: float = 0.05, count: int = 60, noise: float = 1.0
) -> Any:
    """Return a report as a server would give that is sometimes slow for a while, with recordings of several lengths."""
    random = np.random.default_rng(seed)
    samples: list[dict[str, Any]] = []
    mood = 0.0
    for streams in (1, 4):
        for number in range(count * (1 if streams == 1 else 2)):
            mood = 0.7 * mood + noise * float(random.normal(0, 15))  # what slows one utterance slows the next
            item = number % RECORDINGS
            delay = 300 + 60 * item + mood + noise * float(random.gamma(2.0, 15.0)) + added_ms
            common = {"streams": streams, "caller": 0, "item": item, "began": float(number), "elapsed": 4.0}
            if random.random() < failing:
                samples.append(common | {"measured": True, "error": "Model", "message": "no"})
                continue
            errors = int(random.binomial(20, wrong))
            samples.append(
                common | {"measured": True, "measures": {"finalization_ms": delay}, "word_errors": errors, "words": 20}
            )
    steps = [{"streams": streams, "client_saturated": False} for streams in (1, 4)]
    return {
        "kind": "stt",
        "plan": {"arrivals": "closed", "chunk_bytes": 4096},
        "material": [],
        "endpoints": [],
        "local": True,
        "interrupted": False,
        "steps": steps,
        "samples": samples,
    }


def rows(comparison: Comparison, name: str, statistic: str) -> list[Row]:
    return [row for row in comparison.rows if (row.name, row.statistic) == (name, statistic)]


def test_equal_runs_have_not_changed() -> None:
    claims = [compare(run(seed), run(seed + 1000)).sentence for seed in range(8)]
    assert claims.count("no change") >= 7  # one table in twenty may claim something


def test_the_very_same_run_has_not_changed() -> None:
    assert compare(run(1), run(1)).sentence == "no change"


def test_fifty_milliseconds_are_found_and_measured() -> None:
    for seed in range(2):
        found = compare(run(seed), run(seed + 1000, added_ms=50.0))
        assert found.worse
        assert "worse: final text p50 at 4 streams by" in found.sentence
        for row in rows(found, "finalization_ms", "p50"):
            assert row.interval[0] <= 50 <= row.interval[1]
        back = compare(run(seed + 1000, added_ms=50.0), run(seed))
        assert not back.worse
        assert "better: final text p50" in back.sentence


def test_what_nobody_can_hear_is_no_change_however_sure_it_is() -> None:
    found = compare(run(1, noise=0.1), run(2, noise=0.1, added_ms=8.0))
    (row,) = (row for row in rows(found, "finalization_ms", "p50") if row.streams == 4)
    assert row.interval[0] > 0
    assert row.verdict == "no change"


def test_failures_and_wrong_words_are_compared_as_shares() -> None:
    found = compare(run(1), run(2, failing=0.2, wrong=0.12))
    assert {row.verdict for row in rows(found, "failed", "rate")} == {"worse"}
    assert {row.verdict for row in rows(found, "word_error_rate", "rate")} == {"worse"}
    same = compare(run(1, failing=0.1), run(2, failing=0.1))
    assert {row.verdict for row in rows(same, "failed", "rate")} == {"no change"}


def test_too_few_utterances_prove_nothing() -> None:
    found = compare(run(1, count=3), run(2, count=3, added_ms=500.0))
    assert {row.verdict for row in found.rows if row.streams == 1} == {"too few"}
    assert rows(found, "finalization_ms", "p95")[0].verdict == "too few"
    assert compare(run(1, count=1), run(2, count=1)).sentence == "too few utterances to tell"


def test_an_answer_does_not_change_when_it_is_asked_for_again() -> None:
    assert compare(run(3), run(4)).as_json() == compare(run(3), run(4)).as_json()


def test_what_weakens_a_comparison_is_said() -> None:
    other = run(2)
    other["plan"] = {"arrivals": "open", "chunk_bytes": 2048}
    other["endpoints"] = [{"model": "m", "instances": {"types": ["ml.g5.xlarge"], "running": 1}}]
    other["material"] = [{"name": "another"}]
    other["interrupted"] = True
    other["steps"][1]["client_saturated"] = True
    other["samples"] = [sample for sample in other["samples"] if sample["streams"] == 4]
    notes = " / ".join(compare(run(1), other).notes)
    for part in ("arrivals: closed in A, open in B", "chunk bytes: 4096", "not the same", "B was broken off"):
        assert part in notes
    assert "in B the client was saturated at 4 streams" in notes
    assert "m on 1 x ml.g5.xlarge in B" in notes
    assert "in one run only: 1 streams" in notes


def test_runs_that_cannot_be_compared() -> None:
    other = run(2)
    with pytest.raises(BadInputError, match="the other of tts"):
        compare(run(1), other | {"kind": "tts"})
    other["samples"] = [sample | {"streams": 64} for sample in other["samples"]]
    with pytest.raises(BadInputError, match="no number of streams in common"):
        compare(run(1), other)


@pytest.fixture
def whole_report(tmp_path: Path) -> Callable[..., Path]:
    """Write a report that the schema accepts."""

    def write(name: str, seed: int, **more: Any) -> Path:
        client = dict.fromkeys(("cpu_cores", "loop_busy", "lag_p50_ms", "lag_p99_ms", "lag_max_ms"), 0.1)
        empty = dict.fromkeys(("calls_per_second", "word_errors", "behind", "underruns", "dollars_per_audio_hour"))
        zero = dict.fromkeys(("processes", "utterances", "failed", "sent_bytes", "received_bytes"), 1)
        step = {
            "complete": True,
            "measured_seconds": 1.0,
            "errors": {},
            "measures": {},
            "client": client,
            **empty,
            **zero,
        }
        step |= {"audio_seconds": 1.0, "audio_rate": 1.0, "verdict": {"kept": True, "reasons": []}}
        report = run(seed, **more)
        report["plan"] |= {"kind": "stt", "concurrency": [1, 4], "duration": 60.0, "warm_up": 5.0, "ramp": 5.0}
        report["steps"] = [each | step for each in report["steps"]]
        report |= {"format": "sagemaker-voice-bench/1", "version": "0", "started": "", "finished": "", "limits": {}}
        report |= {"endpoints": [], "price_per_hour": {"usd": None, "source": ""}, "machine": {}, "most_streams": 4}
        report |= {"timelines": []}
        path = tmp_path / name
        path.write_text(json.dumps(report))
        return path

    return write


def test_the_command_says_what_changed_and_can_fail_a_pipeline(
    voice_here: Any, whole_report: Callable[..., Path]
) -> None:
    before, equal, slower = (
        whole_report("a.json", 1),
        whole_report("b.json", 2),
        whole_report("c.json", 3, added_ms=50.0),
    )
    result = voice_here("bench", "compare", before, equal, "--check", expect=0)
    assert result.stdout.splitlines()[-1] == "no change"
    result = voice_here("bench", "compare", before, slower, expect=0)
    assert "worse: final text p50 at 4 streams by" in result.stdout
    voice_here("bench", "compare", before, slower, "--check", expect=5)
    answer = json.loads(voice_here("bench", "compare", before, slower, "--json", expect=0).stdout)
    assert answer["worse"]
    assert any(row["verdict"] == "worse" for row in answer["rows"])


def test_a_file_that_is_no_report_is_bad_input(whole_report: Callable[..., Path], tmp_path: Path) -> None:
    good = json.loads(whole_report("a.json", 1).read_text())
    broken = tmp_path / "broken.json"
    for content, message in (
        ("{", "no JSON"),
        ("[]", "no report of the format"),
        ("[" * 100_000, "no JSON"),
        (json.dumps(good).replace('"elapsed": 4.0', '"elapsed": NaN', 1), "no JSON"),
        (json.dumps(good).replace('"elapsed": 4.0', '"elapsed": 1e999', 1), "no JSON"),
        (json.dumps(good | {"format": "sagemaker-voice-bench/2"}), "no report of the format"),
        (json.dumps({name: value for name, value in good.items() if name != "steps"}), "'steps' is a required"),
        (json.dumps(good | {"samples": [{"streams": "one"}]}), r"\$\.samples\[0\]"),
    ):
        broken.write_text(content)
        with pytest.raises(BadInputError, match=message):
            read_report(broken)
    with pytest.raises(BadInputError, match="cannot be read"):
        read_report(tmp_path / "nowhere.json")
