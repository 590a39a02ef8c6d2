"""`python -m voice_ops.review --stage prod`: what a stage would create, may do and costs, and what scanners say of it.

Exit code 0: a reviewer has nothing left to do; 1: findings nobody accepted, or something public; 2: the review itself
could not be made.
"""

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from stacks.settings import SettingsError, StageSettings, load_settings, read_context
from voice_ops.assembly import PROJECT, Assembly, SynthesizedStack, synthesize
from voice_ops.errors import OpsError
from voice_ops.findings import Finding, Verdict, judge
from voice_ops.prices import ESTIMATE, money
from voice_ops.readable import public_access, statements, text
from voice_ops.running_cost import StageCost, stage_cost
from voice_ops.scanners import CDK_NAG, CFN_LINT, CHECKOV, cdk_nag_findings, cfn_lint_findings, checkov_findings

SCANNERS = {CDK_NAG: cdk_nag_findings, CFN_LINT: cfn_lint_findings, CHECKOV: checkov_findings}

_NAME_PROPERTIES = ("EndpointName", "LogGroupName", "Name", "ResourceId", "AlarmDescription", "ServiceName")


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the review; return the exit code."""
    given = _parser().parse_args(arguments)
    try:
        overrides = dict(_override(item) for item in given.context)
        settings = load_settings({**read_context(PROJECT / "cdk.json"), **overrides}, given.stage)
        scanners = [name for name in SCANNERS if name not in given.without]
        with tempfile.TemporaryDirectory(prefix="voice-review-") as folder:
            assembly = synthesize(given.stage, overrides, Path(folder) / "cdk.out", scanned=CDK_NAG in scanners)
            findings = [finding for name in scanners for finding in SCANNERS[name](assembly)]
            verdict = judge(assembly, findings, scanners=scanners)
            for line in report(settings, assembly, findings, verdict, scanners):
                sys.stdout.write(f"{line}\n")
    except (OpsError, SettingsError) as error:
        sys.stderr.write(f"review: {error}\n")
        return 2
    public = [line for stack in assembly.stacks for line in public_access(stack)]
    return 0 if verdict.clean and not public else 1


def report(
    settings: StageSettings,
    assembly: Assembly,
    findings: Sequence[Finding],
    verdict: Verdict,
    scanners: Sequence[str],
) -> Iterator[str]:
    """Yield the lines of a review."""
    yield f"Stage {settings.stage}: {len(assembly.stacks)} stacks{', paused' if settings.paused else ''}"
    for stack in assembly.stacks:
        yield ""
        yield from _created(stack)
    yield ""
    yield "Who may do what"
    for stack in assembly.stacks:
        for statement in statements(stack):
            yield f"  {stack.name}: {statement}"
    yield ""
    yield "Public"
    public = [f"{stack.name}: {line}" for stack in assembly.stacks for line in public_access(stack)]
    yield from (f"  {line}" for line in public or ["nothing"])
    yield ""
    yield from _costs(stage_cost(settings, assembly.stacks))
    yield ""
    yield from _findings(findings, verdict, scanners)


def _created(stack: SynthesizedStack) -> Iterator[str]:
    protection = ", termination protection" if stack.termination_protection else ""
    tags = ", ".join(f"{name}={value}" for name, value in sorted(stack.tags.items()))
    yield f"Stack {stack.name}: {len(stack.resources)} resources{protection}; tags {tags}"
    for logical_id, resource in sorted(stack.resources.items(), key=lambda item: (item[1]["Type"], item[0])):
        properties = resource.get("Properties", {})
        named = next((text(properties[name]) for name in _NAME_PROPERTIES if name in properties), "")
        kept = "  (kept on delete)" if resource.get("DeletionPolicy", "Delete").startswith("Retain") else ""
        yield f"  {resource['Type']:44} {logical_id}{f'  {named}' if named else ''}{kept}"


def _costs(cost: StageCost) -> Iterator[str]:
    yield f"What it costs, US dollars; {ESTIMATE}"
    for endpoint in cost.endpoints:
        least, most = endpoint.instances
        instances = f"{least}" if least == most else f"{least}-{most}"
        unknown = f"  (no price known for {', '.join(endpoint.unknown)})" if endpoint.unknown else ""
        yield (
            f"  {endpoint.endpoint}: {instances} instances, {money(endpoint.cheapest)} to "
            f"{money(endpoint.dearest)} an hour{unknown}"
        )
    (low, high), (low_month, high_month) = cost.per_hour, cost.per_month
    if not cost.endpoints:
        yield "  no endpoint, so nothing by the hour"
    yield f"  keys, alarms, metrics, dashboards, VPC endpoints: {money(cost.standing)} a month"
    yield f"  best pool entry:  {money(low)} an hour, {money(low_month)} a month"
    yield f"  worst pool entry: {money(high)} an hour, {money(high_month)} a month"
    yield "  besides: images in ECR, log lines, data transfer; twice the instances while a guarded update runs"


def _findings(findings: Sequence[Finding], verdict: Verdict, scanners: Sequence[str]) -> Iterator[str]:
    yield "Findings"
    for name in SCANNERS:
        if name not in scanners:
            yield f"  {name}: not run"
            continue
        count = sum(finding.scanner == name for finding in findings)
        open_count = sum(finding.scanner == name for finding in verdict.open)
        yield f"  {name}: {count}, of which {count - open_count} acknowledged"
    for finding, acknowledgement in verdict.accepted:
        where = f"{finding.stack}/{finding.logical_id}"
        yield f"  ok    {finding.scanner} {finding.rule}  {where}: {acknowledgement.reason}"
    for finding in verdict.open:
        yield f"  OPEN  {finding}"
    for refused in verdict.refused:
        yield f"  OPEN  acknowledgement {refused}"
    yield (
        "  nothing is left to do" if verdict.clean else "  Change the construct, or acknowledge the finding beside it."
    )


def _override(item: str) -> tuple[str, str]:
    key, separator, value = item.partition("=")
    if not separator:
        raise OpsError(f"-c {item}: write it as key=value")
    return key, value


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m voice_ops.review", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--stage", default="dev", help="stage of cdk.json (default: dev)")
    parser.add_argument("-c", "--context", action="append", default=[], metavar="KEY=VALUE", help="as for cdk")
    parser.add_argument("--without", action="append", default=[], choices=list(SCANNERS), help="leave a scanner out")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
