"""`make demo` does the whole job, sends nothing off loopback, and leaves nothing behind, however it ends."""

import json
import os
import signal
import subprocess
import sys
import time
import wave
from pathlib import Path

import pytest

from tests.e2e.demo_run import demo, interrupt, left_running
from tests.e2e.deployed_cloud import ROOT
from tests.e2e.loopback_only import NOT_PERMITTED

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(400)]

LOOPBACK_ONLY = Path(__file__).with_name("loopback_only.py")
LEAKY = "import socket; socket.create_connection(('192.0.2.1', 443), timeout=2)"


@pytest.fixture
def hostile(tmp_path: Path) -> dict[str, str]:
    """The environment of a developer who works with real AWS accounts all day."""
    home = tmp_path / "home"
    (home / ".aws").mkdir(parents=True)
    (home / ".aws" / "credentials").write_text(
        "[default]\naws_access_key_id = AKIAIOSFODNN7EXAMPLE\n"
        "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/EXAMPLEKEY\n"
        "[work]\naws_access_key_id = AKIAI44QH8DHBEXAMPLE\naws_secret_access_key = je7MtGbClwBF/2Zp9Utk/EXAMPLEKEY\n"
    )
    (home / ".aws" / "config").write_text(
        "[default]\nregion = eu-west-1\n[profile work]\nregion = us-west-2\nendpoint_url = https://192.0.2.7\n"
    )
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "AWS_PROFILE": "work",
        "AWS_DEFAULT_PROFILE": "work",
        "AWS_REGION": "us-west-2",
        "AWS_SESSION_TOKEN": "FwoGZXIvYXdzEXAMPLE",
        "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": "true",
        "AWS_ENDPOINT_URL_SSM": "https://192.0.2.8",
        "HTTPS_PROXY": "http://192.0.2.9:3128",
        "HTTP_PROXY": "http://192.0.2.9:3128",
    }


def test_the_loopback_guard_notices_an_attempt_to_leave(tmp_path: Path) -> None:
    count = tmp_path / "count"
    done = subprocess.run([sys.executable, LOOPBACK_ONLY, count, sys.executable, "-c", LEAKY], timeout=60, check=False)
    if done.returncode == NOT_PERMITTED:
        pytest.skip("this user may not make network namespaces")

    assert int(count.read_text()) > 0


def test_the_demo_does_the_whole_job_on_loopback_alone(tmp_path: Path, hostile: dict[str, str]) -> None:
    build_dir, count = tmp_path / "build", tmp_path / "count"
    done = subprocess.run(
        [sys.executable, LOOPBACK_ONLY, count, *demo(build_dir)],
        env=hostile,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=350,
        check=False,
    )
    if done.returncode == NOT_PERMITTED:
        pytest.skip("this user may not make network namespaces")

    assert done.returncode == 0, done.stdout + done.stderr
    assert int(count.read_text()) == 0, "something tried to leave this machine"
    report = json.loads((build_dir / "report.json").read_text())
    assert report["wer_recording"] <= 0.12
    # Words drawn anew each time, small engines: one misheard clause is no fault, another text (about 1.0) is.
    assert report["wer_roundtrip"] <= 0.35
    assert report["stt_first_partial_ms"] > 0
    assert report["stt_finalization_ms"] > 0
    assert report["tts_ttfa_ms"] > 0
    assert report["tts_rtf"] > 0
    assert report["tts_frames"] > 2
    assert report["left_over"] == 0
    with wave.open(str(build_dir / "spoken.wav")) as wav:
        assert (wav.getframerate(), wav.getnchannels(), wav.getsampwidth()) == (24_000, 1, 2)
    assert left_running(build_dir) == []
    logs = "".join(path.read_text(errors="replace") for path in build_dir.rglob("*.log"))
    assert "leisure to consider" not in logs, "a spoken word in a log"


def test_a_demo_interrupted_at_its_start_leaves_no_process(tmp_path: Path) -> None:
    interrupt(tmp_path / "build", after=1.0, number=signal.SIGINT)


def test_a_killed_demo_takes_its_cloud_with_it(tmp_path: Path) -> None:
    build_dir = tmp_path / "build"
    running = subprocess.Popen(demo(build_dir), cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while not (build_dir / "cloud" / "tls" / "ca.pem").exists() and time.monotonic() < deadline:
        time.sleep(0.2)

    running.kill()
    running.wait(10)

    while (left := left_running(build_dir / "cloud")) and time.monotonic() < deadline + 30:
        time.sleep(0.2)
    assert left == []


def test_a_step_that_fails_says_which_and_where_the_log_is(tmp_path: Path) -> None:
    build_dir = tmp_path / "build"
    done = subprocess.run(
        demo(build_dir, "--stage", "no-such-stage"), cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )

    assert done.returncode == 1
    assert "no-such-stage" in done.stdout
    assert str(build_dir / "cdk.log") in done.stdout.replace("\n", "")
    assert "Traceback" not in done.stdout + done.stderr
    assert left_running(build_dir) == []
