"""Reviewed templates of every stage, kept beside the tests: a change of CloudFormation is a readable diff.

`python -m voice_ops.snapshots` says what differs (exit code 1) and `--write` renews them; the commit says why.
"""

import argparse
import difflib
import json
import re
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from stacks.settings import SettingsError, read_context
from voice_ops.assembly import PROJECT, Assembly, synthesize
from voice_ops.errors import OpsError

DIRECTORY = PROJECT / "tests" / "template" / "snapshots"

_ASSET_HASH = re.compile(r"\b[0-9a-f]{64}\b")
_CONTEXT_LINES = 3


def normalised(template: Mapping[str, Any]) -> str:
    """Write a template so that it is the same on every machine: sorted, asset hashes replaced."""
    written = json.dumps(template, indent=2, sort_keys=True, ensure_ascii=False)
    return _ASSET_HASH.sub("ASSET-HASH", written) + "\n"


def snapshot_path(stage: str, stack: str) -> Path:
    """Return where a stack's reviewed template is kept."""
    return DIRECTORY / stage / f"{stack}.json"


def stages() -> tuple[str, ...]:
    """Return the stages of cdk.json."""
    return tuple(read_context(PROJECT / "cdk.json")["voice"])


def differences(stage: str, templates: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return a diff from a stage's reviewed templates to these (stack name to template); empty when none differs."""
    lines: list[str] = []
    reviewed = {path.stem: path.read_text(encoding="utf-8") for path in (DIRECTORY / stage).glob("*.json")}
    for name in sorted({*reviewed, *templates}):
        old = reviewed.get(name, "")
        new = normalised(templates[name]) if name in templates else ""
        lines += difflib.unified_diff(
            old.splitlines(), new.splitlines(), f"reviewed/{name}", f"now/{name}", lineterm="", n=_CONTEXT_LINES
        )
    return lines


def write(stage: str, assembly: Assembly) -> None:
    """Make these templates the reviewed ones of a stage."""
    directory = DIRECTORY / stage
    directory.mkdir(parents=True, exist_ok=True)
    for old in directory.glob("*.json"):
        old.unlink()
    for stack in assembly.stacks:
        snapshot_path(stage, stack.name).write_text(normalised(stack.template), encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare, or renew; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m voice_ops.snapshots", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--write", action="store_true", help="renew the reviewed templates")
    given = parser.parse_args(arguments)
    differ = False
    try:
        for stage in stages():
            with tempfile.TemporaryDirectory(prefix="voice-snapshots-") as folder:
                assembly = synthesize(stage, {}, Path(folder) / "cdk.out", scanned=False)
            changes = differences(stage, {stack.name: stack.template for stack in assembly.stacks})
            sys.stdout.writelines(f"{line}\n" for line in changes)
            differ = differ or bool(changes)
            if given.write:
                write(stage, assembly)
    except (OpsError, SettingsError) as error:
        sys.stderr.write(f"snapshots: {error}\n")
        return 2
    return 1 if differ and not given.write else 0


if __name__ == "__main__":
    raise SystemExit(main())
