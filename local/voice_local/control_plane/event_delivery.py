"""Takes events of AWS's own services to the Lambda functions that EventBridge's rules name; moto delivers to none."""

import json
import logging
import threading
import uuid
from datetime import UTC, datetime
from typing import Any

from moto.events.models import events_backends

from voice_local.control_plane.function_runtime import FunctionError, FunctionRuntime
from voice_local.identity import LocalIdentity

_log = logging.getLogger(__name__)


class EventDelivery:
    """The default event bus of one local cloud, as far as functions listen to it."""

    def __init__(self, identity: LocalIdentity, state_lock: threading.RLock, functions: FunctionRuntime) -> None:
        self._identity = identity
        self._state_lock = state_lock
        self._functions = functions

    def deliver(self, *, source: str, detail_type: str, resources: list[str], detail: dict[str, Any]) -> None:
        """Run the functions of every enabled rule that the event matches, one after the other."""
        event: Any = {
            "version": "0",
            "id": str(uuid.uuid4()),
            "source": source,
            "detail-type": detail_type,
            "account": self._identity.account_id,
            "time": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "region": self._identity.region,
            "resources": resources,
            "detail": detail,
        }
        for arn in self._targets(event):
            if ":lambda:" not in arn:
                _log.warning("An event of %s is for %s; this local cloud delivers to functions only", source, arn)
                continue
            try:
                self._functions.invoke(arn, json.dumps(event).encode())
            except FunctionError as error:
                _log.warning("An event of %s was not taken: %s", source, error)

    def _targets(self, event: Any) -> list[str]:
        with self._state_lock:
            backend = events_backends[self._identity.account_id][self._identity.region]
            rules = list(backend.event_buses["default"].rules.values())
            return [
                str(target["Arn"])
                for rule in rules
                if rule.state == "ENABLED"
                and rule.event_pattern.matches_event(event)
                # A rule with a schedule alone has an empty pattern, which would match everything.
                and rule.event_pattern.get_pattern()
                for target in rule.targets
            ]
