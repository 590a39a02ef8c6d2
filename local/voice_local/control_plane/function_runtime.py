"""Runs Lambda functions as plain processes: what custom resources of a stack need, without Docker.

moto runs functions in Docker containers. Here a Python function runs with this Python, which has boto3, and a Node.js
function with the Node that the CDK CLI needs, and with the AWS SDK for JavaScript out of a `node_modules` folder
(Lambda brings the SDK along; a laptop has it when it is installed there). Both see the local cloud and nothing else.
"""

import io
import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import uuid
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from moto.awslambda.utils import get_backend
from moto.core.exceptions import ServiceException
from moto.logs.models import logs_backends
from werkzeug.exceptions import HTTPException

from voice_local.control_plane.endpoint_logs import put_lines
from voice_local.control_plane.errors import ControlPlaneError
from voice_local.control_plane.settings import ControlPlaneSettings
from voice_local.identity import LocalIdentity
from voice_local.isolation import isolated_environment

_log = logging.getLogger(__name__)

BOOTSTRAPS = Path(__file__).parent / "function_bootstraps"
"""What runs inside a function's process."""

_KEPT_VARIABLES = ("PATH", "LANG", "LC_ALL", "TMPDIR")


class FunctionError(ControlPlaneError):
    """A function could not be run at all, or ended without a result; the message says why."""


@dataclass(frozen=True, slots=True)
class Invocation:
    """How one invocation ended."""

    payload: bytes
    """JSON: what the handler returned, or the error it raised."""
    failed: bool
    """Whether the handler raised."""
    log: str
    """The last lines it wrote, at most 4 KiB, as Lambda returns them on request."""


@dataclass(frozen=True, slots=True)
class _Function:
    """What is needed of moto's function to run it, read while its state is locked."""

    name: str
    arn: str
    runtime: str
    handler: str
    code: bytes
    variables: Mapping[str, str]
    memory_mb: int
    timeout_seconds: float
    log_group: str


class FunctionRuntime:
    """Runs the functions of one local cloud; called from any thread, without moto's state locked."""

    def __init__(
        self,
        identity: LocalIdentity,
        settings: ControlPlaneSettings,
        state_lock: threading.RLock,
        url: str,
    ) -> None:
        """`url` is the control plane's, which the functions' SDKs talk to."""
        self._identity = identity
        self._settings = settings
        self._state_lock = state_lock
        self._url = url
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._closed = False

    def invoke(self, name: str, event: bytes) -> Invocation:
        """Run a function to its end.

        Args:
            name: name or ARN.
            event: JSON.

        Raises:
            FunctionError: there is no such function, its runtime cannot run here, it took too long or gave no result.
        """
        function = self._find(name)
        with tempfile.TemporaryDirectory(prefix="voice-local-function-") as folder:
            work = Path(folder)
            code, result = work / "code", work / "result.json"
            code.mkdir()
            try:
                zipfile.ZipFile(io.BytesIO(function.code)).extractall(code)
            except zipfile.BadZipFile as error:
                raise FunctionError(f"The code of function {function.name} is no zip file: {error}") from error
            output = self._run(function, event, code, result)
            self._keep_log(function, output)
            tail = output[-4096:]
            if not result.exists():
                last = next((line for line in reversed(output.splitlines()) if line.strip()), "it wrote nothing")
                raise FunctionError(f"The function {function.name} ended without a result: {last.strip()}")
            payload = result.read_bytes()
        told = json.loads(payload)
        return Invocation(payload, isinstance(told, dict) and "errorType" in told and "errorMessage" in told, tail)

    def close(self) -> None:
        """End every running function; further invocations fail."""
        with self._lock:
            self._closed = True
            running = list(self._running)
        for process in running:
            _kill_group(process)

    def _find(self, name: str) -> _Function:
        with self._state_lock:
            backend = get_backend(self._identity.account_id, self._identity.region)
            try:
                model: Any = backend.get_function(name)
            except (ServiceException, HTTPException) as error:
                raise FunctionError(f"There is no function {name}.") from error
            # As Lambda: a group that no stack made is made by the first invocation, and stays.
            logs_backends[self._identity.account_id][self._identity.region].ensure_log_group(model.logs_group_name)
            return _Function(
                name=model.function_name,
                arn=model.function_arn,
                runtime=str(model.run_time or ""),
                handler=str(model.handler or ""),
                code=model.code_bytes,
                variables={key: str(value) for key, value in model.environment_vars.items()},
                memory_mb=int(model.memory_size),
                timeout_seconds=float(model.timeout),
                log_group=model.logs_group_name,
            )

    def _run(self, function: _Function, event: bytes, code: Path, result: Path) -> str:
        # Lambda does not count a function's start against its time-out.
        limit = function.timeout_seconds + self._settings.function_start_seconds
        with self._lock:
            if self._closed:
                raise FunctionError(f"The function {function.name} cannot run: the control plane stops.")
            try:
                process = subprocess.Popen(
                    [*_command(function.runtime), str(code), function.handler, str(result)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    cwd=code,
                    env=self._environment(function, code, limit),
                    start_new_session=True,
                )
            except OSError as error:
                raise FunctionError(f"The function {function.name} cannot be started: {error}") from error
            self._running.add(process)
        try:
            output, _ = process.communicate(event, timeout=limit)
        except subprocess.TimeoutExpired as error:
            _kill_group(process)
            output, _ = process.communicate()
            self._keep_log(function, output.decode(errors="replace"))
            raise FunctionError(
                f"The function {function.name} was ended after {limit:g} s: its Timeout of "
                f"{function.timeout_seconds:g} s and {self._settings.function_start_seconds:g} s for its start."
            ) from error
        finally:
            _kill_group(process)  # what it left running ends with it
            with self._lock:
                self._running.discard(process)
        return output.decode(errors="replace")

    def _environment(self, function: _Function, code: Path, limit: float) -> dict[str, str]:
        request_id = str(uuid.uuid4())
        kept = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
        isolated = isolated_environment(
            # A function's own variables cannot lead it elsewhere either.
            {**kept, "HOME": str(code.parent), **function.variables},
            identity=self._identity,
            control_plane_url=self._url,
        )
        return isolated | {
            "LAMBDA_TASK_ROOT": str(code),
            "_HANDLER": function.handler,
            "AWS_EXECUTION_ENV": f"AWS_Lambda_{function.runtime}",
            "AWS_LAMBDA_FUNCTION_NAME": function.name,
            "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST",
            "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(function.memory_mb),
            "AWS_LAMBDA_LOG_GROUP_NAME": function.log_group,
            "AWS_LAMBDA_LOG_STREAM_NAME": f"[$LATEST]{request_id}",
            "VOICE_LOCAL_FUNCTION_ARN": function.arn,
            "VOICE_LOCAL_REQUEST_ID": request_id,
            "VOICE_LOCAL_TIMEOUT_SECONDS": f"{limit:g}",
            "NODE_PATH": os.pathsep.join(map(str, _node_modules(self._settings))),
            "PYTHONUNBUFFERED": "1",
        }

    def _keep_log(self, function: _Function, output: str) -> None:
        logs = logs_backends[self._identity.account_id][self._identity.region]
        lines = [line for line in output.splitlines() if line.strip()]
        if lines:
            put_lines(logs, self._state_lock, function.log_group, f"[$LATEST]{uuid.uuid4().hex}", lines)


def _command(runtime: str) -> list[str]:
    if runtime.startswith("python"):
        return [sys.executable, str(BOOTSTRAPS / "python_function.py")]
    if runtime.startswith("nodejs"):
        node = shutil.which("node")
        if node is None:
            raise FunctionError(f"A function with runtime {runtime} needs Node.js, and there is no `node` on the PATH.")
        return [node, str(BOOTSTRAPS / "node_function.cjs")]
    raise FunctionError(f"Functions of runtime {runtime or '(an image)'} cannot run here; python and nodejs can.")


def _node_modules(settings: ControlPlaneSettings) -> list[Path]:
    """Return the folders in which functions find the AWS SDK for JavaScript."""
    if settings.node_modules is not None:
        return [settings.node_modules]
    # The project in whose folder the cloud was started, and the source tree of this package.
    return [folder / "node_modules" for folder in (Path.cwd(), Path(__file__).parents[3])]


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
