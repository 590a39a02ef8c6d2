"""Where the suite runs: the local cloud, which it deploys and takes down itself, or a stage on AWS.

make integration TARGET=local
make integration TARGET=aws STAGE=dev

docs/integration.md has the options and what a run leaves behind.
"""

import os
import shutil
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import boto3
import pytest
from botocore.exceptions import BotoCoreError, ClientError

from stacks.settings import SettingsError, load_settings, read_context
from tests.e2e.deployed_cloud import ROOT, deployed_cloud
from tests.integration.cost import cost_line
from tests.integration.measuring import Measuring
from tests.integration.stage import CDK_SECONDS, SERVICES, DeployedStage
from voice_local.isolation import leading_elsewhere
from voice_local.running_cloud import CloudDescription
from voice_ops.errors import OpsError
from voice_ops.live_config import ClientOf, LiveConfig, StageNotDeployedError, live_config

PATIENCE = {"local": 60.0, "aws": 3600.0}
"""Seconds to wait for an endpoint that is still created or updated: a container here starts in seconds; on AWS a
guarded update takes up to an hour."""

_MEASURING = pytest.StashKey[Measuring]()
_NO_ACCOUNT = pytest.StashKey[str]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("integration")
    group.addoption("--target", choices=("local", "aws"), default="local", help="where the stage is deployed")
    group.addoption("--stage", default="dev", help="the stage to test")
    group.addoption("--deploy", action="store_true", help="deploy the stage when it is not there (AWS: costs money)")
    group.addoption("--destroy", action="store_true", help="destroy the stage at the end, whoever deployed it")
    group.addoption("--keep", action="store_true", help="keep the stage, whoever deployed it")
    group.addoption("--slow", action="store_true", help="the slow tests too: sessions of 10 minutes and more")
    group.addoption("--patience", type=float, metavar="SECONDS", help="for an endpoint that is still being created")
    group.addoption("--results", type=Path, metavar="DIR", help="where the run's files go (default: build/integration)")


@pytest.hookimpl(tryfirst=True)  # before the plugin that writes the JUnit file looks where it goes
def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "slow: minutes of audio in real time (--slow, or -m slow)")
    config.addinivalue_line("markers", "aws_only: what the local cloud does not imitate")
    config.addinivalue_line("markers", "last: takes the stage down, so it runs after everything else")
    target, stage = config.getoption("--target"), config.getoption("--stage")
    if config.getoption("--keep") and config.getoption("--destroy"):
        raise pytest.UsageError("--keep and --destroy exclude each other")
    try:
        settings = load_settings(read_context(ROOT / "cdk.json"), stage)
    except SettingsError as error:
        raise pytest.UsageError(str(error)) from error
    if target == "aws" and (missing := _missing_account()):
        config.stash[_NO_ACCOUNT] = f"no AWS credentials: {missing}; {cost_line(settings)}"
        return
    if config.option.collectonly:
        return
    began = datetime.now(UTC)
    folder = _results_folder(config, f"{began:%Y-%m-%dT%H%M%SZ}-{target}-{stage}")
    slow = bool(config.getoption("--slow") or "slow" in config.option.markexpr)
    config.stash[_MEASURING] = Measuring(target, stage, slow, folder, began)
    if not config.option.xmlpath:
        config.option.xmlpath = str(folder / "junit.xml")


def _results_folder(config: pytest.Config, name: str) -> Path:
    """Make the folder of this run; of two that begin in one second, the other gets a name of its own."""
    results: Path = config.getoption("--results") or ROOT / "build" / "integration"
    try:
        results.mkdir(parents=True, exist_ok=True)
        folder = results / name
        try:
            folder.mkdir()
        except FileExistsError:
            folder = results / f"{name}-{os.getpid()}"
            folder.mkdir()
    except OSError as error:
        raise pytest.UsageError(
            f"the run's files cannot be written to {results} ({error.strerror}): --results DIR names another folder"
        ) from error
    return folder


def _missing_account() -> str | None:
    """Return what keeps the environment from leading to an account; None when nothing does."""
    try:
        session = boto3.Session()
        found = session.get_credentials() is not None
    except BotoCoreError as error:
        return str(error)
    if not found:
        return "the AWS SDK finds none"
    return None if session.region_name else "there is no region, set AWS_REGION"


class NoAccount(pytest.Item):
    """Stands for the whole suite where nothing can be reached: it is skipped, in one line that says why."""

    def runtest(self) -> None:
        pytest.skip(self.config.stash[_NO_ACCOUNT])

    def reportinfo(self) -> tuple[Path, None, str]:
        return self.path, None, self.name


def pytest_collection_modifyitems(session: pytest.Session, config: pytest.Config, items: list[pytest.Item]) -> None:
    if _NO_ACCOUNT in config.stash and items:
        config.hook.pytest_deselected(items=list(items))
        items[:] = [NoAccount.from_parent(session, name="the suite needs an AWS account")]
        return
    measuring = config.stash.get(_MEASURING, None)
    slow = measuring.slow if measuring is not None else bool(config.getoption("--slow"))
    target = config.getoption("--target")

    def wanted(item: pytest.Item) -> bool:
        if item.get_closest_marker("slow") is not None and not slow:
            return False
        if item.get_closest_marker("aws_only") is not None and target != "aws":
            return False
        return item.get_closest_marker("last") is None or destroys

    destroys = _destroys(config)
    left_out = [item for item in items if not wanted(item)]
    kept = [item for item in items if item not in left_out]
    config.hook.pytest_deselected(items=left_out)
    # What the endpoints are comes first, for it explains what fails after it.
    items[:] = sorted(
        kept,
        key=lambda item: (item.get_closest_marker("last") is not None, item.path.name != "test_endpoints.py"),
    )
    for item in {*items[:1], *items[-1:]}:
        # Its time is also that of the stage's coming up and going down, which nothing may cut short.
        item.add_marker(pytest.mark.timeout(2 * CDK_SECONDS[target] + 600), append=False)


def _destroys(config: pytest.Config) -> bool:
    """Whether this run may destroy the stage: one it deploys itself, or one it is told to."""
    if config.getoption("--keep"):
        return False
    if config.getoption("--target") == "local" or config.getoption("--destroy"):
        return True
    try:
        # With --deploy it deploys a stage that is not there; one that is there is somebody else's.
        return bool(config.getoption("--deploy")) and not _there(config.getoption("--stage"), boto3.Session().client)
    except OpsError:
        return False  # what cannot be found out counts as there, so that nothing is destroyed


def _there(stage: str, client: ClientOf) -> list[LiveConfig]:
    """Return what is deployed of a stage: both voices, one that is left of them, or nothing."""
    found = []
    for service in SERVICES:
        with suppress(StageNotDeployedError):
            found.append(live_config(stage, service, client))
    return found


@pytest.fixture(scope="session")
def measuring(request: pytest.FixtureRequest) -> Measuring:
    """The run's figures."""
    return request.config.stash[_MEASURING]


@pytest.fixture(scope="session")
def stage(request: pytest.FixtureRequest, measuring: Measuring) -> Iterator[DeployedStage]:
    """The stage, deployed."""
    config = request.config
    target: Literal["local", "aws"] = config.getoption("--target")
    wanted = DeployedStage(
        stage=measuring.stage,
        target=target,
        settings=load_settings(read_context(ROOT / "cdk.json"), measuring.stage),
        patience=config.getoption("--patience") or PATIENCE[target],
    )
    running = _on_local_cloud if target == "local" else _on_aws
    with ExitStack() as stack:
        try:
            stage = stack.enter_context(running(wanted, config, measuring))
        except (AssertionError, OpsError) as error:
            # One failure, not one for each test that would have needed the stage.
            request.session.shouldfail = f"there is no stage {measuring.stage} to test"
            pytest.fail(str(error), pytrace=False)
        measuring.region = stage.region
        measuring.endpoint_url = os.environ.get("AWS_ENDPOINT_URL")
        yield stage


@contextmanager
def _on_local_cloud(stage: DeployedStage, config: pytest.Config, measuring: Measuring) -> Iterator[DeployedStage]:
    keep = config.getoption("--keep")
    _say(
        config, f"deploying stage {stage.stage} to a local cloud; {measuring.folder / 'cloud.log'} tells how far it is"
    )
    with (
        deployed_cloud(measuring.folder, stage=stage.stage, keep=keep) as cloud,
        pytest.MonkeyPatch.context() as environment,
    ):
        # From here on this process, and every one it starts, reaches the local cloud and nothing else.
        for name in leading_elsewhere(os.environ):
            environment.delenv(name)
        for name, value in CloudDescription.model_validate(cloud.description).variables().items():
            environment.setenv(name, value)
        stage.created = True
        stage.cdk_app = cloud.run_dir / "deployment" / "cdk.out"
        yield stage
    if not keep:
        shutil.rmtree(cloud.run_dir, ignore_errors=True)  # images and containers' logs, which only it can use


@contextmanager
def _on_aws(stage: DeployedStage, config: pytest.Config, measuring: Measuring) -> Iterator[DeployedStage]:
    log = measuring.folder / "cdk.log"
    there = _there(stage.stage, stage.client)
    paused = [voice.endpoint for voice in there if voice.paused]
    assert not paused, f"stage {stage.stage} is paused: npx cdk deploy --all -c stage={stage.stage} brings it back"
    if not there and not config.getoption("--deploy"):
        raise StageNotDeployedError(
            f"stage {stage.stage} is not deployed in {stage.region}: make deploy STAGE={stage.stage}, name another "
            "stage or region (STAGE, AWS_REGION), or let the suite deploy it and destroy it again (DEPLOY=1)"
        )
    # From its first moment: a deploy that fails or is interrupted leaves what costs money by the hour, too.
    stage.created = not there
    try:
        if stage.created:
            _say(config, f"deploying stage {stage.stage}; {log} tells how far it is")
            stage.deploy(log)
        yield stage
    finally:
        if stage.created and not stage.destroyed and not config.getoption("--keep"):
            _say(config, f"destroying stage {stage.stage}, which this run deployed; {log} tells how far it is")
            try:
                stage.destroy(log)
            finally:
                if not stage.destroyed:
                    _say(config, _still_there(stage.stage))


def _say(config: pytest.Config, line: str) -> None:
    """Show a line now, as what it tells of takes long, though pytest keeps back what tests print."""
    terminal = config.pluginmanager.getplugin("terminalreporter")
    capturing = config.pluginmanager.getplugin("capturemanager")
    if terminal is not None:
        with capturing.global_and_fixture_disabled() if capturing is not None else nullcontext():
            terminal.ensure_newline()
            terminal.write_line(line)


def _still_there(stage: str) -> str:
    return f"stage {stage} is still there and costs money by the hour: make destroy STAGE={stage}"


@pytest.fixture(scope="session", autouse=True)
def facts(stage: DeployedStage, measuring: Measuring) -> None:
    """Note what the endpoints run on, where there are any; what is wrong with them is the tests' to say."""
    for service in SERVICES:
        try:
            measuring.endpoints[service] = stage.facts(service)
        except (ClientError, LookupError):
            continue


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    measuring = item.config.stash.get(_MEASURING, None)
    if measuring is not None and (report.when == "call" or report.outcome != "passed"):
        said = call.excinfo.exconly(tryshort=True) if call.excinfo is not None else ""
        name = item.nodeid.removeprefix("tests/integration/")
        measuring.outcome(name, report.outcome, report.duration, said)
    return report


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    measuring = session.config.stash.get(_MEASURING, None)
    if measuring is None:
        return
    if exitstatus == pytest.ExitCode.INTERRUPTED:
        measuring.report("interrupted").write(measuring.folder)
    elif measuring.tests:
        measuring.report("passed" if exitstatus == pytest.ExitCode.OK else "failed").write(measuring.folder)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    measuring = config.stash.get(_MEASURING, None)
    if measuring is None:
        return
    if figures := measuring.figures():
        terminalreporter.section("measured")
        for name, figure in sorted(figures.items()):
            terminalreporter.line(
                f"{name:28} {figure.unit:6} {figure.count:4} values   p50 {figure.p50:10.3f}   p95 {figure.p95:10.3f}"
            )
    if (report := measuring.folder / "report.md").exists():
        terminalreporter.line(f"report: {report}")
    if config.getoption("--keep"):
        terminalreporter.line(_how_to_end(config))


def _how_to_end(config: pytest.Config) -> str:
    if config.getoption("--target") == "local":
        return "the local cloud runs on (KEEP=1): `voice local env` leads to it, `voice local down` ends it"
    return _still_there(config.getoption("--stage"))
