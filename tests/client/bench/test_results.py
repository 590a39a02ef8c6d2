"""What was measured is written, whatever else goes wrong."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import typer

from tests.client.bench.test_figures import measured, spoken
from voice_client.bench import page
from voice_client.bench.measuring import Measured
from voice_client.bench.plan import BenchPlan
from voice_client.cli import bench_run
from voice_client.cli.bench_options import Result


@pytest.fixture
def run_is_over(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A run that gives eight utterances; returns the folder for its results. Temporary files go beside it."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))

    async def over(run: Measured, *, local: bool) -> None:
        run.steps.append(measured([spoken()] * 8))

    monkeypatch.setattr(bench_run, "_run", over)
    return tmp_path / "out"


def measure(folder: Path, *, as_json: bool = False) -> None:
    plan = BenchPlan("tts", concurrency=(1,))
    bench_run.measure_and_write(plan, Result(output=folder, as_json=as_json), local=False)


def test_both_files_and_a_table(run_is_over: Path, capsys: pytest.CaptureFixture[str]) -> None:
    measure(run_is_over)
    assert sorted(path.suffix for path in run_is_over.iterdir()) == [".html", ".json"]
    printed = capsys.readouterr()
    assert "1 stream is kept; the limit lies above (8 utterances, none failed: at most 31.2% do)" in printed.out
    assert str(run_is_over) in printed.err


def test_a_folder_that_is_gone_when_the_run_is_over_takes_no_result_along(
    run_is_over: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    over = bench_run._run

    async def gone(run: Measured, *, local: bool) -> None:
        await over(run, local=local)
        shutil.rmtree(run_is_over)

    monkeypatch.setattr(bench_run, "_run", gone)
    with pytest.raises(typer.Exit) as end:
        measure(run_is_over, as_json=True)
    assert end.value.exit_code == 2
    printed = capsys.readouterr()
    assert "cannot be written" in printed.err
    assert json.loads(printed.out)["steps"][0]["utterances"] == 8
    rescued = sorted(run_is_over.with_name("temporary").glob("voice-bench-*/*"))
    assert [path.suffix for path in rescued] == [".html", ".json"]
    assert all(str(path) in printed.err for path in rescued)


def test_a_page_that_cannot_be_drawn_takes_no_figure_along(
    run_is_over: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(report: Any) -> str:
        raise RuntimeError("no fonts here")

    monkeypatch.setattr(page, "page", broken)
    with pytest.raises(typer.Exit) as end:
        measure(run_is_over)
    assert end.value.exit_code == 1
    assert [path.suffix for path in run_is_over.iterdir()] == [".json"]
    printed = capsys.readouterr()
    assert "1 stream is kept" in printed.out
    assert "RuntimeError" in printed.err


def test_a_folder_that_takes_no_file_is_told_before_the_run(
    run_is_over: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_is_over.write_text("a file of that name")
    with pytest.raises(typer.Exit) as end:
        measure(run_is_over)
    assert end.value.exit_code == 2
    assert "takes no file" in capsys.readouterr().err
