"""The demo as a process of its own: how it is started, interrupted, and looked for afterwards."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil

from tests.e2e.deployed_cloud import ROOT


def demo(build_dir: Path, *options: str) -> list[str]:
    """Return the command that runs the demo in `build_dir`."""
    return [sys.executable, "-m", "voice_local.demo", "--build-dir", str(build_dir), *options]


def left_running(build_dir: Path) -> list[str]:
    """Return the command lines of all processes that name `build_dir`."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        line = " ".join(process.info["cmdline"] or ())
        if str(build_dir) in line and process.pid != os.getpid():
            found.append(line)
    return found


def interrupt(build_dir: Path, *, after: float, number: signal.Signals) -> None:
    """Run the demo, send it a signal `after` seconds from its first line, and look at how it ended."""
    running = subprocess.Popen(
        demo(build_dir), cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )
    assert running.stdout is not None
    try:
        output = running.stdout.readline()  # from here on it ends in order
        time.sleep(after)
        running.send_signal(number)
        output += running.communicate(timeout=60)[0]
    finally:
        running.kill()

    assert running.returncode == 130, output
    assert "Traceback" not in output
    assert left_running(build_dir) == []
