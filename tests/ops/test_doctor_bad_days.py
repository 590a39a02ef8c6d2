"""`voice doctor` when AWS, the network or a tool has a bad day: it ends, says whose fault it is, and tells the rest."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest

from stacks.settings import load_settings, read_context
from tests.ops.odd_aws import IDENTITY, Answer, Choice, OddAws, denied
from voice_local.isolation import leading_elsewhere
from voice_ops.doctor import Check, Examination, Limits, Status, examine
from voice_ops.doctor.account import credentials
from voice_ops.doctor.quotas import quota_checks
from voice_ops.doctor.steps import Runner, Step
from voice_ops.doctor.subject import Places, Subject
from voice_ops.session import AwsSession

PROJECT = Path(__file__).parents[2]
CLI = [sys.executable, "-m", "voice_ops.doctor"]
SCHEMA = json.loads((PROJECT / "ops" / "voice_ops" / "doctor" / "report-schema.json").read_text(encoding="utf-8"))
CONFIG = """
[profile hangs]
region = us-east-1
credential_process = /bin/sleep 60
[profile log-in]
region = eu-central-1
sso_session = company
sso_account_id = 123456789012
sso_role_name = any
[sso-session company]
sso_region = eu-central-1
sso_start_url = https://127.0.0.1:9/start
"""


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[OddAws]:
    """An AWS that knows who the caller is, and denies all else; a test may change that."""
    for name in leading_elsewhere(os.environ):
        monkeypatch.delenv(name)
    config = tmp_path / "config"
    config.write_text(CONFIG)
    docker = tmp_path / "docker"
    docker.write_text("#!/bin/sh\nexit 1\n")
    docker.chmod(0o755)
    with OddAws(knowing_the_caller(denied)) as odd:
        for name, value in {
            "AWS_ENDPOINT_URL": odd.url,
            "AWS_ACCESS_KEY_ID": "AKIAOFATEST",
            "AWS_SECRET_ACCESS_KEY": "canary-of-a-secret-key",
            "AWS_REGION": "us-east-1",
            "AWS_CONFIG_FILE": str(config),
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
            "AWS_EC2_METADATA_DISABLED": "true",
            "CDK_DOCKER": str(docker),
        }.items():
            monkeypatch.setenv(name, value)
        yield odd


def knowing_the_caller(choose: Choice) -> Choice:
    def choice(service: str, operation: str) -> Answer:
        return Answer(200, body=IDENTITY.encode()) if service == "sts" else choose(service, operation)

    return choice


def doctor(**limits: float) -> dict[str, Check]:
    examination: Examination = examine(read_context(PROJECT / "cdk.json"), "dev", PROJECT, limits=Limits(**limits))  # type: ignore[arg-type]
    jsonschema.validate(examination.as_json(), SCHEMA)
    found = {check.id: check for check in examination.checks}
    assert len(found) == len(examination.checks), "two lines have the same name"
    assert "the check itself failed" not in " ".join(check.detail for check in examination.checks)
    return found


def of_the_account(found: dict[str, Check]) -> dict[str, Check]:
    asked = ("bootstrap", "permissions", "quota", "stack", "image.tts", "ami")
    return {name: check for name, check in found.items() if name.startswith(asked)}


def test_a_caller_who_may_nothing_is_told_the_action_for_each_line(aws: OddAws) -> None:
    found = of_the_account(doctor())

    assert {check.status for check in found.values()} <= {Status.WARN, Status.SKIP}
    for name, action in {
        "bootstrap": "ssm:GetParameter",
        "permissions.deploy": "iam:SimulatePrincipalPolicy",
        "quota": "servicequotas:ListServiceQuotas",
        "stack.stt": "cloudformation:DescribeStacks",
        "image.tts": "ecr:BatchGetImage",
        "ami.tts": "sagemaker:DescribeEndpoint",
    }.items():
        assert f"allow {action}" in found[name].advice, found[name]
    assert "dev-voice-tts" in found["stack.tts"].detail


def test_quotas_are_judged_without_the_count_that_is_not_allowed(aws: OddAws) -> None:
    quotas = [
        {"QuotaName": f"ml.{kind}.xlarge for endpoint usage", "QuotaCode": f"L-{kind}", "Value": value}
        for kind, value in (("g6", 0), ("g6e", 16), ("g5", 3))
    ]

    def choose(service: str, operation: str) -> Answer:
        if service == "servicequotas":
            # The first page is empty, as AWS's may be.
            first = {"Quotas": [], "NextToken": "more"} if aws.asked.count(f"{service}:{operation}") % 2 else None
            return Answer(200, body=json.dumps(first or {"Quotas": quotas}).encode())
        return denied(service, operation)

    aws.choose = knowing_the_caller(choose)

    found = doctor()

    assert found["quota.ml.g6.xlarge"].status is Status.FAIL
    assert "--quota-code L-g6 --desired-value 4" in found["quota.ml.g6.xlarge"].advice
    assert found["quota.ml.g6e.xlarge"].status is Status.WARN
    assert "not counted: not permitted" in found["quota.ml.g6e.xlarge"].detail
    assert found["quota.ml.g5.xlarge"].status is Status.WARN
    assert "an update will fail" in found["quota.ml.g5.xlarge"].advice
    assert found["quota.ml.g4dn.xlarge"].status is Status.FAIL
    assert "may not be offered there" in found["quota.ml.g4dn.xlarge"].detail


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (Answer(400, "ThrottlingException", "Rate exceeded"), "ThrottlingException: Rate exceeded"),
        (Answer(400, "NoSuchResourceException", "no such service code"), "NoSuchResourceException"),
        (Answer(200, body=b"<html>Welcome to the hotel</html>"), "not AWS's own answer"),
        (Answer(200, body=b"{}"), "not AWS's own answer"),
    ],
    ids=["throttled", "no quotas for the service", "a page to log in", "an empty answer"],
)
def test_what_cannot_be_asked_is_a_warning_and_no_fault_of_this_program(aws: OddAws, answer: Answer, said: str) -> None:
    aws.choose = lambda _service, _operation: answer
    settings = load_settings(read_context(PROJECT / "cdk.json"), "dev")
    subject = Subject(settings, AwsSession(), Places.of(PROJECT, os.environ), Limits())
    runner = Runner(Limits())

    runner.run([Step(("quota.*",), lambda: quota_checks(subject))])

    (found,) = runner.lines()
    assert (found.id, found.status) == ("quota", Status.WARN)
    assert said in found.detail
    assert "\n" not in found.detail


@pytest.mark.parametrize(
    ("answer", "said", "advice"),
    [
        (
            Answer(403, "SignatureDoesNotMatch", "Signature expired: 20261129T000000Z is now earlier than 2027"),
            "this machine's clock is wrong",
            "timedatectl set-ntp true",
        ),
        (
            Answer(403, "InvalidClientTokenId", "The security token is invalid"),
            "access key is unknown",
            "aws configure",
        ),
        (Answer(403, "ExpiredToken", "The token is expired"), "expired: ", "aws sso login"),
        (Answer(200, body=b"<html>Welcome to the hotel</html>"), "a log-in page", "check the network"),
    ],
    ids=["clock", "unknown key", "expired", "a page to log in"],
)
def test_why_the_credentials_are_of_no_use_is_told_with_its_cure(
    aws: OddAws, answer: Answer, said: str, advice: str
) -> None:
    aws.choose = lambda _service, _operation: answer

    found = credentials(AwsSession(), None)

    assert found.status is Status.FAIL
    assert said in found.detail
    assert advice in found.advice
    assert "canary" not in found.detail


@pytest.mark.parametrize(
    ("profile", "said", "advice"),
    [
        ("log-in", "the single sign-on has expired", "`aws sso login --profile log-in`"),
        ("nobody", "profile (nobody) could not be found", "correct AWS_PROFILE"),
    ],
)
def test_a_profile_that_is_of_no_use_is_named(
    aws: OddAws, monkeypatch: pytest.MonkeyPatch, profile: str, said: str, advice: str
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_PROFILE", profile)

    found = doctor()

    assert found["credentials"].status is Status.FAIL
    assert said in found["credentials"].detail
    assert advice in found["credentials"].advice
    assert found["region"].status is Status.PASS
    assert aws.asked == []


def test_what_hangs_for_ever_is_given_up_and_the_rest_is_told(aws: OddAws, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_PROFILE", "hangs")
    began = time.monotonic()

    found = doctor(step_seconds=5)

    assert time.monotonic() - began < 40, "it waited for the process, which takes a minute"
    assert found["credentials"].status is Status.FAIL
    assert found["credentials"].detail == "no answer within 5 s"
    assert "credential_process" in found["credentials"].advice
    assert {check.status for check in of_the_account(found).values()} == {Status.SKIP}
    assert found["python"].status is Status.PASS
    assert found["price"].status is Status.PASS


def test_ctrl_c_ends_it_at_once_with_130(aws: OddAws, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_PROFILE", "hangs")
    process = subprocess.Popen(CLI, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    # It is at work when the process that hangs is its child.
    while "sleep" not in children_of(process.pid):
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.05)

    process.send_signal(signal.SIGINT)
    shown, errors = process.communicate(timeout=30)

    assert process.returncode == 130
    assert "Traceback" not in shown + errors


def children_of(pid: int) -> str:
    """Return the names of a process's children, of whichever of its threads they are."""
    listed = ""
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):  # a thread or a child that has just ended
            for child in (task / "children").read_text().split():
                listed += Path(f"/proc/{child}/comm").read_text()
    return listed


def test_the_schema_refuses_what_the_doctor_never_says() -> None:
    right: dict[str, Any] = {"id": "disk", "status": "fail", "detail": "1 GB free", "advice": "free 59 GB"}
    jsonschema.validate({"checks": [right]}, SCHEMA)
    for wrong in ({"status": "maybe"}, {"advice": ""}, {"detail": ""}, {"id": "quota.everything"}, {"more": 1}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({"checks": [{**right, **wrong}]}, SCHEMA)
