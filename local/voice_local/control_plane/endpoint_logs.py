"""What endpoints' containers write, in CloudWatch Logs under `/aws/sagemaker/Endpoints/{EndpointName}`.

One stream an instance, named `{variant}/{instance}`:
https://docs.aws.amazon.com/sagemaker/latest/dg/logging-cloudwatch.html
"""

import threading
import time
from typing import Any

from moto.logs.models import logs_backends

from voice_local.identity import LocalIdentity

GROUP_PREFIX = "/aws/sagemaker/Endpoints/"

LONGEST_EVENT = 256 * 1024
"""Characters of one event; CloudWatch Logs takes 256 KiB, and cuts what is longer."""


class EndpointLogs:
    """Implements `OutputSink` with moto's log groups."""

    def __init__(self, identity: LocalIdentity, state_lock: threading.RLock) -> None:
        self._identity = identity
        self._state_lock = state_lock

    def open(self, endpoint: str) -> None:
        """Make the endpoint's log group unless a stack has made it."""
        with self._state_lock:
            self._backend().ensure_log_group(GROUP_PREFIX + endpoint)

    def write(self, endpoint: str, stream: str, lines: list[str]) -> None:
        """Append lines to a stream. A group that was deleted meanwhile is not made again."""
        put_lines(self._backend(), self._state_lock, GROUP_PREFIX + endpoint, stream, lines)

    def _backend(self) -> Any:
        return logs_backends[self._identity.account_id][self._identity.region]


def put_lines(backend: Any, state_lock: threading.RLock, group: str, stream: str, lines: list[str]) -> None:
    """Append lines to a stream of a group that exists, with the time of now; without the group, do nothing."""
    now = int(time.time() * 1000)
    events = [{"timestamp": now, "message": line[:LONGEST_EVENT]} for line in lines]
    with state_lock:
        if group not in backend.groups:
            return
        if stream not in backend.groups[group].streams:
            backend.create_log_stream(group, stream)
        backend.put_log_events(group, stream, events)
