"""A demo whose cloud dies says so at once; two demos never share a folder; nobody's files are removed."""

import fcntl
import io
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from rich.console import Console

from voice_local import display
from voice_local.demo import __main__ as demo_main
from voice_local.demo.cloud_process import CloudProcess
from voice_local.demo.errors import DemoError
from voice_local.demo.voice_command import VoiceCommand

Refused = Callable[[Path], str]

CLOUD = """#!{python}
import json, time
url = "http://127.0.0.1:1"
print(json.dumps(dict(control_plane=url, data_plane=url, runtime=url, faults=url, admin_token="t", ca_bundle="/ca.pem",
                      region="us-east-1", access_key="a", secret_key="s")), flush=True)
time.sleep(60)
"""

SILENT = """#!{python}
import time
time.sleep(60)
"""


def script(path: Path, text: str) -> Path:
    path.write_text(text.format(python=sys.executable))
    path.chmod(0o755)
    return path


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[CloudProcess]:
    """A process in the place of `voice local up`, which is up at once."""
    voice = script(tmp_path / "voice", CLOUD)
    log, environment = tmp_path / "cloud.log", dict(os.environ)
    with CloudProcess(
        voice, run_dir=tmp_path / "run", log=log, environment=environment, keep=False, lock=-1
    ) as process:
        process.start()
        yield process


def kill(cloud: CloudProcess) -> None:
    assert cloud._process is not None
    os.kill(cloud._process.pid, signal.SIGKILL)


def test_work_is_given_up_and_the_reason_told_when_the_cloud_dies(cloud: CloudProcess) -> None:
    given_up = threading.Event()

    def work() -> None:
        kill(cloud)
        assert given_up.wait(30), "what waits for the cloud's answers is not told"
        raise RuntimeError("cancelled")

    with pytest.raises(DemoError, match="the local cloud ended by SIGKILL") as raised, cloud.needed(given_up.set):
        work()

    assert isinstance(raised.value.__cause__, RuntimeError)
    assert raised.value.log.name == "cloud.log"


def test_a_failure_beside_a_living_cloud_stays_what_it_is(cloud: CloudProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("voice_local.demo.cloud_process.END_SECONDS", 0.1)
    with pytest.raises(RuntimeError, match="its own"), cloud.needed():
        raise RuntimeError("its own")


def test_a_command_under_way_ends_when_it_is_cancelled(tmp_path: Path) -> None:
    voice = VoiceCommand(script(tmp_path / "voice", SILENT), os.environ, tmp_path / "demo.log")
    threading.Timer(0.3, voice.cancel).start()

    began = time.monotonic()
    with pytest.raises(DemoError, match="`voice speak` was cancelled"):
        voice.result("speak", show=False)

    assert time.monotonic() - began < 30, "far below the minute that the command takes"


@pytest.fixture
def refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Refused:
    """Run the demo in a folder without a project, where it ends at once; return what it printed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(demo_main, "interrupt_on_signals", lambda: None)

    def run(build_dir: Path) -> str:
        with pytest.raises(SystemExit) as raised:
            demo_main.main(build_dir=build_dir)
        assert raised.value.code == 1
        return capsys.readouterr().out

    return run


def test_a_second_demo_in_the_same_folder_is_refused_and_harms_nothing(tmp_path: Path, refused: Refused) -> None:
    build_dir = tmp_path / "a folder [of mine]"
    build_dir.mkdir()
    (build_dir / "report.json").write_text("the first one's")
    lock = os.open(build_dir, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        said = refused(build_dir)
    finally:
        os.close(lock)

    assert "another demo runs in this folder" in said
    assert "[of mine]" in said
    assert (build_dir / "report.json").read_text() == "the first one's"


def test_a_demo_removes_only_what_a_demo_wrote(tmp_path: Path, refused: Refused) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "thesis.txt").write_text("years of work")
    (tmp_path / "home" / "report.json").write_text("of the demo before")

    assert "transcripts.json" in refused(tmp_path / "home"), "there is no project here"
    assert [path.name for path in (tmp_path / "home").iterdir()] == ["thesis.txt"]


def test_a_long_step_says_now_and_then_that_it_goes_on_where_no_terminal_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(display, "QUIET_SECONDS", 0.05)
    written = io.StringIO()
    deadline = time.monotonic() + 30
    with display.Display(Console(file=written, width=100)).step("cdk deploy") as step:
        step.progress("dev-voice-stt: [in progress]")
        while "[in progress]" not in written.getvalue() and time.monotonic() < deadline:
            time.sleep(0.05)
    lines = written.getvalue().splitlines()

    assert lines[0] == "  … cdk deploy"
    assert lines[1] == "    0 s: dev-voice-stt: [in progress]"
    assert lines[-1].startswith("  ✓ cdk deploy")


def test_a_cloud_that_does_not_come_up_is_told_with_its_last_words(tmp_path: Path) -> None:
    failing = "#!{python}\nimport sys\nsys.exit('voice local up: the port is taken')\n"
    voice = script(tmp_path / "voice", failing)
    process = CloudProcess(
        voice, run_dir=tmp_path / "run", log=tmp_path / "cloud.log", environment=dict(os.environ), keep=False, lock=-1
    )
    with process, pytest.raises(DemoError, match="ended with exit code 1 before it was up: voice local up: the port"):
        process.start()


def test_a_full_disk_is_told_before_anything_starts(
    tmp_path: Path, refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo_main, "LEAST_FREE_BYTES", 10**18)

    assert "there is no room" in refused(tmp_path)
