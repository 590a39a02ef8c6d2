"""`voice local env`, `status` and `down` take the cloud that is meant, and say what they did."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from typer.testing import CliRunner, Result

from voice_local import cli
from voice_local.running_cloud import CloudDescription, RunningCloud, registered, registry_dir, running_clouds

Start = Callable[..., subprocess.Popen[bytes]]

ENDS = "import signal; print(flush=True); signal.pause()"
IGNORES_SIGTERM = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); signal.pause()"


@pytest.fixture(autouse=True)
def state_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a space and letters beyond ASCII, as user names have."""
    home = tmp_path / "Jürgen Müller"
    monkeypatch.setenv("XDG_STATE_HOME", str(home))
    return home


def description(control_plane: str = "http://127.0.0.1:1") -> CloudDescription:
    return CloudDescription(
        control_plane=control_plane,
        data_plane="https://127.0.0.1:2",
        runtime="http://127.0.0.1:3",
        faults="http://127.0.0.1:3/faults",
        admin_token="token",
        ca_bundle=Path("/nowhere/ca.pem"),
        region="us-east-1",
        access_key="AKIALOCAL",
        secret_key="secret",
    )


@pytest.fixture
def start() -> Iterator[Start]:
    """Start a process in the place of a cloud's, and leave the file that a cloud leaves."""
    processes = []

    def start(program: str = ENDS, *, starter: int | None = None) -> subprocess.Popen[bytes]:
        process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
        processes.append(process)
        assert process.stdout is not None
        process.stdout.readline()  # its signals are set
        record = RunningCloud(
            pid=process.pid,
            started=psutil.Process(process.pid).create_time(),
            cloud=description(f"http://127.0.0.1:{process.pid}"),
            starter=starter,
        )
        registry_dir().mkdir(parents=True, exist_ok=True)
        (registry_dir() / f"{process.pid}.json").write_text(record.model_dump_json())
        return process

    yield start
    for process in processes:
        process.kill()
        process.communicate()


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli.app, arguments)


def exported(done: Result) -> str:
    return next(line for line in done.stdout.splitlines() if line.startswith("export AWS_ENDPOINT_URL="))


def test_without_a_cloud_each_command_says_how_to_start_one() -> None:
    for words in (("env",), ("down",), ("down", "--all"), ("fault",)):
        done = run(*words)
        assert (done.exit_code, done.stdout) == (3, "")
        assert "start one with `voice local up`" in done.stderr
    assert run("status").exit_code == 0


def test_the_users_own_cloud_is_taken_although_a_demo_runs_one_since(start: Start) -> None:
    own, demos = start(), start(starter=4711)

    assert f":{own.pid}" in exported(run("env"))
    assert f":{demos.pid}" in exported(run("env", "--process", str(demos.pid)))
    listed = run("status").stdout
    assert f"process {demos.pid}: " in listed
    assert "of process 4711, which ends it" in listed

    assert run("down").exit_code == 0
    assert own.wait(10) is not None
    assert demos.poll() is None

    refused = run("down")
    assert refused.exit_code == 3
    assert f"(process {demos.pid}); --process takes that one" in refused.stderr
    assert run("down", "--process", str(demos.pid)).exit_code == 0
    assert demos.wait(10) is not None


def test_of_several_env_takes_the_newest_and_says_so_and_down_asks_which(start: Start) -> None:
    older, newer = start(), start()
    newest = running_clouds()[0].pid  # started within the same hundredth of a second, perhaps

    done = run("env")
    assert f":{newest}" in exported(done)
    assert f"this is the newest, {newest}" in done.stderr

    refused = run("down")
    assert refused.exit_code == 2
    assert "say which by --process, or --all" in refused.stderr
    assert (older.poll(), newer.poll()) == (None, None)

    assert run("down", "--all").exit_code == 0
    assert [process.wait(10) is not None for process in (older, newer)] == [True, True]


def test_down_tells_that_it_had_to_kill(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli, "STOP_SECONDS", 0.3)
    stubborn = start(IGNORES_SIGTERM)

    done = run("down")

    assert done.exit_code == 1
    assert f"process {stubborn.pid} did not end within 0 s and was killed" in done.stderr
    assert stubborn.wait(10) == -9


def test_a_process_that_is_no_cloud_is_not_taken(start: Start) -> None:
    start()
    done = run("down", "--process", "1")

    assert done.exit_code == 3
    assert "No local cloud is process 1" in done.stderr


def test_files_of_clouds_that_are_gone_and_damaged_ones_are_no_cloud(start: Start) -> None:
    gone = start()
    gone.kill()
    gone.wait(10)
    damaged = registry_dir() / "1.json"
    damaged.write_bytes(b'{"pid": 1, \xff')
    record = RunningCloud(pid=psutil.Process().pid, started=0.0, cloud=description())
    (registry_dir() / "2.json").write_text(record.model_dump_json())  # a process that took over a cloud's number

    assert running_clouds() == []
    assert [path.name for path in registry_dir().iterdir()] == [damaged.name]


def test_a_cloud_runs_although_its_users_home_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))

    with registered(description()):
        assert running_clouds() == []

    assert "will not find this cloud" in caplog.text
    assert "XDG_STATE_HOME" in caplog.text


def test_a_registered_cloud_is_found_by_scripts_without_its_keys_until_it_ends() -> None:
    with registered(description(), starter=1):
        listed = run("status", "--json").stdout
        assert json.loads(listed)["starter"] == 1
        assert "secret" not in listed
        path = registry_dir() / f"{psutil.Process().pid}.json"
        assert path.stat().st_mode & 0o077 == 0
        told = json.loads(run("env", "--process", str(psutil.Process().pid), "--json").stdout)
        assert CloudDescription.model_validate(told) == description()

    assert list(registry_dir().iterdir()) == []
