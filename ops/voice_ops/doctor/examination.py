"""Runs the checks: those of this machine first and at once, the account's when the credentials are good."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stacks.settings import StageSettings
from voice_ops.assembly import Assembly
from voice_ops.doctor import account, builder, images, model_hub, permissions, price, quotas, toolchain, weights
from voice_ops.doctor.check import Check, Status, failed, skipped
from voice_ops.doctor.stack_state import stack
from voice_ops.doctor.stage_settings import examine_settings
from voice_ops.doctor.steps import Progress, Runner, Step
from voice_ops.doctor.subject import Limits, Places, Subject
from voice_ops.session import AwsSession, CredentialsUnusableError, NoRegionError

QUALIFIER_KEY = "@aws-cdk/core:bootstrapQualifier"

MACHINE = "This machine"
ACCOUNT = "AWS account"
STAGE = "Stage"


@dataclass(frozen=True, slots=True)
class Examination:
    """All lines, in the order they are shown.

    Attributes:
        stage: which stage was examined.
        groups: heading to lines.
    """

    stage: str
    groups: Mapping[str, tuple[Check, ...]]

    @property
    def checks(self) -> tuple[Check, ...]:
        """Every line."""
        return tuple(check for checks in self.groups.values() for check in checks)

    @property
    def failed(self) -> bool:
        """Whether a deploy should not be begun."""
        return any(check.status is Status.FAIL for check in self.checks)

    def count(self, status: Status) -> int:
        """Return how many lines ended so."""
        return sum(check.status is status for check in self.checks)

    def as_json(self) -> dict[str, list[dict[str, str]]]:
        """Return the form for scripts: `{"checks": [{"id", "status", "detail", "advice"}]}`."""
        return {"checks": [check.as_json() for check in self.checks]}


def examine(
    context: Mapping[str, Any],
    stage: str,
    project: Path,
    *,
    environment: Mapping[str, str] | None = None,
    limits: Limits | None = None,
    assembly: Assembly | None = None,
    offline: bool = False,
    progress: Progress | None = None,
) -> Examination:
    """Examine a stage; nothing is created or changed, and it ends whatever hangs (`Limits.step_seconds`, twice).

    Args:
        context: of cdk.json, with the overrides of the command line in it.
        stage: of cdk.json.
        project: folder of the checkout.
        environment: variables that tools are run with and places are read from. Default: the process's own; AWS is
            reached by the process's own in any case.
        limits: Default: `Limits()`.
        assembly: the templates that are about to be deployed, to be looked at too.
        offline: ask nothing beyond this machine.
        progress: called from this thread.
    """
    limits = limits or Limits()
    places = Places.of(project, os.environ if environment is None else environment)
    settings, setting_lines = examine_settings(context, stage)
    runner = Runner(limits, progress)
    aws, session_line = (None, None) if offline else _session(settings)

    first = _machine_steps(places, limits, setting_lines)
    if settings is not None:
        first.append(Step(("price",), lambda: [price.price(settings, aws.region if aws else settings.region)]))
        first += _public_steps(settings, aws, places, limits, offline=offline)
    region = aws.region if aws else (settings.region if settings else None) or os.environ.get("AWS_REGION")
    if region and not offline:
        first.append(Step(("region",), lambda: [account.region(region)]))
    if aws is not None:
        first.append(Step(("credentials",), lambda: [account.credentials(aws, settings)], failed))
    runner.run(first)
    if session_line is not None:
        runner.add(session_line)

    usable = aws is not None and runner.status_of("credentials") in {Status.PASS, Status.WARN}
    if aws is not None and usable and settings is not None:
        subject = Subject(settings, aws, places, limits, assembly)
        runner.run(_account_steps(subject, str(context.get(QUALIFIER_KEY) or account.DEFAULT_QUALIFIER)))
    else:
        _skip_account(runner, _why_not(settings, aws, offline=offline), known={check.id for check in runner.lines()})
    return Examination(stage, _in_order(runner, setting_lines))


def _session(settings: StageSettings | None) -> tuple[AwsSession | None, Check | None]:
    try:
        return AwsSession(settings.region if settings else None), None
    except NoRegionError as error:
        return None, failed("region", str(error), "set AWS_REGION")
    except CredentialsUnusableError as error:
        return None, failed("credentials", str(error), "correct AWS_PROFILE, or the file it is in")


def _why_not(settings: StageSettings | None, aws: AwsSession | None, *, offline: bool) -> str:
    if offline:
        return "not asked: --offline"
    if settings is None:
        return "the settings cannot be used"
    return "no region or profile to ask with" if aws is None else "no usable credentials: see the line `credentials`"


def _machine_steps(places: Places, limits: Limits, setting_lines: Sequence[Check]) -> list[Step]:
    return [
        Step(("settings",), lambda: [line for line in setting_lines if line.id == "settings"]),
        Step(("python",), lambda: [toolchain.python()]),
        Step(("node",), lambda: [toolchain.node(places, limits)]),
        Step(("cdk-cli",), lambda: [toolchain.cdk_cli(places)]),
        Step(("packages",), lambda: [toolchain.packages(places)]),
        Step(("builder", "platform", "disk"), lambda: builder.builder_checks(places, limits)),
    ]


def _public_steps(
    settings: StageSettings, aws: AwsSession | None, places: Places, limits: Limits, *, offline: bool
) -> list[Step]:
    if offline:
        ids = ("image.stt", "model.stt", "model.tts")
        return [Step(ids, lambda: (skipped(check, "not asked: --offline") for check in ids))]
    return [
        Step(("image.stt",), lambda: [images.bridge_base_image(settings, places, limits)]),
        Step(("model.stt", "model.tts"), lambda: model_hub.model_checks(settings, aws, places, limits)),
    ]


def _account_steps(subject: Subject, qualifier: str) -> list[Step]:
    return [
        Step(("bootstrap",), lambda: [account.bootstrap(subject, qualifier)]),
        Step(
            ("permissions.deploy", "permissions.stream"),
            lambda: permissions.permission_checks(subject, qualifier),
        ),
        Step(("quota.*",), lambda: quotas.quota_checks(subject)),
        Step(("stack.stt",), lambda: [stack(subject, "stt")]),
        Step(("stack.tts",), lambda: [stack(subject, "tts")]),
        Step(("image.tts",), lambda: [images.voice_image(subject)]),
        Step(("ami.stt",), lambda: [images.inference_ami(subject, "stt")]),
        Step(("ami.tts",), lambda: [images.inference_ami(subject, "tts")]),
        Step(("weights.stt", "weights.tts"), lambda: weights.weights_checks(subject)),
    ]


_ORDER: tuple[tuple[str, tuple[str, ...]], ...] = (
    (MACHINE, ("settings", "python", "node", "cdk-cli", "packages", "builder", "platform", "disk")),
    (ACCOUNT, ("credentials", "region", "bootstrap", "permissions.deploy", "permissions.stream", "quota")),
    (
        STAGE,
        (
            "stack.stt",
            "stack.tts",
            "image.stt",
            "image.tts",
            "ami.stt",
            "ami.tts",
            "model.stt",
            "model.tts",
            "weights.stt",
            "weights.tts",
            "price",
        ),
    ),
)


def _skip_account(runner: Runner, why: str, known: set[str]) -> None:
    for _, ids in _ORDER[1:]:
        for check in ids:
            if check not in known:
                runner.add(skipped(check, why))


def _in_order(runner: Runner, setting_lines: Sequence[Check]) -> dict[str, tuple[Check, ...]]:
    # A setting that would have led to a wrong AMI is that line's answer, not what the check found without it.
    instead = {line.id: line for line in setting_lines}
    lines = {check.id: instead.get(check.id, check) for check in runner.lines()}
    return {
        group: tuple(
            line for wanted in ids for name, line in lines.items() if name == wanted or name.startswith(f"{wanted}.ml.")
        )
        for group, ids in _ORDER
    }
