"""Runs one invocation of a Python function: `python_function.py CODE_DIR HANDLER RESULT_FILE`, the event on stdin.

Runs in a process of its own with the environment of the function, so it uses the standard library alone. What the
handler returns, or the error it raised in the form Lambda reports it, is written to RESULT_FILE as JSON.
"""

import importlib
import json
import os
import sys
import time
import traceback
from pathlib import Path


class Context:
    """What Lambda tells a handler about its invocation."""

    def __init__(self) -> None:
        self.function_name = os.environ["AWS_LAMBDA_FUNCTION_NAME"]
        self.function_version = "$LATEST"
        self.memory_limit_in_mb = os.environ["AWS_LAMBDA_FUNCTION_MEMORY_SIZE"]
        self.invoked_function_arn = os.environ["VOICE_LOCAL_FUNCTION_ARN"]
        self.aws_request_id = os.environ["VOICE_LOCAL_REQUEST_ID"]
        self.log_group_name = os.environ["AWS_LAMBDA_LOG_GROUP_NAME"]
        self.log_stream_name = os.environ["AWS_LAMBDA_LOG_STREAM_NAME"]
        self._deadline = time.monotonic() + float(os.environ["VOICE_LOCAL_TIMEOUT_SECONDS"])

    def get_remaining_time_in_millis(self) -> int:
        """Return how long the handler may still take."""
        return max(0, int((self._deadline - time.monotonic()) * 1000))


def main() -> int:
    """Run the handler; exit code 0 when it returned, 1 when it raised."""
    code, handler, result = sys.argv[1:]
    # In place of this file's own folder: the function's modules, as in Lambda.
    sys.path[0] = code
    module_name, _, function_name = handler.rpartition(".")
    try:
        module = importlib.import_module(module_name.replace("/", "."))
        answer = json.dumps(getattr(module, function_name)(json.load(sys.stdin), Context()))
        failed = False
    except Exception as error:  # noqa: BLE001 (whatever the handler raises is its answer)
        traceback.print_exc()
        answer = json.dumps({"errorMessage": str(error), "errorType": type(error).__name__})
        failed = True
    Path(result).write_text(answer, encoding="utf-8")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
