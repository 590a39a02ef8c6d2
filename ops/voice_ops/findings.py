"""Findings of scanners, and which of them somebody has accepted."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from voice_ops.assembly import Acknowledgement, Assembly


@dataclass(frozen=True, slots=True)
class Finding:
    """What a scanner does not like of one resource.

    Attributes:
        scanner: `AwsSolutions` (cdk-nag), `checkov` or `cfn-lint`.
        rule: as the scanner writes it, and as an acknowledgement names it.
        stack: name of the stack.
        logical_id: of the resource; empty for the template as a whole.
        message: in the scanner's words.
    """

    scanner: str
    rule: str
    stack: str
    logical_id: str
    message: str

    def __str__(self) -> str:
        return f"{self.scanner} {self.rule}  {self.stack}/{self.logical_id}: {self.message}"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The findings, sorted.

    Attributes:
        open: nobody has accepted these.
        accepted: with the acknowledgement of each.
        refused: acknowledgements that count for nothing, each with the reason.
    """

    open: tuple[Finding, ...]
    accepted: tuple[tuple[Finding, Acknowledgement], ...]
    refused: tuple[str, ...]

    @property
    def clean(self) -> bool:
        """Whether a reviewer has nothing left to do."""
        return not self.open and not self.refused


def judge(assembly: Assembly, findings: Sequence[Finding], *, scanners: Iterable[str]) -> Verdict:
    """Match findings and acknowledgements: one of the one for one of the other.

    Args:
        assembly: holds the acknowledgements.
        findings: of all scanners that ran.
        scanners: which ran; an acknowledgement of another one's finding is left alone.
    """
    ran = set(scanners)
    refused: list[str] = []
    by_key: dict[tuple[str, str, str, str], Acknowledgement] = {}
    for stack in assembly.stacks:
        for given in stack.acknowledgements:
            if given.logical_id is None:
                refused.append(f"{given.scanner} {given.rule} at {given.construct}: covers more than one resource")
            elif not given.reason.strip():
                refused.append(f"{given.scanner} {given.rule} at {given.construct}: gives no reason")
            else:
                by_key[given.scanner, given.rule, given.stack, given.logical_id] = given
    opened: list[Finding] = []
    accepted: list[tuple[Finding, Acknowledgement]] = []
    used = set()
    for finding in findings:
        key = (finding.scanner, finding.rule, finding.stack, finding.logical_id)
        if key in by_key:
            accepted.append((finding, by_key[key]))
            used.add(key)
        else:
            opened.append(finding)
    refused += [
        f"{given.scanner} {given.rule} at {given.construct}: there is no such finding any more; remove it"
        for key, given in by_key.items()
        if key not in used and given.scanner in ran
    ]
    return Verdict(tuple(opened), tuple(accepted), tuple(refused))
