"""What `voice doctor` says of builders, Node and settings: each as a developer's machine really answers."""

import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from stacks.settings import read_context
from voice_ops.doctor.builder import builder_checks
from voice_ops.doctor.check import Check, Status, failed, passed, skipped
from voice_ops.doctor.examination import Examination
from voice_ops.doctor.report import show
from voice_ops.doctor.stage_settings import examine_settings
from voice_ops.doctor.subject import Limits, Places
from voice_ops.doctor.toolchain import cdk_cli, node, packages, python

PROJECT = Path(__file__).parents[2]

DOCKER = {"OperatingSystem": "Debian GNU/Linux 12", "ServerVersion": "28.2.2", "OSType": "linux"}
LIBPOD = {"host": {"arch": "amd64"}, "version": {"Version": "5.4.0"}}


class Machine:
    """A folder of executables that is the whole PATH."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bin = folder / "bin"
        self.bin.mkdir()

    def tool(
        self, name: str, answer: Any = "", *, exit_code: int = 0, error: str = "", for_arguments: str = ""
    ) -> None:
        """Add a tool that prints an answer, for these arguments alone if they are given."""
        text = answer if isinstance(answer, str) else json.dumps(answer)
        guard = f'case "$*" in {for_arguments!r}) ;; *) echo "not $*" >&2; exit 64;; esac' if for_arguments else ":"
        script = self.bin / name
        script.write_text(f"#!/bin/sh\n{guard}\nprintf '%s' '{text}'\nprintf '%s' '{error}' >&2\nexit {exit_code}\n")
        script.chmod(0o755)

    def places(self, **variables: str) -> Places:
        return Places.of(PROJECT, {"PATH": str(self.bin), **variables})

    def builder(self, disk_gb: float = 0.001, **variables: str) -> dict[str, Check]:
        limits = Limits(disk_gb=disk_gb, command_seconds=20)
        return {check.id: check for check in builder_checks(self.places(**variables), limits)}


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def statuses(checks: dict[str, Check]) -> tuple[Status, ...]:
    return tuple(checks[name].status for name in ("builder", "platform", "disk"))


def test_docker_on_amd64_with_room_passes(machine: Machine) -> None:
    info = {**DOCKER, "Architecture": "x86_64", "DockerRootDir": str(machine.folder / "not" / "made" / "yet")}
    machine.tool("docker", info, for_arguments="info --format {{json .}}")

    found = machine.builder()

    assert statuses(found) == (Status.PASS,) * 3, found
    assert "Debian GNU/Linux 12 28.2.2 (docker)" in found["builder"].detail


def test_too_little_room_names_the_folder_and_what_to_free(machine: Machine) -> None:
    machine.tool("docker", {**DOCKER, "Architecture": "x86_64", "DockerRootDir": str(machine.folder)})

    disk = machine.builder(disk_gb=10_000_000)["disk"]

    assert disk.status is Status.FAIL
    assert str(machine.folder) in disk.detail
    assert "docker system prune -a" in disk.advice


@pytest.mark.parametrize("name", ["podman", "finch", "buildah"])
def test_a_builder_that_takes_dockers_place_is_found_by_cdk_docker(machine: Machine, name: str) -> None:
    libpod = {**LIBPOD, "store": {"GraphRoot" if name == "buildah" else "graphRoot": str(machine.folder)}}
    docker = {**DOCKER, "Architecture": "x86_64", "DockerRootDir": str(machine.folder)}
    arguments = {"buildah": "info", "podman": "info --format json", "finch": "info --format {{json .}}"}[name]
    machine.tool(name, docker if name == "finch" else libpod, for_arguments=arguments)

    found = machine.builder(CDK_DOCKER=name)

    assert statuses(found) == (Status.PASS,) * 3, found
    assert name in found["builder"].detail


def test_a_docker_whose_daemon_is_down_says_so_and_names_what_else_is_installed(machine: Machine) -> None:
    # As Docker's client answers: everything empty, the reason on stderr, exit 1.
    empty = {"ServerVersion": "", "Architecture": "", "DockerRootDir": ""}
    machine.tool("docker", empty, exit_code=1, error="Cannot connect to the Docker daemon")
    machine.tool("podman")

    found = machine.builder()

    assert statuses(found) == (Status.FAIL, Status.SKIP, Status.SKIP)
    assert "Cannot connect to the Docker daemon" in found["builder"].detail
    assert "export CDK_DOCKER=podman" in found["builder"].advice


def test_no_builder_at_all_says_what_to_install(machine: Machine) -> None:
    found = machine.builder()

    assert found["builder"].status is Status.FAIL
    assert "no `docker` on the PATH" in found["builder"].detail
    assert "install and start Docker" in found["builder"].advice


def test_a_builder_that_hangs_is_given_up(machine: Machine) -> None:
    (machine.bin / "docker").write_text("#!/bin/sh\nexec /bin/sleep 30\n")
    (machine.bin / "docker").chmod(0o755)

    found = {check.id: check for check in builder_checks(machine.places(), Limits(command_seconds=0.2))}

    assert "did not answer within 0.2 s" in found["builder"].detail


def test_an_arm64_builder_needs_emulation(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.tool("docker", {**DOCKER, "Architecture": "aarch64", "DockerRootDir": str(machine.folder)})
    emulated = [False]
    monkeypatch.setattr("voice_ops.doctor.builder._emulation", lambda: emulated[0])

    without = machine.builder()["platform"]
    emulated[0] = True
    with_it = machine.builder()["platform"]

    assert (without.status, with_it.status) == (Status.FAIL, Status.PASS)
    assert "linux/amd64" in without.detail
    assert "emulation" in without.advice


def test_docker_desktop_builds_for_amd64_anywhere_and_hides_its_disk(machine: Machine) -> None:
    desktop = {**DOCKER, "OperatingSystem": "Docker Desktop", "Architecture": "aarch64"}
    machine.tool("docker", {**desktop, "DockerRootDir": "/var/lib/docker"})

    assert statuses(machine.builder()) == (Status.PASS, Status.PASS, Status.WARN)


def test_a_docker_of_another_machine_has_its_disk_there(machine: Machine) -> None:
    # As a context or a virtual machine answers: all is right, and the folder is not this machine's.
    elsewhere = {**DOCKER, "Architecture": "x86_64", "DockerRootDir": str(machine.folder), "Name": "colima"}
    machine.tool("docker", elsewhere)

    found = machine.builder(disk_gb=10_000_000)

    assert statuses(found) == (Status.PASS, Status.PASS, Status.WARN)
    assert "cannot be seen from here" in found["disk"].detail


@pytest.mark.parametrize("answer", ["[1, 2]", "3", "not json \\377", ""], ids=["list", "number", "bytes", "nothing"])
def test_a_docker_that_answers_something_else_is_no_builder(machine: Machine, answer: str) -> None:
    machine.tool("docker", answer)

    found = machine.builder()

    assert statuses(found) == (Status.FAIL, Status.SKIP, Status.SKIP)
    assert "`docker info` ended with 0" in found["builder"].detail


def test_storage_that_cannot_be_looked_at_is_a_warning(machine: Machine) -> None:
    folder = machine.folder / ("too-long-for-a-name" * 20)
    machine.tool("docker", {**DOCKER, "Architecture": "x86_64", "DockerRootDir": str(folder)})

    disk = machine.builder()["disk"]

    assert disk.status is Status.WARN
    assert "cannot be looked at" in disk.detail
    assert "0.001 GB free" in disk.advice


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("exec /bin/sleep 30", "did not answer within 0.3 s"),
        ("printf 'v\\377\\376'; exit 3", "ended with 3"),
    ],
    ids=["hangs", "no text"],
)
def test_a_node_that_does_not_answer_is_given_up(machine: Machine, script: str, said: str) -> None:
    (machine.bin / "node").write_text(f"#!/bin/sh\n{script}\n")
    (machine.bin / "node").chmod(0o755)

    found = node(machine.places(), Limits(command_seconds=0.3 if "sleep" in script else 20))

    assert found.status is Status.FAIL
    assert said in found.detail
    assert "install Node.js" in found.advice


@pytest.mark.parametrize(
    ("version", "status", "said"),
    [
        ("v24.1.0", Status.PASS, "v24.1.0"),
        ("v20.20.2", Status.PASS, "past its end of life"),
        ("v18.20.8", Status.FAIL, "20 or newer"),
        (None, Status.FAIL, "no `node` on the PATH"),
    ],
)
def test_node_is_judged_by_its_version(machine: Machine, version: str | None, status: Status, said: str) -> None:
    if version:
        machine.tool("node", f"{version}\n")

    found = node(machine.places(), Limits())

    assert found.status is status
    assert said in found.detail


def test_python_packages_and_the_cdk_cli_are_as_locked_here_and_missing_elsewhere(tmp_path: Path) -> None:
    here, elsewhere = Places.of(PROJECT, {}), Places.of(tmp_path, {})
    (tmp_path / "package.json").write_text((PROJECT / "package.json").read_text())

    assert python().status is Status.PASS
    assert packages(here).status is Status.PASS, packages(here)
    assert cdk_cli(here).status is Status.PASS, cdk_cli(here)
    assert cdk_cli(elsewhere).status is Status.FAIL
    assert "make setup" in cdk_cli(elsewhere).advice
    package = tmp_path / "node_modules" / "aws-cdk" / "package.json"
    package.parent.mkdir(parents=True)
    package.write_text('{"version"')
    (tmp_path / "node_modules" / ".bin").mkdir()
    (tmp_path / "node_modules" / ".bin" / "cdk").touch()
    assert "cannot be read" in cdk_cli(elsewhere).detail
    assert "make setup" in cdk_cli(elsewhere).advice


def test_a_pinned_package_in_another_version_fails_and_a_locked_one_warns(tmp_path: Path) -> None:
    (tmp_path / "requirements").mkdir()
    lock = (PROJECT / "requirements" / "dev.txt").read_text()
    (tmp_path / "requirements" / "dev.txt").write_text(re.sub(r"(?m)^boto3==\S+", "boto3==1.0.0", lock))
    project = (PROJECT / "pyproject.toml").read_text()
    (tmp_path / "pyproject.toml").write_text(project)
    found = packages(Places.of(tmp_path, {}))
    assert found.status is Status.WARN
    assert "boto3" in found.detail

    (tmp_path / "pyproject.toml").write_text(re.sub(r'"smithy-core==[^"]+"', '"smithy-core==9.9.9"', project))
    found = packages(Places.of(tmp_path, {}))

    assert found.status is Status.FAIL
    assert "instead of 9.9.9" in found.detail


def test_faulty_settings_are_all_listed_and_the_rest_is_examined() -> None:
    context = {
        **read_context(PROJECT / "cdk.json"),
        "region": "us-esat-1",
        "tts.instance_types": "ml.g4dn.xlarge,ml.p9.xlarge",
        "stt.base_image_cuda": "12.4",
        "stt.max_model_len": "9000",
    }

    settings, found = examine_settings(context, "dev")

    assert settings is not None
    assert settings.region is None
    assert settings.stt.max_model_len == 9000, "a right setting was lost with the wrong ones"
    assert "ml.g6.xlarge" in settings.tts.instance_types
    assert [check.id for check in found] == ["settings", "ami.stt"]
    assert all(part in found[0].detail for part in ("did you mean", "us-east-1", "ml.p9.xlarge", "stt.base_image_cuda"))
    assert "leave stt.base_image_cuda out" in found[1].advice


def test_an_unknown_stage_is_one_line_that_names_the_known_ones() -> None:
    settings, found = examine_settings(read_context(PROJECT / "cdk.json"), "nope")

    assert settings is None
    assert [check.status for check in found] == [Status.FAIL]
    assert "known: dev, prod" in found[0].detail
    assert found[0].advice == "correct stage (docs/settings.md)"


LINES = (
    passed("python", "3.12.1"),
    failed("quota.ml.g4dn.xlarge", "0 allowed; 2 needed, 4 while an update runs", "ask for more: " + "word " * 40),
    passed("credentials", "user/schlüssel"),
    skipped("image.tts", "no usable credentials"),
    skipped("ami.tts", "no usable credentials"),
)


def printed(width: int, *, colour: bool = False, encoding: str = "utf-8") -> str:
    file = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    console = Console(file=file, width=width, force_terminal=colour, color_system="standard" if colour else None)
    show(Examination("dev", {"Stage": LINES}), console)
    file.flush()
    file.seek(0)
    return file.read()


@pytest.mark.parametrize("width", [40, 60, 80, 120, 200])
def test_the_table_fits_any_terminal_and_loses_nothing(width: int) -> None:
    shown = printed(width)

    assert max(map(len, shown.splitlines())) <= width
    words = " ".join(shown.split())
    assert words.count("word") == 40
    assert all(part in words for part in ("✓ pass", "✗ fail", "· skip", "quota.ml.g4dn.xlarge", "image.tts, ami.tts"))
    assert all(line == line.rstrip() for line in shown.splitlines())


def test_without_colour_and_without_unicode_the_words_are_there() -> None:
    assert "\x1b[" in printed(80, colour=True)
    plain = printed(80, encoding="ascii")

    assert "\x1b[" not in plain
    assert plain.isascii()
    # A name out of an answer is told too, in a language that the terminal's encoding does not have.
    assert all(word in plain for word in ("+ pass", "x fail", "- skip", "> ask for more", "schl\\xfcssel"))
