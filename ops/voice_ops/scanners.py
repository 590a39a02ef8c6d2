"""cdk-nag, cfn-lint and checkov, each asked for its findings in one shape. None of them reaches the network."""

import hashlib
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from cfnlint.api import lint
from cfnlint.config import ManualArgs

from voice_ops.assembly import PROJECT, Assembly
from voice_ops.errors import ScannerError
from voice_ops.findings import Finding

CDK_NAG = "AwsSolutions"
CFN_LINT = "cfn-lint"
CHECKOV = "checkov"

LINTED_REGIONS = ("us-east-1", "eu-south-1")
"""A region where everything is first, and one where the container account differs."""

CHECKOV_SECONDS = 300.0
"""Takes about 15 s; a busy machine may need ten times that."""

CHECKOV_SETUP_SECONDS = 900.0
"""Downloads about 100 packages."""


def cdk_nag_findings(assembly: Assembly) -> list[Finding]:
    """Read cdk-nag's findings, acknowledged ones too, out of the validation report of a scanned synthesis.

    Raises:
        ScannerError: the assembly was synthesized without cdk-nag.
    """
    reports = [report for report in assembly.validation.get("pluginReports", []) if report["pluginName"] == CDK_NAG]
    if not reports:
        raise ScannerError(f"{assembly.directory} was synthesized without cdk-nag; synthesize it with scanned=True")
    stack_names = {stack.name for stack in assembly.stacks}
    logical_ids = {path: name for stack in assembly.stacks for path, name in stack.logical_ids.items()}
    findings = []
    for report in reports:
        for violation in [*report["violations"], *report.get("suppressedViolations", [])]:
            for construct in violation["violatingConstructs"]:
                path = construct["constructPath"]
                stack = path.split("/", 1)[0]
                if stack not in stack_names:
                    raise ScannerError(f"cdk-nag reports on {path}, which is in no stack of {assembly.directory}")
                findings.append(
                    Finding(
                        CDK_NAG, violation["ruleName"], stack, logical_ids.get(path, path), violation["description"]
                    )
                )
    return findings


def cfn_lint_findings(assembly: Assembly) -> list[Finding]:
    """Run cfn-lint on every template."""
    findings = []
    for stack in assembly.stacks:
        matches = lint(stack.path.read_text(encoding="utf-8"), config=ManualArgs(regions=list(LINTED_REGIONS)))
        for match in matches:
            path = list(getattr(match, "path", None) or [])
            logical_id = str(path[1]) if len(path) > 1 and path[0] == "Resources" else ""
            findings.append(Finding(CFN_LINT, match.rule.id, stack.name, logical_id, match.message))
    return findings


def checkov_findings(assembly: Assembly) -> list[Finding]:
    """Run checkov on every template, in an environment of its own: its dependencies do not agree with ours.

    Raises:
        ScannerError: the environment cannot be made, or checkov failed.
    """
    checkov = checkov_command()
    command = [
        str(checkov),
        *(word for stack in assembly.stacks for word in ("--file", str(stack.path))),
        *("--framework", "cloudformation", "--output", "json", "--compact", "--quiet", "--skip-download"),
    ]
    done = _run(command, CHECKOV_SECONDS)
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        raise ScannerError(f"checkov ended with {done.returncode}: {done.stderr.strip()[-500:]}") from None
    answers: list[dict[str, Any]] = answer if isinstance(answer, list) else [answer]
    by_file = {stack.path.name: stack.name for stack in assembly.stacks}
    findings: list[Finding] = []
    looked_at = 0
    for part in answers:
        summary = part.get("summary", part)
        looked_at += summary["resource_count"]
        if summary["parsing_errors"]:
            raise ScannerError(f"checkov could not read {summary['parsing_errors']} of the templates")
        findings += [
            Finding(
                CHECKOV,
                check["check_id"],
                by_file[Path(check["file_path"]).name],
                check["resource"].rpartition(".")[2],
                check["check_name"],
            )
            for check in part.get("results", {}).get("failed_checks", [])
        ]
    if looked_at == 0:
        raise ScannerError("checkov looked at no resource, so that its silence means nothing")
    return findings


def checkov_command() -> Path:
    """Return checkov's executable; makes `.venv-checkov` from its lock when it is missing or old.

    Raises:
        ScannerError: it cannot be made.
    """
    folder = PROJECT / ".venv-checkov"
    lock = PROJECT / "requirements" / "checkov.txt"
    stamp = folder / ".ready"
    wanted = hashlib.sha256(lock.read_bytes()).hexdigest()
    command = folder / "bin" / "checkov"
    if command.is_file() and stamp.is_file() and stamp.read_text(encoding="utf-8") == wanted:
        return command
    own = PROJECT / ".venv" / "bin"
    uv = shutil.which("uv", path=f"{own}{os.pathsep}{os.environ.get('PATH', '')}")
    if uv is None:
        raise ScannerError("uv is not there to make checkov's environment with: run make setup")
    for step in (
        [uv, "venv", "--quiet", "--clear", "--python", str(own / "python"), str(folder)],
        [uv, "pip", "sync", "--quiet", "--python", str(folder / "bin" / "python"), "--require-hashes", str(lock)],
    ):
        done = _run(step, CHECKOV_SETUP_SECONDS, inherit=True)
        if done.returncode != 0:
            raise ScannerError(
                f"checkov's environment {folder} cannot be made: {done.stderr.strip()[-500:]}. Check the network, or "
                "review without it (--without checkov)."
            )
    stamp.write_text(wanted, encoding="utf-8")
    return command


def _run(command: list[str], seconds: float, *, inherit: bool = False) -> subprocess.CompletedProcess[str]:
    # Without credentials, tokens and settings of other tools: a scanner needs the templates and nothing else.
    environment = (
        dict(os.environ) if inherit else {name: os.environ[name] for name in ("HOME", "PATH") if name in os.environ}
    )
    try:
        return subprocess.run(
            command, cwd=PROJECT, env=environment, capture_output=True, text=True, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired:
        raise ScannerError(f"{command[0]} did not end within {seconds:g} s") from None
