"""Fills moto's gaps in Lambda: functions run as plain processes, and write into the log group they are given.

`Invoke` is answered outside of moto, because a function calls the control plane while it runs and moto answers one
request at a time.
"""

import base64
import json
import logging
import threading
from typing import Any
from urllib.parse import unquote

from moto.awslambda.models import LambdaFunction

from voice_local.control_plane.function_runtime import FunctionError, FunctionRuntime
from voice_local.control_plane.patches import Patches
from voice_local.control_plane.unlocked_requests import UnlockedAnswer, UnlockedRequest

_log = logging.getLogger(__name__)

_FUNCTIONS = "/2015-03-31/functions/"
_INVOCATIONS = "/invocations"


def install(patches: Patches) -> None:
    """Put the gap's filling into moto; `patches` takes it out again."""
    patches.around(LambdaFunction, "__init__", _keep_log_group)


def _keep_log_group(make: Any, function: Any, account_id: str, spec: dict[str, Any], *rest: Any, **named: Any) -> None:
    make(function, account_id, spec, *rest, **named)
    if group := (spec.get("LoggingConfig") or {}).get("LogGroup"):
        function.logs_group_name = group


class FunctionInvocations:
    """Answers `Invoke`."""

    def __init__(self, runtime: FunctionRuntime) -> None:
        self._runtime = runtime

    def answer(self, request: UnlockedRequest) -> UnlockedAnswer | None:
        """Run the function that the path names; None when the request is none of these."""
        if request.method != "POST" or not request.path.startswith(_FUNCTIONS):
            return None
        if not request.path.endswith(_INVOCATIONS):
            return None
        name = unquote(request.path[len(_FUNCTIONS) : -len(_INVOCATIONS)])
        event = request.body or b"{}"
        match request.headers.get("X_AMZ_INVOCATION_TYPE", "RequestResponse"):
            case "DryRun":
                return UnlockedAnswer(204)
            case "Event":
                threading.Thread(target=self._run, args=(name, event), name=f"function-{name}", daemon=True).start()
                return UnlockedAnswer(202)
        try:
            done = self._runtime.invoke(name, event)
        except FunctionError as error:
            return _refused(error)
        headers = {"Content-Type": "application/json", "X-Amz-Executed-Version": "$LATEST"}
        if done.failed:
            headers["X-Amz-Function-Error"] = "Unhandled"
        if request.headers.get("X_AMZ_LOG_TYPE") == "Tail":
            headers["X-Amz-Log-Result"] = base64.b64encode(done.log.encode()).decode()
        return UnlockedAnswer(200, done.payload, headers)

    def _run(self, name: str, event: bytes) -> None:
        try:
            self._runtime.invoke(name, event)
        except FunctionError as error:
            _log.warning("%s", error)


def _refused(error: FunctionError) -> UnlockedAnswer:
    missing = str(error).startswith("There is no function")
    code = "ResourceNotFoundException" if missing else "ServiceException"
    body = json.dumps({"Type": "User", "Message": str(error)}).encode()
    headers = {"Content-Type": "application/json", "X-Amzn-ErrorType": code}
    # 400, not 5xx: the SDKs would run the function again.
    return UnlockedAnswer(404 if missing else 400, body, headers)
