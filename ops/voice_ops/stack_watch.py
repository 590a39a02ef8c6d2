"""What the stacks of a stage do while something deploys or destroys them: events, endpoint, container's last words."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from botocore.exceptions import ClientError

from stacks.names import Service, endpoint_name
from voice_ops.live_config import SERVICES
from voice_ops.logs import last_lines
from voice_ops.session import AwsSession, translated

LOG_SECONDS = 600.0
"""How far back a container's last words are looked for: loading a model is silent for minutes."""


@dataclass(frozen=True, slots=True)
class StackEvent:
    """One event of a stack."""

    stack: str
    resource: str
    """Logical id."""
    resource_type: str
    status: str
    reason: str
    """Empty when there is none."""

    @property
    def failed(self) -> bool:
        """Whether something went wrong here, and not only because something else did."""
        return self.status.endswith("_FAILED") and "cancelled" not in self.reason


@dataclass(frozen=True, slots=True)
class StackView:
    """One stack now.

    Attributes:
        name: of the stack.
        status: CloudFormation's, or empty when there is no such stack (yet, or any more).
        working_on: logical ids that are in progress.
        endpoint_state: SageMaker's, of the endpoint in it; empty when there is none.
        last_words: of its container while its endpoint is not in service.
    """

    name: str
    status: str
    working_on: tuple[str, ...]
    endpoint_state: str
    last_words: str


class StackWatch:
    """Looks at some stacks again and again; each look tells what is new.

    Args:
        stage: of the stacks.
        stacks: their names.
        aws: who asks.
    """

    def __init__(self, stage: str, stacks: Sequence[str], aws: AwsSession) -> None:
        self._stage = stage
        self._stacks = tuple(stacks)
        self._aws = aws
        self._began = datetime.now(UTC)
        self._seen: set[str] = set()
        self._progress: dict[str, dict[str, str]] = {name: {} for name in stacks}
        self._stack_ids: dict[str, str] = {}
        self._services: dict[str, Service] = {endpoint_name(stage, service): service for service in SERVICES}

    def look(self) -> tuple[list[StackEvent], list[StackView]]:
        """Return the events since the last look, oldest first, and the stacks as they are.

        Raises:
            AwsError: AWS could not be asked.
        """
        events = [event for name in self._stacks for event in self._new_events(name)]
        return events, [self._view(name) for name in self._stacks]

    def _new_events(self, name: str) -> list[StackEvent]:
        fresh: list[dict[str, Any]] = []
        try:
            with translated(f"watching stack {name}"):
                # By its id: a stack that is deleted is not found by name, and its last events are the news.
                pages = (
                    self._aws.client("cloudformation")
                    .get_paginator("describe_stack_events")
                    .paginate(StackName=self._stack_ids.get(name, name))
                )
                for page in pages:
                    if page["StackEvents"]:
                        self._stack_ids[name] = page["StackEvents"][0]["StackId"]
                    news = [
                        event
                        for event in page["StackEvents"]
                        if event["EventId"] not in self._seen and event["Timestamp"] >= self._began
                    ]
                    fresh += news
                    if len(news) < len(page["StackEvents"]):
                        break
        except ClientError as error:
            if error.response["Error"]["Code"] != "ValidationError":
                raise
            return []  # not there yet
        found = []
        for event in sorted(fresh, key=lambda one: one["Timestamp"]):
            self._seen.add(event["EventId"])
            if event["PhysicalResourceId"] == event["StackId"] and event["ResourceStatus"] == "DELETE_COMPLETE":
                self._stack_ids.pop(name, None)  # a new one may come by the name
            self._progress[name][event["LogicalResourceId"]] = event["ResourceStatus"]
            found.append(
                StackEvent(
                    stack=name,
                    resource=event["LogicalResourceId"],
                    resource_type=event["ResourceType"],
                    status=event["ResourceStatus"],
                    reason=event.get("ResourceStatusReason", ""),
                )
            )
        return found

    def _view(self, name: str) -> StackView:
        progress = self._progress[name]
        working = tuple(
            resource for resource, status in progress.items() if status.endswith("_IN_PROGRESS") and resource != name
        )
        state = self._endpoint_state(name) if name in self._services else ""
        words = ""
        if state in {"Creating", "Updating", "Failed", "SystemUpdating"}:
            lines = last_lines(self._stage, self._services[name], self._aws, since_seconds=LOG_SECONDS, count=1)
            words = lines[-1].text if lines else ""
        return StackView(name, progress.get(name, ""), working, state, words)

    def _endpoint_state(self, name: str) -> str:
        try:
            with translated(f"looking at endpoint {name}"):
                return str(self._aws.client("sagemaker").describe_endpoint(EndpointName=name)["EndpointStatus"])
        except ClientError as error:
            if error.response["Error"]["Code"] != "ValidationException":
                raise
            return ""
