"""Custom resources: the function behind a resource's service token is run, and its answer is waited for.

The protocol is CloudFormation's own: an event with a URL, which the function PUTs its answer to:
https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/crpg-ref.html
"""

import json
import secrets
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote

from voice_local.control_plane.errors import ResourceError
from voice_local.control_plane.function_runtime import FunctionError, FunctionRuntime
from voice_local.control_plane.resources import ResourceRequest, StackResource
from voice_local.control_plane.settings import ControlPlaneSettings
from voice_local.control_plane.unlocked_requests import UnlockedAnswer, UnlockedRequest
from voice_local.identity import LocalIdentity

CUSTOM_RESOURCE = "AWS::CloudFormation::CustomResource"

LONGEST_ANSWER = 4096
"""Bytes of an answer's body, CloudFormation's own limit."""


@dataclass(slots=True)
class _Ticket:
    """One answer that is waited for."""

    path: str
    query: str
    arrived: threading.Event = field(default_factory=threading.Event)
    body: bytes = b""


class ResponseDesk:
    """Takes the answers of custom resources; only who was given a URL can answer, once."""

    def __init__(self, identity: LocalIdentity, url: str) -> None:
        # Named like CloudFormation's own bucket, us-east-1 without its dashes.
        self._root = f"/cloudformation-custom-resource-response-{identity.region.replace('-', '')}/"
        self._url = url
        self._lock = threading.Lock()
        self._tickets: dict[str, _Ticket] = {}

    @property
    def root(self) -> str:
        """The path below which answers are PUT; what is there is asked for its token, not for a signature."""
        return self._root

    def open(self, stack_id: str, logical_id: str, request_id: str) -> _Ticket:
        """Make a place for one answer."""
        path = self._root + quote(f"{stack_id}|{logical_id}|{request_id}", safe="")
        ticket = _Ticket(path, f"X-Amz-Signature={secrets.token_hex(32)}")
        with self._lock:
            self._tickets[path] = ticket
        return ticket

    def url_of(self, ticket: _Ticket) -> str:
        """Return where the answer is PUT."""
        return f"{self._url}{ticket.path}?{ticket.query}"

    def close(self, ticket: _Ticket) -> None:
        """Take no answer any more."""
        with self._lock:
            self._tickets.pop(ticket.path, None)

    def answer(self, request: UnlockedRequest) -> UnlockedAnswer | None:
        """Take an answer; None when the request is none."""
        if not request.path.startswith(self._root):
            return None
        with self._lock:
            ticket = self._tickets.get(request.path)
            known = ticket is not None and secrets.compare_digest(ticket.query, request.query)
            if not known or ticket is None or request.method != "PUT":
                return UnlockedAnswer(403)
            if not ticket.arrived.is_set():
                ticket.body = request.body
                ticket.arrived.set()
        return UnlockedAnswer(200)


@dataclass(frozen=True, slots=True)
class _Answer:
    physical_id: str
    data: Mapping[str, Any]


class CustomResource:
    """Provider of `AWS::CloudFormation::CustomResource` and every `Custom::` type."""

    def __init__(
        self,
        runtime: FunctionRuntime,
        desk: ResponseDesk,
        settings: ControlPlaneSettings,
        may_still_answer: Callable[[], bool] = lambda: False,
    ) -> None:
        """`may_still_answer` says whether anything else runs that an ended function may have left its answer to."""
        self._runtime = runtime
        self._desk = desk
        self._settings = settings
        self._may_still_answer = may_still_answer

    def replaces(self, current: StackResource, properties: Mapping[str, Any]) -> bool:
        """Return False: the function itself says so, by another physical id."""
        del current, properties
        return False

    def create(self, request: ResourceRequest) -> StackResource:
        """Send `Create`."""
        answer = self._ask("Create", request)
        return _resource(request, answer)

    def update(self, current: StackResource, request: ResourceRequest) -> StackResource:
        """Send `Update`; another physical id in the answer means a new resource, and the old one is deleted later."""
        if current.properties.get("ServiceToken") != request.properties.get("ServiceToken"):
            raise ResourceError("Modifying service token is not allowed.")
        answer = self._ask("Update", request, current)
        return replace(_resource(request, answer), supersedes=answer.physical_id != current.physical_resource_id)

    def delete(self, current: StackResource) -> None:
        """Send `Delete`."""
        request = ResourceRequest(
            stack_name=current.stack_id.partition(":stack/")[2].partition("/")[0],
            stack_id=current.stack_id,
            logical_id=current.logical_resource_id,
            type=current.cf_resource_type,
            properties=current.properties,
        )
        self._ask("Delete", request, current)

    def _ask(self, kind: str, request: ResourceRequest, current: StackResource | None = None) -> _Answer:
        properties = dict(request.properties)
        token = str(properties.get("ServiceToken", ""))
        if ":lambda:" not in token:
            raise ResourceError(
                f"ServiceToken {token or '(missing)'} is no Lambda function; this local cloud runs no other handlers."
            )
        request_id = str(uuid.uuid4())
        ticket = self._desk.open(request.stack_id, request.logical_id, request_id)
        event: dict[str, Any] = {
            "RequestType": kind,
            "ServiceToken": token,
            "ResponseURL": self._desk.url_of(ticket),
            "StackId": request.stack_id,
            "RequestId": request_id,
            "LogicalResourceId": request.logical_id,
            "ResourceType": request.type,
            "ResourceProperties": _as_text(properties),
        }
        if current is not None:
            event["PhysicalResourceId"] = current.physical_resource_id
            if kind == "Update":
                event["OldResourceProperties"] = _as_text(dict(current.properties))
        try:
            return self._answer(event, ticket, request, current)
        finally:
            self._desk.close(ticket)

    def _answer(
        self, event: dict[str, Any], ticket: _Ticket, request: ResourceRequest, current: StackResource | None
    ) -> _Answer:
        began = time.monotonic()
        limit = float(request.properties.get("ServiceTimeout", self._settings.custom_resource_seconds))
        ended = _Ended(self._runtime, str(event["ServiceToken"]), json.dumps(event).encode())
        while not ticket.arrived.wait(0.05):
            reason = ended.reason()
            # Asked in this order: what runs still may end, after its answer, between the two.
            if reason is not None and not self._may_still_answer() and not ticket.arrived.is_set():
                raise ResourceError(
                    f"CloudFormation did not receive a response from your Custom Resource: {reason} "
                    "(AWS would go on waiting, up to an hour)"
                )
            if time.monotonic() - began > limit:
                raise ResourceError(
                    f"CloudFormation did not receive a response from your Custom Resource within {limit:g} s."
                )
        told = _read(ticket.body)
        physical_id = str(told.get("PhysicalResourceId") or (current.physical_resource_id if current else ""))
        if told.get("Status") != "SUCCESS":
            reason = f"Received response status [{told.get('Status')}] from custom resource. Message returned: "
            left = None
            if current is None and physical_id:
                left = _resource(request, _Answer(physical_id, {}))
            raise ResourceError(reason + str(told.get("Reason", "")), left=left)
        if not physical_id:
            raise ResourceError("Invalid PhysicalResourceId: the custom resource's answer has none.")
        return _Answer(physical_id, told.get("Data") or {})


class _Ended:
    """A function that runs beside; tells how it ended."""

    def __init__(self, runtime: FunctionRuntime, name: str, event: bytes) -> None:
        self._runtime = runtime
        self._name = name
        self._event = event
        self._reason: str | None = None
        threading.Thread(target=self._run, name=f"custom-resource-{name}", daemon=True).start()

    def reason(self) -> str | None:
        """Return why no answer can come any more, None while the function runs."""
        return self._reason

    def _run(self) -> None:
        try:
            done = self._runtime.invoke(self._name, self._event)
        except FunctionError as error:
            self._reason = str(error)
            return
        told = done.payload.decode(errors="replace")[:500]
        self._reason = f"the function raised {told}" if done.failed else "the function ended without sending one"


def _read(body: bytes) -> dict[str, Any]:
    if len(body) > LONGEST_ANSWER:
        raise ResourceError(f"Response object is too long: {len(body)} bytes, at most {LONGEST_ANSWER} are allowed.")
    try:
        told = json.loads(body)
    except ValueError as error:
        raise ResourceError(f"Invalid response from the custom resource: it is no JSON ({error}).") from error
    if not isinstance(told, dict):
        raise ResourceError("Invalid response from the custom resource: it is no JSON object.")
    return told


def _resource(request: ResourceRequest, answer: _Answer) -> StackResource:
    return StackResource(
        logical_resource_id=request.logical_id,
        cf_resource_type=request.type,
        physical_resource_id=answer.physical_id,
        attributes=dict(answer.data),
        properties=request.properties,
        stack_id=request.stack_id,
    )


def _as_text(value: Any) -> Any:
    """Return properties as CloudFormation hands them over: every number and boolean is a string."""
    if isinstance(value, Mapping):
        return {key: _as_text(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_as_text(item) for item in value]
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
