"""`make deploy` and `make destroy`: the CDK CLI, with what comes before, what is seen meanwhile, and proof afterwards.

    python -m voice_ops.deployment --stage dev                    # doctor, deploy, compare, try it out
    python -m voice_ops.deployment --stage dev -c paused=true     # the endpoints go, the rest stays
    python -m voice_ops.deployment --stage dev --destroy          # and prove that nothing is left

Exit code 0: done and proven; 1: it failed, or the proof did; 2: the settings or the credentials cannot be used; 3: the
doctor found something that would stop the deploy (`--force` goes on); 130: Ctrl-C, SIGTERM or a closed terminal.
"""

import argparse
import json
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from types import FrameType
from typing import Any

from botocore.exceptions import ClientError, EndpointConnectionError
from rich.console import Console
from rich.markup import escape

from stacks.names import weights_stack_name
from stacks.settings import DEFAULT_STAGE, StageSettings, read_context
from voice_ops.assembly import PROJECT, read_assembly
from voice_ops.cdk_command import cdk, run_cdk
from voice_ops.chosen_stage import StageUnusableError, chosen_stage, overrides, screen
from voice_ops.deployment_display import Display
from voice_ops.doctor import Examination, Limits, Status, examine
from voice_ops.doctor.report import show
from voice_ops.errors import OpsError
from voice_ops.kept import Kept, kept_weights
from voice_ops.leftovers import KINDS, StageResource, await_nothing_left, delete_images, stage_images
from voice_ops.live_config import SERVICES, live_config
from voice_ops.prices import ESTIMATE, money
from voice_ops.session import AwsSession, CredentialsUnusableError, NoRegionError, translated
from voice_ops.smoke_test import SmokeTest, hear, speak
from voice_ops.stack_watch import StackEvent, StackWatch
from voice_ops.status import EndpointStatus, stage_status
from voice_ops.work_folder import work_folder

SYNTH_SECONDS = 300.0
"""Takes about 10 s; a first run unpacks the CDK, and a machine may be busy."""

BOOTSTRAP_SECONDS = 300.0
"""Of a local cloud; takes about 10 s."""

LONGEST_SECONDS = 3 * 3600.0
"""For CloudFormation: a guarded update of several instances takes more than an hour, a staging of weights before it up
to another."""

WATCH_SECONDS = 2.0
"""Between two looks at the stacks."""

DOCTOR_FAILED = 3

_DEPLOY = ("--concurrency=4", "--method=direct", "--previous-parameters=false", "--require-approval=never")
"""The stacks do not wait for each other where they need not; direct: no change set that nobody would read."""


_COMMAND_WIDTH = 32
"""Columns of a command beside what it does."""


class DeploymentFailedError(OpsError):
    """It was done, and is not what was asked for; all problems are in the message."""


class DoctorFailedError(OpsError):
    """Something would stop the deploy."""


@dataclass(frozen=True, slots=True)
class Request:
    """What was asked for.

    Attributes:
        settings: of the stage.
        context: `-c` options, key to value.
        aws: where.
        work_dir: takes the templates, the CLI's log and the spoken file.
        force: go on when the doctor found something.
        smoke: try the endpoints out.
    """

    settings: StageSettings
    context: dict[str, str]
    aws: AwsSession
    work_dir: Path
    force: bool
    smoke: bool

    @property
    def stage(self) -> str:
        """Name of the stage."""
        return self.settings.stage

    @property
    def app(self) -> Path:
        """The synthesized templates."""
        return self.work_dir / "cdk.out"

    @property
    def log(self) -> Path:
        """The CLI's output."""
        return self.work_dir / "cdk.log"


def deploy(request: Request, display: Display) -> dict[str, Any]:
    """Deploy a stage and prove it; return what was found, for scripts.

    Raises:
        DoctorFailedError: something would stop the deploy.
        DeploymentFailedError: an endpoint does not serve the new configuration.
        OpsError: see `cdk_command`, `smoke_test` and `session`.
    """
    if request.aws.is_local and not _is_bootstrapped(request.aws):
        _bootstrap(request, display)
    _examine(request, display)
    stacks = _synthesize(request, display)
    _move(request, display, "cdk deploy", ["deploy", "--all", *_DEPLOY], stacks)
    with display.step("the newest config serves") as step:
        configs = [live_config(request.stage, service, request.aws.client) for service in SERVICES]
        problems = [problem for config in configs for problem in config.problems]
        if problems:
            raise DeploymentFailedError("\n".join(["the deployment is not live:", *problems]))
        serving = [f"{config.endpoint}: {config.status}" for config in configs if not config.paused]
        step.outcome = ", ".join(serving) or "paused: no endpoint, nothing bills by the hour"
    tested = _try_out(request, display) if request.smoke and not request.settings.paused else None
    found = stage_status(request.stage, request.aws)
    _say_cost(request, found, display.console)
    return {
        "stage": request.stage,
        "endpoints": [asdict(one) for one in found],
        "smoke_test": None if tested is None else {**asdict(tested), "spoken": str(tested.spoken)},
    }


def destroy(request: Request, display: Display) -> dict[str, Any]:
    """Destroy the stacks of a stage but that of its weights, and prove that nothing else is left.

    Raises:
        DeploymentFailedError: something is left.
        OpsError: see `cdk_command` and `session`.
    """
    images = stage_images(request.stage, request.aws.client)
    stacks = [name for name in _synthesize(request, display) if name != weights_stack_name(request.stage)]
    _move(request, display, "cdk destroy", ["destroy", "--force", "--concurrency=4", *stacks], stacks)
    retains_logs = request.settings.retain_logs
    with display.step("images of the stage") as step:
        deleted = delete_images(images, request.aws.client)
        others = len(images) - len(deleted)
        step.outcome = f"{len(deleted)} deleted" + (f", {others} used by other stages or gone before" if others else "")
    with display.step("nothing is left") as step:
        left = await_nothing_left(request.stage, request.aws.client, images=deleted, retains_logs=retains_logs)
        wrong = [resource for resource in left if not resource.kept]
        if wrong:
            raise DeploymentFailedError("\n".join([f"{len(wrong)} things are left:", *map(_left, wrong)]))
        step.outcome = f"{KINDS} kinds of resource looked for, none found"
        if left:
            step.outcome = f"{KINDS} kinds of resource looked for; the settings keep {len(left)} (logs and their keys)"
    kept = kept_weights(request.stage, request.aws)
    _say_kept(kept, left, display.console)
    return {
        "stage": request.stage,
        "left": [asdict(resource) for resource in left],
        "kept": [asdict(one) for one in kept],
        "images_deleted": [image.name for image in deleted],
    }


def _examine(request: Request, display: Display) -> Examination:
    context = {**read_context(PROJECT / "cdk.json"), **request.context}
    with display.step("voice doctor") as step:
        examination = examine(context, request.stage, PROJECT, limits=Limits())
        step.failed = examination.failed
        step.outcome = ", ".join(
            f"{count} {word}"
            for status, word in ((Status.PASS, "passed"), (Status.WARN, "to know"), (Status.FAIL, "failed"))
            if (count := examination.count(status))
        )
    if examination.failed:
        show(examination, display.console)
        if not request.force:
            raise DoctorFailedError(
                "the doctor found what would stop the deploy; FORCE=1 (--force) goes on all the same"
            )
    return examination


def _synthesize(request: Request, display: Display) -> list[str]:
    """Write the templates; return the stacks' names."""
    with display.step("cdk synth") as step:
        options = [f"--context={name}={value}" for name, value in {**request.context, "stage": request.stage}.items()]
        run_cdk(["synth", "--quiet", f"--output={request.app}", *options], request.log, seconds=SYNTH_SECONDS)
        names = [stack.name for stack in read_assembly(request.app).stacks]
        step.outcome = ", ".join(names)
    return names


def _is_bootstrapped(aws: AwsSession) -> bool:
    with translated("looking for the bootstrap of the local cloud"):
        found = aws.client("ssm").describe_parameters(
            ParameterFilters=[{"Key": "Path", "Option": "Recursive", "Values": ["/cdk-bootstrap"]}]
        )
        return bool(found["Parameters"])


def _bootstrap(request: Request, display: Display) -> None:
    """Bootstrap a local cloud, which costs nothing and is empty at first; on AWS that is an administrator's to do."""
    identity = request.aws.identity
    with display.step("cdk bootstrap"):
        where = f"aws://{identity.account}/{request.aws.region}"
        run_cdk(["bootstrap", where], request.log, seconds=BOOTSTRAP_SECONDS)


def _move(request: Request, display: Display, title: str, words: Sequence[str], stacks: Sequence[str]) -> None:
    """Run a command that changes stacks, and show what they do until it ends."""
    watch = StackWatch(request.stage, stacks, request.aws)
    failures: list[StackEvent] = []
    deadline = time.monotonic() + LONGEST_SECONDS
    with display.moving(title) as moving, cdk([*words, f"--app={request.app}"], request.log) as command:
        ended = False
        while not ended:
            ended = command.has_ended()  # before the look, so that the last look sees the end
            try:
                events, views = watch.look()
            except (OpsError, ClientError) as error:
                if request.aws.is_local and isinstance(error.__cause__, EndpointConnectionError):
                    raise DeploymentFailedError(f"{title}: {error}") from error  # the CLI would try for minutes
                # The CLI needs no looking at: it goes on, and its end is what counts.
                moving.say(f"cannot look at the stacks now: {error}")
            else:
                failures += [event for event in events if event.failed]
                moving.show(events, views)
            if time.monotonic() >= deadline:
                raise DeploymentFailedError(
                    f"{title} has not ended after {LONGEST_SECONDS / 3600:.0f} hours; CloudFormation goes on without it"
                )
            if not ended:
                time.sleep(WATCH_SECONDS)
        if failures and _failed(command):
            reasons = [f"{event.stack} {event.resource} ({event.resource_type}): {event.reason}" for event in failures]
            raise DeploymentFailedError("\n  ".join([f"{title} failed:", *dict.fromkeys(reasons)]) + _where(request))
        command.check()
        moving.outcome = ", ".join(
            f"{', '.join(view.name for view in views)} {status or 'unchanged'}"
            for status, views in groupby(moving.views, key=lambda view: view.status)
        )


def _failed(command: Any) -> bool:
    try:
        command.check()
    except OpsError:
        return True
    return False


def _where(request: Request) -> str:
    return (
        f"\nThe containers' words: voice logs stt --stage {request.stage}, voice logs tts --stage {request.stage}."
        f"\nThe CLI's: {request.log}"
    )


def _try_out(request: Request, display: Display) -> SmokeTest:
    target = request.work_dir / "validation-output.wav"
    region = request.aws.region
    with display.step("voice speak") as step:
        seconds, spoken = speak(request.stage, region, target)
        first_audio = spoken.get("metrics", {}).get("ttfa_ms")
        step.outcome = f"{seconds:.1f} s of audio{_after(first_audio)}"
    with display.step("voice transcribe") as step:
        share, heard = hear(request.stage, region, target)
        first_words = heard.get("metrics", {}).get("first_partial_ms")
        step.outcome = f"{share:.0%} of the words came back{_after(first_words)}"
    display.console.print(f"  To listen: {escape(_short(target))}", soft_wrap=True)
    return SmokeTest(target, seconds, first_audio, first_words, share)


def _after(milliseconds: float | None) -> str:
    return "" if milliseconds is None else f", the first after {milliseconds:.0f} ms"


def _short(path: Path) -> str:
    return str(path.relative_to(PROJECT)) if path.is_relative_to(PROJECT) else str(path)


def _say_cost(request: Request, found: Sequence[EndpointStatus], console: Console) -> None:
    rates = [one.usd_per_hour for one in found if one.instances]
    if not rates:
        return
    cost = f"about [bold]{money(sum(rate for rate in rates if rate is not None))} $ an hour[/bold]"
    console.print(f"  It costs nothing here; on AWS {cost}." if request.aws.is_local else f"  It costs {cost}.")
    for command, words in (
        (f"voice status --stage {request.stage}", "shows what it does"),
        (f"make pause STAGE={request.stage}", "takes the endpoints away, the rest stays"),
        (f"make destroy STAGE={request.stage}", "removes it all"),
    ):
        console.print(f"    {escape(command):<{_COMMAND_WIDTH}}{words}", soft_wrap=True)
    console.print(f"  [dim]{escape(ESTIMATE)}[/dim]", soft_wrap=True)


def _say_kept(kept: Sequence[Kept], left: Sequence[StageResource], console: Console) -> None:
    for one in kept:
        console.print(f"  [yellow]kept[/yellow]  {escape(str(one))}", soft_wrap=True)
    for resource in left:
        console.print(f"  [yellow]kept[/yellow]  {escape(_left(resource))}", soft_wrap=True)
    console.print(
        "  [dim]The stack CDKToolkit stays for other deployments of this account; its bucket keeps old templates, for "
        "cents.[/dim]",
        soft_wrap=True,
    )


def _left(resource: StageResource) -> str:
    return f"{resource.service} {resource.kind} {resource.name}; to remove it: {resource.remove}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Deploy or destroy; return the exit code."""
    given = _parser().parse_args(arguments)
    console = screen(stderr=given.json)
    try:
        context = overrides(given.context)
        settings = chosen_stage(given.stage, given.context)
        aws = AwsSession(settings.region)
        identity = aws.identity
        work_dir = PROJECT / "build" / "deploy" / given.stage
        request = Request(settings, context, aws, work_dir, force=given.force, smoke=not given.no_smoke)
        where = "the local cloud" if aws.is_local else f"AWS account {identity.account}, {aws.region}"
        doing = "Destroying" if given.destroy else "Deploying"
        console.print(f"{doing} stage [bold]{escape(given.stage)}[/bold], {where}")
        if given.destroy and not (given.yes or aws.is_local):
            _confirm(given.stage, where)
        with work_folder(work_dir):
            told = (destroy if given.destroy else deploy)(request, Display(console))
    except (StageUnusableError, CredentialsUnusableError, NoRegionError) as error:
        sys.stderr.write(f"deployment: {error}\n")
        return 2
    except DoctorFailedError as error:
        sys.stderr.write(f"deployment: {error}\n")
        return DOCTOR_FAILED
    except (OpsError, ClientError) as error:
        sys.stderr.write(f"deployment: {error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write(
            "deployment: interrupted. If CloudFormation has begun, it goes on; "
            f"voice status --stage {given.stage} shows it, and when it has ended the same command follows up.\n"
        )
        return 130
    if given.json:
        sys.stdout.write(json.dumps(told) + "\n")
    return 0


def _confirm(stage: str, where: str) -> None:
    if not sys.stdin.isatty():
        raise StageUnusableError(f"destroying stage {stage} in {where} needs --yes where nobody can be asked")
    answer = input(f"Destroy stage {stage} in {where}? Type its name: ")
    if answer.strip() != stage:
        raise StageUnusableError("nothing was destroyed")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m voice_ops.deployment",
        description="Deploy or destroy a stage, with a doctor before it and proof after it.",
        epilog="example: python -m voice_ops.deployment --stage prod -c tts.instance_types=ml.g6.xlarge --json",
    )
    parser.add_argument("--stage", default=DEFAULT_STAGE, help=f"stage of cdk.json (default: {DEFAULT_STAGE})")
    parser.add_argument("-c", "--context", action="append", default=[], metavar="KEY=VALUE", help="as for cdk")
    parser.add_argument("--destroy", action="store_true", help="remove the stage and prove that nothing is left")
    parser.add_argument("--force", action="store_true", help="deploy although the doctor found what would stop it")
    parser.add_argument("--no-smoke", action="store_true", help="do not stream through the endpoints afterwards")
    parser.add_argument("--yes", action="store_true", help="destroy without asking")
    parser.add_argument("--json", action="store_true", help="print one JSON object; the progress goes to stderr")
    return parser


def _interrupt_on_signals() -> None:
    """Let a cancelled CI job (SIGTERM) and a closed terminal (SIGHUP) end the CDK CLI too, the way Ctrl-C does."""
    signals = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup
        signals.append(signal.SIGHUP)

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        # Once: a second Ctrl-C must not cut the clean-up short, which is bounded by itself.
        for number in signals:
            signal.signal(number, signal.SIG_IGN)
        raise KeyboardInterrupt

    for number in signals:
        signal.signal(number, interrupt)


if __name__ == "__main__":
    _interrupt_on_signals()
    raise SystemExit(main())
