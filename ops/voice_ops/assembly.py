"""Synthesizes a stage, without credentials and without the CDK CLI, and reads what came out."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stacks.settings import read_context
from voice_ops.errors import SynthesisError

SYNTHESIS_SECONDS = 300.0
"""Takes about 10 s; a first run unpacks the CDK, and a machine may be busy."""

PROJECT = Path(__file__).resolve().parents[2]
"""Holds cdk.json and app.py; this package runs from a checkout."""

_ACKNOWLEDGED = "aws:cdk:acknowledged-rules"
_LOGICAL_ID = "aws:cdk:logicalId"


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """A finding that somebody accepted.

    Attributes:
        stack: name of the stack.
        construct: path of the construct it stands at.
        logical_id: of the resource; None when the construct is not one resource, which is refused.
        scanner: who made the finding: `AwsSolutions` (cdk-nag), `checkov` or `cfn-lint`.
        rule: as the scanner writes it.
        reason: why it was accepted.
    """

    stack: str
    construct: str
    logical_id: str | None
    scanner: str
    rule: str
    reason: str


@dataclass(frozen=True, slots=True)
class SynthesizedStack:
    """One template.

    Attributes:
        name: of the stack.
        path: of the template file.
        template: its content.
        logical_ids: construct path to logical id.
        acknowledgements: all that stand in this stack.
        tags: of the stack.
        termination_protection: whether it is on.
    """

    name: str
    path: Path
    template: dict[str, Any]
    logical_ids: Mapping[str, str]
    acknowledgements: tuple[Acknowledgement, ...]
    tags: Mapping[str, str]
    termination_protection: bool

    @property
    def resources(self) -> dict[str, dict[str, Any]]:
        """Logical id to resource."""
        resources: dict[str, dict[str, Any]] = self.template["Resources"]
        return resources


@dataclass(frozen=True, slots=True)
class Assembly:
    """All stacks of a stage, in the order of their names.

    Attributes:
        directory: the cloud assembly.
        stacks: its stacks.
        validation: the CDK's validation report; empty when none was written.
    """

    directory: Path
    stacks: tuple[SynthesizedStack, ...]
    validation: Mapping[str, Any]


def synthesize(stage: str, overrides: Mapping[str, str], directory: Path, *, scanned: bool) -> Assembly:
    """Synthesize a stage as `cdk synth -c stage=... -c key=value` does.

    Args:
        stage: of cdk.json.
        overrides: settings as after `-c`.
        directory: where the assembly goes; emptied of nothing, so give a new one.
        scanned: whether cdk-nag looks on.

    Raises:
        SynthesisError: the settings are wrong, or the app failed; its own words are in the message.
    """
    directory.mkdir(parents=True, exist_ok=True)
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "CDK_"))},
        "CDK_CONTEXT_JSON": json.dumps({**read_context(PROJECT / "cdk.json"), **overrides, "stage": stage}),
        "CDK_OUTDIR": str(directory),
        # The version of Node is none of a review's business; set-up checks it.
        "JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION": "20",
        "JSII_SILENCE_WARNING_UNTESTED_NODE_VERSION": "1",
        "JSII_SILENCE_WARNING_DEPRECATED_NODE_VERSION": "1",
    }
    command = [sys.executable, *(["-m", "stacks.scanned_app"] if scanned else ["app.py"])]
    try:
        done = subprocess.run(
            command,
            cwd=PROJECT,
            env=environment,
            capture_output=True,
            text=True,
            timeout=SYNTHESIS_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise SynthesisError(f"{' '.join(command)} did not end within {SYNTHESIS_SECONDS:g} s in {PROJECT}") from None
    # A finding of cdk-nag ends the synthesis with an error, after everything was written.
    report = directory / "validation-report.json"
    if done.returncode != 0 and not (scanned and report.is_file()):
        raise SynthesisError(done.stderr.strip() or f"{' '.join(command)} ended with {done.returncode} and no word")
    return read_assembly(directory)


def read_assembly(directory: Path) -> Assembly:
    """Read a cloud assembly that was synthesized before.

    Raises:
        SynthesisError: it is none.
    """
    try:
        manifest = json.loads((directory / "manifest.json").read_text(encoding="utf-8"))
        report = directory / "validation-report.json"
        validation = json.loads(report.read_text(encoding="utf-8")) if report.is_file() else {}
        stacks = [
            _read_stack(directory, name, artifact)
            for name, artifact in manifest["artifacts"].items()
            if artifact["type"] == "aws:cloudformation:stack"
        ]
    except (OSError, ValueError, KeyError) as error:
        raise SynthesisError(f"{directory} holds no cloud assembly that can be read: {error!r}") from error
    return Assembly(directory, tuple(sorted(stacks, key=lambda stack: stack.name)), validation)


def _read_stack(directory: Path, artifact_id: str, artifact: Mapping[str, Any]) -> SynthesizedStack:
    properties = artifact["properties"]
    name = properties.get("stackName", artifact_id)
    path = directory / properties["templateFile"]
    metadata = artifact.get("metadata", {})
    if "additionalMetadataFile" in artifact:
        metadata = {**metadata, **json.loads((directory / artifact["additionalMetadataFile"]).read_text("utf-8"))}
    logical_ids = {
        construct.lstrip("/"): entry["data"]
        for construct, entries in metadata.items()
        for entry in entries
        if entry["type"] == _LOGICAL_ID
    }
    acknowledgements = []
    for construct, entries in metadata.items():
        for entry in entries:
            if entry["type"] != _ACKNOWLEDGED:
                continue
            for identifier, reason in entry["data"].items():
                scanner, _, rule = identifier.partition("::")
                where = construct.lstrip("/")
                acknowledgements.append(Acknowledgement(name, where, logical_ids.get(where), scanner, rule, reason))
    return SynthesizedStack(
        name=name,
        path=path,
        template=json.loads(path.read_text(encoding="utf-8")),
        logical_ids=logical_ids,
        acknowledgements=tuple(acknowledgements),
        tags=properties.get("tags", {}),
        termination_protection=properties.get("terminationProtection", False),
    )
