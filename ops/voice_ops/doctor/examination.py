"""Runs the checks: those of this machine first and at once, the account's when the credentials are good."""

import logging
import os
import queue
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError

from stacks.settings import StageSettings
from voice_ops.assembly import Assembly
from voice_ops.doctor import account, builder, images, model_hub, permissions, price, quotas, toolchain, weights
from voice_ops.doctor.check import Check, Status, failed, skipped, warned
from voice_ops.doctor.stack_state import stack_checks
from voice_ops.doctor.stage_settings import examine_settings
from voice_ops.doctor.subject import Limits, Places, Subject
from voice_ops.session import (
    AwsError,
    AwsSession,
    CredentialsUnusableError,
    NoRegionError,
    NotPermittedError,
    error_code,
)

_log = logging.getLogger(__name__)

QUALIFIER_KEY = "@aws-cdk/core:bootstrapQualifier"

MACHINE = "This machine"
ACCOUNT = "AWS account"
STAGE = "Stage"


@dataclass(frozen=True, slots=True)
class Step:
    """Something that is looked at as a whole, and the lines it fills.

    Attributes:
        ids: of the lines; one that ends with `.*` stands for several.
        run: yields the lines.
    """

    ids: tuple[str, ...]
    run: Callable[[], Iterable[Check]] = field(repr=False)


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


Progress = Callable[[int, int], None]
"""Is told how many of the steps known so far have ended."""


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
    """Examine a stage; nothing is created or changed, and every wait is bounded.

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
    runner = _Runner(limits.threads, progress or (lambda _done, _known: None))
    aws, session_line = (None, None) if offline else _session(settings)

    first = _machine_steps(places, limits, setting_lines)
    if settings is not None:
        first.append(Step(("price",), lambda: [price.price(settings, aws.region if aws else settings.region)]))
        first += _public_steps(settings, aws, places, limits, offline=offline)
    if aws is not None:
        first.append(Step(("region",), lambda: [account.region(aws)]))
        first.append(Step(("credentials",), lambda: [account.credentials(aws, settings)]))
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
        Step(("stack.stt", "stack.tts"), lambda: stack_checks(subject)),
        Step(("image.tts",), lambda: [images.voice_image(subject)]),
        Step(("ami.stt", "ami.tts"), lambda: images.ami_checks(subject)),
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


def _skip_account(runner: "_Runner", why: str, known: set[str]) -> None:
    for _, ids in _ORDER[1:]:
        for check in ids:
            if check not in known:
                runner.add(skipped(check, why))


def _in_order(runner: "_Runner", setting_lines: Sequence[Check]) -> dict[str, tuple[Check, ...]]:
    # A setting that would have led to a wrong AMI is that line's answer, not what the check found without it.
    instead = {line.id: line for line in setting_lines}
    lines = {check.id: instead.get(check.id, check) for check in runner.lines()}
    return {
        group: tuple(
            line for wanted in ids for name, line in lines.items() if name == wanted or name.startswith(f"{wanted}.ml.")
        )
        for group, ids in _ORDER
    }


class _Runner:
    """Runs steps in threads that end with the process, so that Ctrl-C waits for no answer."""

    def __init__(self, threads: int, progress: Progress) -> None:
        self._threads = threads
        self._progress = progress
        self._lines: list[Check] = []
        self._known = self._done = 0

    def add(self, check: Check) -> None:
        self._lines.append(check)

    def lines(self) -> tuple[Check, ...]:
        return tuple(self._lines)

    def status_of(self, check: str) -> Status | None:
        return next((line.status for line in self._lines if line.id == check), None)

    def run(self, steps: Sequence[Step]) -> None:
        """Run steps to their end."""
        self._known += len(steps)
        waiting: queue.SimpleQueue[Step] = queue.SimpleQueue()
        ended: queue.SimpleQueue[list[Check]] = queue.SimpleQueue()
        for step in steps:
            waiting.put(step)

        def work() -> None:
            while True:
                try:
                    step = waiting.get_nowait()
                except queue.Empty:
                    return
                ended.put(_lines_of(step))

        for number in range(min(self._threads, len(steps))):
            threading.Thread(target=work, name=f"doctor-{number}", daemon=True).start()
        for _ in steps:
            self._lines += ended.get()  # bounded: every check bounds its own waits
            self._done += 1
            self._progress(self._done, self._known)


def _lines_of(step: Step) -> list[Check]:
    """Run one step; whatever it raises becomes its lines, and never somebody else's."""
    lines: list[Check] = []
    try:
        lines.extend(step.run())
    except CredentialsUnusableError as error:
        lines += [skipped(check, str(error)) for check in _missing(step, lines)]
    except NotPermittedError as error:
        advice = "allow it to have this looked at, or look yourself"
        lines += [warned(check, f"not looked at: {error}", advice) for check in _missing(step, lines)]
    except AwsError as error:
        lines += [warned(check, f"not looked at: {error}", "run this again") for check in _missing(step, lines)]
    except ClientError as error:
        said = error.response.get("Error", {}).get("Message", "")
        detail = f"not looked at: {error.operation_name} was answered with {error_code(error)}: {said}"
        lines += [warned(check, detail, "look yourself, or run this again") for check in _missing(step, lines)]
    except Exception as error:  # noqa: BLE001 - becomes a line that fails
        # A fault of one check must hide no other; it is shown, fails the examination, and is logged whole.
        _log.debug("The check %s failed", step.ids, exc_info=True)
        detail = f"the check itself failed: {type(error).__name__}: {error}"
        lines += [
            failed(check, detail, "a fault of this program: VOICE_DEBUG=1 shows where")
            for check in _missing(step, lines)
        ]
    return lines


def _missing(step: Step, lines: Sequence[Check]) -> Iterator[str]:
    there = [line.id for line in lines]
    for check in step.ids:
        name = check.removesuffix(".*")
        if not any(found == name or found.startswith(f"{name}.") for found in there):
            yield name
