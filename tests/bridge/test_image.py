"""The real Dockerfile, built and run as root by buildah, which needs no daemon, on a stand-in for vLLM's image.

The stand-in holds a Python, the packages that the bridge takes from its base, and the scripted server as `vllm`.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h11
import pytest
import websockets

from tests.bridge.staging import (
    APPEND,
    COMMIT,
    CONTEXT,
    FINAL,
    SCRIPTED_VLLM,
    UPDATE,
    Vllm,
    assert_in_contract,
    client,
    free_port,
    hear_until,
    hear_until_close,
    listens,
    ping,
    say,
    wait_until,
)

BASE = "localhost/stand-in-vllm"
IMAGE = "localhost/voxtral-bridge"
BUILD_TIMEOUT = 100.0

pytestmark = [
    pytest.mark.skipif(shutil.which("buildah") is None, reason="no image builder here: install buildah to run this"),
    pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="buildah builds without a daemon as root only"),
]


class Builder:
    """buildah with a store of its own."""

    def __init__(self, store: Path) -> None:
        self._command = ["buildah", "--root", str(store / "root"), "--runroot", str(store / "run")]
        self._command += ["--storage-driver", "vfs"]

    def command(self, *arguments: str) -> list[str]:
        return [*self._command, *arguments]

    def __call__(self, *arguments: str) -> str:
        done = subprocess.run(
            self.command(*arguments), capture_output=True, text=True, timeout=BUILD_TIMEOUT, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def inspect(self, image: str) -> dict[str, Any]:
        inspected = json.loads(self("inspect", "--type", "image", image))["Docker"]
        assert isinstance(inspected, dict)
        return inspected


def libraries_of(program: Path) -> set[str]:
    """Shared libraries a program is linked with, by path."""
    listed = subprocess.run(["ldd", str(program)], capture_output=True, text=True, timeout=30, check=False).stdout
    return set(re.findall(r"(/\S+) \(0x", listed))


def stand_in_base(root: Path) -> None:
    """Lay out a file system with what the bridge finds in vLLM's image, and nothing else."""
    python = Path(sys.executable).resolve()
    library = Path(sysconfig.get_path("stdlib"))
    without = shutil.ignore_patterns("test", "tests", "site-packages", "idlelib", "ensurepip", "*.opt-?.pyc", "*.a")
    shutil.copytree(library, root / str(library).lstrip("/"), ignore=without)
    site = root / "opt/packages"
    for package in (websockets, h11):
        source = Path(str(package.__file__)).parent
        shutil.copytree(source, site / source.name, ignore=shutil.ignore_patterns("__pycache__"))
    programs = [python, *library.glob("lib-dynload/*.so"), *site.rglob("*.so")]
    for path in {str(python)} | set().union(*map(libraries_of, programs)):
        target = root / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, target)
    (root / "usr/bin").mkdir(parents=True, exist_ok=True)
    (root / "usr/bin/python3").symlink_to(python)
    program = root / "usr/bin/vllm"
    program.write_text("#!/usr/bin/python3\n" + SCRIPTED_VLLM.read_text())
    program.chmod(0o755)
    (root / "etc").mkdir(exist_ok=True)
    (root / "etc/passwd").write_text("root:x:0:0:root:/:/bin/false\n")
    (root / "Dockerfile").write_text(
        'FROM scratch\nCOPY . /\nENV PATH=/usr/bin PYTHONPATH=/opt/packages\nENTRYPOINT ["/usr/bin/vllm"]\n'
    )


@pytest.fixture(scope="module")
def builder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Builder]:
    """The image, built once."""
    folder = tmp_path_factory.mktemp("image")
    stand_in_base(folder / "base")
    build = Builder(folder / "store")
    try:
        build("build", "--quiet", "--tag", BASE, str(folder / "base"))
        shutil.rmtree(folder / "base")
        build(
            *("build", "--quiet", "--format", "docker", "--network", "none", "--pull=never"),
            *("--build-arg", f"BASE_IMAGE={BASE}", "--tag", IMAGE, str(CONTEXT)),
        )
        yield build
    finally:
        build("rm", "--all")
        shutil.rmtree(folder / "store", ignore_errors=True)


@pytest.fixture
def container(builder: Builder, tmp_path: Path) -> Iterator[Vllm]:
    """The image's own entrypoint, started as SageMaker does, with `serve` in place of its command."""
    name = builder("from", "--pull=never", IMAGE)
    config = builder.inspect(IMAGE)["config"]
    port, vllm_port, output = free_port(), free_port(), tmp_path / "container.log"
    settings = {
        "BRIDGE_PORT": str(port),
        "VLLM_PORT": str(vllm_port),
        "SM_VLLM_MODEL": "some/model",
        "SM_VLLM_MAX_MODEL_LEN": "45000",
        "SCRIPTED_VLLM_NOTES": "/notes.jsonl",
        "BRIDGE_PROBE_INTERVAL": "0.1",
    }
    environment = [word for key, value in settings.items() for word in ("--env", f"{key}={value}")]
    command = builder.command("run", "--isolation", "chroot", *environment, name, "--", *config["Entrypoint"], "serve")
    with output.open("wb") as sink:
        popen = subprocess.Popen(command, stdout=sink, stderr=subprocess.STDOUT, start_new_session=True)
    started = Vllm(popen, port, output, Path(builder("mount", name)) / "notes.jsonl", is_container=True)
    try:
        wait_until(lambda: listens(port) and ping(port) == 200, "the container is healthy", 30)
        yield started
    finally:
        if popen.poll() is None:
            for line in started.log("part_started"):
                os.kill(line["pid"], signal.SIGKILL)  # the end of either ends the container
            popen.kill()
        popen.wait()


def test_image_says_what_sagemaker_and_docker_must_know(builder: Builder) -> None:
    image, base = builder.inspect(IMAGE), builder.inspect(BASE)
    config = image["config"]
    assert config["Labels"]["com.amazonaws.sagemaker.capabilities.bidirectional-streaming"] == "true"
    assert config["Entrypoint"] == ["python3", "/opt/voxtral_bridge/entrypoint.py"]
    assert config["Cmd"] == ["serve"]
    assert config["Healthcheck"]["Test"] == ["CMD", "python3", "/opt/voxtral_bridge/healthcheck.py"]
    assert config["User"] == "root"
    added = image["rootfs"]["diff_ids"]
    assert len(added) == len(base["rootfs"]["diff_ids"]) + 1, "one layer on top of the base"


async def test_image_serves_a_stream_and_stops_in_order(container: Vllm) -> None:
    async with client(container, "/v1/realtime?tail=0.5") as ear:
        await say(ear, UPDATE, COMMIT, APPEND, FINAL)
        assert (await hear_until(ear, "transcription.done"))[-1]["text"] == "w "
        bridge = next(line["pid"] for line in container.log("part_started") if line["part"] == "bridge")
        os.kill(parent_of(bridge), signal.SIGTERM)
        events = await hear_until_close(ear)
    assert [event["code"] for event in events] == ["shutting_down"]
    assert container.wait(30) == 0
    [starting] = container.log("container_starting")
    assert "--max-model-len" in starting["vllm_flags"]
    for line in container.log():
        assert_in_contract(line)


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
