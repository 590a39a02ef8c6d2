"""Runs the project's own CDK CLI against the local cloud and reports what its stacks do.

The real CLI, unchanged: `node_modules/.bin/cdk`, pinned by package.json. Its whole output goes to a log file; the
caller gets one `CdkStep` for each stack event, and an error that names the resource and its reason.
"""

import contextlib
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

TERMINATE_SECONDS = 5.0
"""Between asking the CLI's process group to end and killing it."""

BOOTSTRAP_SECONDS = 180.0
"""Takes about 10 s; ten times that only on a machine that swaps."""

DEPLOY_SECONDS = 900.0
"""For both stacks: their containers load engines, at most `ControlPlaneSettings.container_startup_seconds` each."""

DESTROY_SECONDS = 300.0
"""For both stacks: containers get a grace period to end in."""

SYNTH_SECONDS = 240.0
"""A first synthesis takes about 20 s on two cores: jsii unpacks itself."""


@dataclass(frozen=True, slots=True)
class CdkStep:
    """One stack event, as the CLI shows it."""

    stack: str
    status: str
    """CloudFormation's status, such as CREATE_IN_PROGRESS."""
    resource_type: str
    resource: str
    """The construct's path where the template tells it, else the logical id."""
    reason: str
    """Empty when there is none."""


StepListener = Callable[[CdkStep], None]


class CdkCliError(Exception):
    """Base of the errors of running the CDK CLI; each names the log with the CLI's whole output."""


class CdkNotInstalledError(CdkCliError):
    """The project's own CDK CLI is not there."""


class CdkCommandError(CdkCliError):
    """A CDK command failed."""

    def __init__(self, command: str, exit_code: int, reasons: Sequence[str], log: Path) -> None:
        detail = "\n  ".join(reasons) or "it gave no reason"
        super().__init__(f"`cdk {command}` failed (exit {exit_code}):\n  {detail}\nThe whole output: {log}")
        self.command = command
        self.exit_code = exit_code
        self.reasons = tuple(reasons)
        """The failed resources' reasons, or the CLI's last words when no resource failed."""
        self.log = log


class CdkCancelledError(CdkCliError):
    """A CDK command was ended, or not begun, because `CdkCli.cancel` was called."""

    def __init__(self, command: str, log: Path) -> None:
        super().__init__(f"`cdk {command}` was cancelled. Its output until then: {log}")


class CdkTimeoutError(CdkCliError):
    """A CDK command did not end in time and was ended."""

    def __init__(self, command: str, seconds: float, log: Path) -> None:
        super().__init__(f"`cdk {command}` was ended after {seconds:g} s without a result. The whole output: {log}")


_COMMON = ("--no-notices", "--ci", "--no-color", "--no-version-reporting")
_CONCURRENT = "--concurrency=4"
"""The stacks of a stage do not depend on each other; the CLI looks at each of them every 5 s only."""

_DEPLOY = (
    _CONCURRENT,
    # Direct: one operation a stack instead of a change set and its waits.
    "--method=direct",
    # The local cloud keeps no parameter the template does not name.
    "--previous-parameters=false",
    "--require-approval=never",
    "--progress=events",
)


class CdkCli:
    """The CDK CLI of one project, in one environment."""

    def __init__(
        self,
        project_dir: Path,
        environment: Mapping[str, str],
        log: Path,
        *,
        docker: Path | None = None,
        app: Path | None = None,
        context: Mapping[str, str] | None = None,
    ) -> None:
        """Prepare; nothing runs yet.

        Args:
            project_dir: holds cdk.json and node_modules.
            environment: of the CLI; from `isolated_environment`.
            log: file that the CLI's output is appended to. The CLI's own cache goes beside it, not into the home
                directory, where it would mix this account with real ones.
            docker: executable that builds and pushes images; from `docker_shim.write_wrapper`.
            app: a directory that was synthesized before; without it every command synthesizes anew (5 to 20 s).
            context: `-c` values, such as `{"stage": "dev"}`.
        """
        self._project_dir = project_dir
        self._log = log
        self._app = app
        self._context = dict(context or {})
        self._environment = {
            **environment,
            "CDK_HOME": str(log.parent / "cdk-home"),
            # A user's registry credentials would be offered to the registry that this account names.
            "CDK_DOCKER_CREDS_FILE": os.devnull,
            # Advice about Node's version would be taken for the reason of a failure.
            "NODE_NO_WARNINGS": "1",
        }
        if docker is not None:
            self._environment["CDK_DOCKER"] = str(docker)
        self._starting = threading.Lock()
        self._cancelled = False
        self._running: subprocess.Popen[str] | None = None

    def cancel(self) -> None:
        """End the command that runs now and refuse further ones; called from another thread."""
        with self._starting:
            self._cancelled = True
            if self._running is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self._running.pid, signal.SIGTERM)

    def synth(self, output: Path) -> None:
        """Synthesize the app into a directory, to be given as `app` to another `CdkCli`."""
        self._run("synth", ["--quiet", "--output", str(output)], SYNTH_SECONDS, None)

    def list_stacks(self) -> list[str]:
        """Return the names of the app's stacks."""
        lines = self._run("list", [], SYNTH_SECONDS, None)
        return [line.split()[0] for line in lines if re.fullmatch(r"[A-Za-z][\w-]*( \(.*\))?", line.strip())]

    def bootstrap(self, account_id: str, region: str, on_step: StepListener | None = None) -> None:
        """Create the bucket, the repository and the roles that every deployment needs."""
        self._run("bootstrap", [f"aws://{account_id}/{region}"], BOOTSTRAP_SECONDS, on_step)

    def deploy(self, *stacks: str, on_step: StepListener | None = None) -> None:
        """Deploy these stacks, or all."""
        self._run("deploy", [*_DEPLOY, *self._selection(stacks)], DEPLOY_SECONDS, on_step)

    def diff(self, *stacks: str) -> bool:
        """Return whether what is deployed differs from the app; the differences are in the log."""
        # Without --fail the CLI exits 0 either way; with it, 1 means either a difference or an error.
        lines = self._run("diff", ["--method=template", *stacks], SYNTH_SECONDS, None)
        for line in reversed(lines):
            if (found := re.search(r"Number of stacks with differences: (\d+)", line)) is not None:
                return int(found.group(1)) > 0
        raise CdkCommandError("diff", 0, ["the output does not say how many stacks differ"], self._log)

    def destroy(self, *stacks: str, on_step: StepListener | None = None) -> None:
        """Delete these stacks, or all."""
        self._run(
            "destroy", ["--force", "--progress=events", _CONCURRENT, *self._selection(stacks)], DESTROY_SECONDS, on_step
        )

    @staticmethod
    def _selection(stacks: Sequence[str]) -> Sequence[str]:
        return stacks or ("--all",)

    def _executable(self) -> Path:
        path = self._project_dir / "node_modules" / ".bin" / "cdk"
        if not path.exists():
            raise CdkNotInstalledError(f"There is no CDK CLI in {path}; run `npm ci` in {self._project_dir}.")
        return path

    def _run(self, command: str, arguments: Sequence[str], seconds: float, on_step: StepListener | None) -> list[str]:
        """Run one command to its end; return its output's lines.

        Raises:
            CdkNotInstalledError: there is no CLI, or no Node to run it.
            CdkCommandError: it exits with another code than 0.
            CdkTimeoutError: it takes longer than `seconds`.
            CdkCancelledError: `cancel` was called.
        """
        options = [*_COMMON, *(f"--context={name}={value}" for name, value in self._context.items())]
        if self._app is not None:
            options.append(f"--app={self._app}")
        elif command != "synth":
            # The CLI locks its output directory: the project's own may be in use by the developer.
            options.append(f"--output={self._log.parent / 'cdk.out'}")
        line = [str(self._executable()), command, *arguments, *options]
        self._log.parent.mkdir(parents=True, exist_ok=True)
        with self._log.open("a", encoding="utf-8") as log:
            log.write(f"$ cdk {command} {' '.join(arguments)}\n")
            log.flush()
            process = self._start(command, line)
            with _ended_with(process, seconds) as overdue:
                output = _Output(log, on_step)
                output.read(process)
                exit_code = process.wait()
        self._running = None
        if self._cancelled:
            raise CdkCancelledError(command, self._log)
        if overdue.is_set():
            raise CdkTimeoutError(command, seconds, self._log)
        if exit_code != 0:
            raise CdkCommandError(command, exit_code, output.reasons(), self._log)
        return output.lines

    def _start(self, command: str, line: Sequence[str]) -> subprocess.Popen[str]:
        with self._starting:
            if self._cancelled:
                raise CdkCancelledError(command, self._log)
            try:
                self._running = subprocess.Popen(
                    line,
                    cwd=self._project_dir,
                    env=self._environment,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                    encoding="utf-8",
                    errors="replace",
                    # A group of its own: it is ended as a whole, and Ctrl-C reaches it through us alone.
                    start_new_session=True,
                )
            except OSError as error:
                raise CdkNotInstalledError(f"The CDK CLI cannot be started ({error}); is Node installed?") from error
            return self._running


# stack | 3/9 | 10:44:03 AM | CREATE_FAILED | AWS::SageMaker::Endpoint | Path/Of/Construct (LogicalId) reason
_EVENT = re.compile(
    r"^(?P<stack>\S+)\s*\|\s*(?:\d+(?:/\d+)?\s*\|)?\s*(?P<time>\d{1,2}:\d\d:\d\d[^|]*)\|\s*(?P<status>[A-Z_]+)\s*\|"
    r"\s*(?P<type>\S+)\s*\|\s*(?P<rest>.*)$"
)
_RESOURCE = re.compile(r"^(?P<resource>\S+(?: \(\S+\))?)\s*(?P<reason>.*)$")


def parse_event(line: str) -> CdkStep | None:
    """Return the stack event that a line of the CLI's output shows, None when it shows none."""
    if (found := _EVENT.match(line.strip())) is None:
        return None
    named = _RESOURCE.match(found["rest"].strip())
    resource, reason = (named["resource"], named["reason"]) if named else ("", "")
    return CdkStep(found["stack"], found["status"], found["type"], resource.partition(" (")[0], reason.strip())


class _Output:
    """What a command writes: logged, parsed for events, and kept for the error."""

    def __init__(self, log: IO[str], on_step: StepListener | None) -> None:
        self.lines: list[str] = []
        self._log = log
        self._on_step = on_step
        self._failures: list[str] = []

    def read(self, process: subprocess.Popen[str]) -> None:
        """Read until the process closes its output."""
        stream = process.stdout
        if stream is None:
            raise RuntimeError("the process was started without a pipe")
        for raw in stream:
            line = raw.rstrip("\n")
            self._log.write(line + "\n")
            self._log.flush()
            self.lines.append(line)
            if (step := parse_event(line)) is None:
                continue
            if step.status.endswith("FAILED") and step.reason:
                self._failures.append(f"{step.stack} {step.resource_type} {step.resource}: {step.reason}")
            if self._on_step is not None:
                self._on_step(step)

    def reasons(self) -> list[str]:
        """Return why the command failed: the failed resources' reasons, else its last lines."""
        return self._failures or [line.strip() for line in self.lines if line.strip()][-5:]


class _ended_with(contextlib.AbstractContextManager[threading.Event]):  # noqa: N801 (read as a sentence in `with`)
    """Ends a process group with the block, however it is left, and after a deadline."""

    def __init__(self, process: subprocess.Popen[str], seconds: float) -> None:
        self._process = process
        self._overdue = threading.Event()
        self._timer = threading.Timer(seconds, self._expire)
        self._timer.daemon = True

    def __enter__(self) -> threading.Event:
        self._timer.start()
        return self._overdue

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        self._end()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def _expire(self) -> None:
        self._overdue.set()
        self._end()

    def _end(self) -> None:
        # The group, not the leader: the CLI's own children must not outlive it.
        if not self._signal(signal.SIGTERM):
            self._process.wait()
            return
        deadline = time.monotonic() + TERMINATE_SECONDS
        while time.monotonic() < deadline:
            self._process.poll()
            if not self._signal(0):
                return
            time.sleep(0.05)
        self._signal(signal.SIGKILL)
        self._process.wait()

    def _signal(self, number: int) -> bool:
        """Signal the group; return whether there is one left."""
        try:
            os.killpg(self._process.pid, number)
        except ProcessLookupError:
            return False
        except PermissionError:
            # macOS answers so for a group of which only zombies are left.
            return False
        return True
