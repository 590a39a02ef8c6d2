"""The runner of the CDK CLI: what it makes of the CLI's output, and how it ends it."""

import os
import threading
import time
from pathlib import Path

import psutil
import pytest

from voice_local.cdk_cli import (
    CdkCancelledError,
    CdkCli,
    CdkCommandError,
    CdkNotInstalledError,
    CdkStep,
    CdkTimeoutError,
    parse_event,
)

FAILED = (
    "dev-voice-stt | 3/9 | 4:44:03 PM | CREATE_FAILED        | AWS::SageMaker::Endpoint    "
    "| Voice/Endpoint (VoiceEndpoint0BB5F1EF) did not stabilize: no | pipe"
)


@pytest.mark.parametrize(
    ("line", "step"),
    [
        (
            FAILED,
            CdkStep(
                "dev-voice-stt",
                "CREATE_FAILED",
                "AWS::SageMaker::Endpoint",
                "Voice/Endpoint",
                "did not stabilize: no | pipe",
            ),
        ),
        (
            "CDKToolkit |  2/15 | 5:02:29 PM | CREATE_IN_PROGRESS      | AWS::IAM::Role             | LookupRole ",
            CdkStep("CDKToolkit", "CREATE_IN_PROGRESS", "AWS::IAM::Role", "LookupRole", ""),
        ),
        (
            "S |   0 | 17:02:29 | DELETE_COMPLETE | AWS::CDK::Metadata | CDKMetadata",
            CdkStep("S", "DELETE_COMPLETE", "AWS::CDK::Metadata", "CDKMetadata", ""),
        ),
        ("Synthesis time: 0.03s", None),
        ("a | b | c", None),
    ],
)
def test_events_are_read_out_of_the_output(line: str, step: CdkStep | None) -> None:
    assert parse_event(line) == step


def fake_project(tmp_path: Path, script: str) -> Path:
    """Return a project whose CLI is a shell script: for what the real one cannot be made to do in a test."""
    cdk = tmp_path / "project" / "node_modules" / ".bin" / "cdk"
    cdk.parent.mkdir(parents=True)
    cdk.write_text("#!/bin/sh\n" + script)
    cdk.chmod(0o755)
    return tmp_path / "project"


def test_a_failure_names_the_resource_its_reason_and_the_log(tmp_path: Path) -> None:
    project = fake_project(tmp_path, f"echo '{FAILED}'\necho noise\nexit 1\n")
    log = tmp_path / "logs" / "cdk.log"
    steps: list[CdkStep] = []
    with pytest.raises(CdkCommandError) as failed:
        CdkCli(project, os.environ, log).deploy(on_step=steps.append)
    assert failed.value.exit_code == 1
    assert failed.value.reasons == (
        "dev-voice-stt AWS::SageMaker::Endpoint Voice/Endpoint: did not stabilize: no | pipe",
    )
    assert str(log) in str(failed.value)
    assert [step.status for step in steps] == ["CREATE_FAILED"]
    assert "noise" in log.read_text()


def test_without_a_failed_resource_the_last_words_are_the_reason(tmp_path: Path) -> None:
    project = fake_project(tmp_path, "echo 'Need to bootstrap first' >&2\nexit 1\n")
    with pytest.raises(CdkCommandError, match="Need to bootstrap first"):
        CdkCli(project, os.environ, tmp_path / "log").destroy()


def test_without_a_cli_it_says_what_to_run(tmp_path: Path) -> None:
    with pytest.raises(CdkNotInstalledError, match="npm ci"):
        CdkCli(tmp_path, os.environ, tmp_path / "log").deploy()


SLEEPER = "echo started\nsleep 300 &\nwait\n"


def children() -> list[psutil.Process]:
    return [child for child in psutil.Process().children(recursive=True) if child.name() in {"sleep", "cdk", "sh"}]


def test_a_command_that_takes_too_long_is_ended_with_its_children(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("voice_local.cdk_cli.DEPLOY_SECONDS", 0.5)
    began = time.monotonic()
    with pytest.raises(CdkTimeoutError, match=r"ended after 0\.5 s"):
        CdkCli(fake_project(tmp_path, SLEEPER), os.environ, tmp_path / "log").deploy()
    assert time.monotonic() - began < 10
    assert children() == []


def test_an_interrupt_ends_the_cli_and_its_children(tmp_path: Path) -> None:
    def interrupt(_step: CdkStep) -> None:
        raise KeyboardInterrupt

    project = fake_project(tmp_path, f"echo '{FAILED}'\n{SLEEPER}")
    with pytest.raises(KeyboardInterrupt):
        CdkCli(project, os.environ, tmp_path / "log").deploy(on_step=interrupt)
    assert children() == []


def test_another_thread_can_cancel_and_nothing_starts_after(tmp_path: Path) -> None:
    project = fake_project(tmp_path, f"echo '{FAILED}'\n{SLEEPER}")
    cli = CdkCli(project, os.environ, tmp_path / "log")

    def cancel(_step: CdkStep) -> None:
        threading.Thread(target=cli.cancel).start()

    with pytest.raises(CdkCancelledError):
        cli.deploy(on_step=cancel)
    with pytest.raises(CdkCancelledError):
        cli.destroy()
    assert children() == []
