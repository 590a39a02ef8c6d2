"""Creates, updates and deletes stacks in the background, with the events, roll-backs and clean-up of CloudFormation.

moto does all of it inside the API call, without events for resources, and leaves a half-made stack when a resource
fails. A CLI that polls events, and a test of a failing deployment, need what is here.
"""

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from moto.cloudformation import models
from moto.core.exceptions import ServiceException

from voice_local.control_plane.custom_resource import CUSTOM_RESOURCE
from voice_local.control_plane.errors import ResourceError
from voice_local.control_plane.resources import MotoResources, ResourceProvider, ResourceRequest, StackResource
from voice_local.control_plane.stack_template import StackResources

_log = logging.getLogger(__name__)

_RETAINED = frozenset({"Retain", "RetainExceptOnCreate"})


class OperationStoppedError(Exception):
    """The control plane stops while a stack operation runs."""


@dataclass(slots=True)
class _Change:
    """What one update did to a resource, enough to undo it."""

    logical_id: str
    before: StackResource | None
    after: StackResource | None
    replaced: bool


class StackOperations:
    """Runs the operations of all stacks, one thread each."""

    def __init__(
        self,
        moto: MotoResources,
        providers: Mapping[str, ResourceProvider],
        state_lock: threading.RLock,
        stopping: threading.Event,
    ) -> None:
        """`state_lock` guards moto's models; never held while a resource is created, updated or deleted.

        `stopping` is set by `close`, and ends the providers' own waits.
        """
        self._moto = moto
        self._providers = providers
        self._state_lock = state_lock
        self._stopping = stopping
        self._threads: set[threading.Thread] = set()
        self._threads_lock = threading.Lock()

    def create(self, stack: Any, on_created: Callable[[], None]) -> None:
        """Create the stack's resources; returns at once. `on_created` is called when all exist."""
        self._set_status(stack, "CREATE_IN_PROGRESS", "User Initiated")
        self._start(stack, "CREATE_FAILED", lambda: self._create(stack, on_created))

    def update(
        self, stack: Any, template: dict[str, Any], parameters: Mapping[str, Any], on_updated: Callable[[], None]
    ) -> None:
        """Bring the stack to another template and other parameters; returns at once."""
        self._set_status(stack, "UPDATE_IN_PROGRESS", "User Initiated")
        self._start(stack, "UPDATE_ROLLBACK_FAILED", lambda: self._update(stack, template, parameters, on_updated))

    def delete(self, stack: Any, on_deleted: Callable[[], None]) -> None:
        """Delete the stack's resources; returns at once. `on_deleted` is called when none is left."""
        self._set_status(stack, "DELETE_IN_PROGRESS", "User Initiated")
        self._start(stack, "DELETE_FAILED", lambda: self._delete(stack, on_deleted))

    def replaces(self, current: StackResource, properties: Mapping[str, Any]) -> bool:
        """Return whether an update to these properties would make a new resource; False for an unknown type."""
        try:
            return self._provider(current.cf_resource_type).replaces(current, properties)
        except ResourceError:
            return False

    def is_quiet(self) -> bool:
        """Return whether no operation runs."""
        with self._threads_lock:
            return not self._threads

    def close(self, seconds: float) -> None:
        """End the running operations after their current resource and wait for them."""
        self._stopping.set()
        with self._threads_lock:
            threads = list(self._threads)
        for thread in threads:
            thread.join(seconds)

    def _start(self, stack: Any, failed_status: str, work: Callable[[], None]) -> None:
        def body() -> None:
            try:
                work()
            except OperationStoppedError:
                _log.info("The operation on stack %s ends with the control plane", stack.name)
            except Exception as error:  # noqa: BLE001 (the end of a thread)
                # The stack's events are the only place left to report to.
                _log.exception("The operation on stack %s ended unexpectedly", stack.name)
                self._set_status(stack, failed_status, f"Internal error of the local cloud: {error!r}")
            finally:
                with self._threads_lock:
                    self._threads.discard(threading.current_thread())

        thread = threading.Thread(target=body, name=f"stack-{stack.name}", daemon=True)
        with self._threads_lock:
            self._threads.add(thread)
        thread.start()

    def _create(self, stack: Any, on_created: Callable[[], None]) -> None:
        resources: StackResources = stack.resource_map
        try:
            for logical_id in resources.wanted():
                self._create_one(stack, logical_id)
        except (ResourceError, ServiceException) as error:
            reason = f"The following resource(s) failed to create. {_message(error)}"
            if stack.disable_rollback:
                self._set_status(stack, "CREATE_FAILED", reason)
                return
            self._set_status(stack, "ROLLBACK_IN_PROGRESS", f"{reason} Rollback requested by user.")
            failed = self._delete_all(stack, rollback=True)
            self._set_status(stack, "ROLLBACK_FAILED" if failed else "ROLLBACK_COMPLETE", failed)
            return
        with self._state_lock:
            on_created()
        self._set_status(stack, "CREATE_COMPLETE")

    def _update(
        self, stack: Any, template: dict[str, Any], parameters: Mapping[str, Any], on_updated: Callable[[], None]
    ) -> None:
        resources: StackResources = stack.resource_map
        old_template, old_parameters = resources.template, dict(resources.input_parameters)
        changes: list[_Change] = []
        try:
            with self._state_lock:
                resources.use(template, parameters)
            wanted = resources.wanted()
            for logical_id in wanted:
                self._update_one(stack, logical_id, changes)
        except (ResourceError, ServiceException) as error:
            self._set_status(stack, "UPDATE_ROLLBACK_IN_PROGRESS", _message(error))
            failed = self._undo(stack, changes)
            with self._state_lock:
                resources.use(old_template, old_parameters)
            self._set_status(stack, "UPDATE_ROLLBACK_FAILED" if failed else "UPDATE_ROLLBACK_COMPLETE", failed)
            return
        self._set_status(stack, "UPDATE_COMPLETE_CLEANUP_IN_PROGRESS")
        self._clean_up(stack, changes, wanted, old_template)
        with self._state_lock:
            on_updated()
        self._set_status(stack, "UPDATE_COMPLETE")

    def _delete(self, stack: Any, on_deleted: Callable[[], None]) -> None:
        if failed := self._delete_all(stack, rollback=False):
            self._set_status(stack, "DELETE_FAILED", failed)
            return
        with self._state_lock:
            self._set_status(stack, "DELETE_COMPLETE")
            on_deleted()

    def _create_one(self, stack: Any, logical_id: str) -> StackResource:
        self._go_on()
        definition = stack.resource_map.definition(logical_id)
        event = _Event(stack, logical_id, definition["Type"])
        self._record(event, "CREATE_IN_PROGRESS")
        try:
            provider = self._provider(definition["Type"])
            created = provider.create(self._request(stack, logical_id))
        except (ResourceError, ServiceException) as error:
            left = getattr(error, "left", None)
            if isinstance(left, StackResource):
                with self._state_lock:
                    stack.resource_map.put(logical_id, left)
            self._record(event, "CREATE_FAILED", _message(error))
            raise ResourceError(f"[{logical_id}]: {_message(error)}") from error
        with self._state_lock:
            stack.resource_map.put(logical_id, created)
        self._record(event, "CREATE_COMPLETE", physical_id=created.physical_resource_id)
        return created

    def _update_one(self, stack: Any, logical_id: str, changes: list[_Change]) -> None:
        before = stack.resource_map.created.get(logical_id)
        if before is None:
            changes.append(_Change(logical_id, None, self._create_one(stack, logical_id), replaced=False))
            return
        self._go_on()
        resource_type = stack.resource_map.definition(logical_id)["Type"]
        request = self._request(stack, logical_id)
        if resource_type == before.cf_resource_type and request.properties == before.properties:
            return
        event = _Event(stack, logical_id, resource_type, before.physical_resource_id)
        replaced = resource_type != before.cf_resource_type or self._provider(resource_type).replaces(
            before, request.properties
        )
        reason = "Requested update requires the creation of a new physical resource." if replaced else None
        self._record(event, "UPDATE_IN_PROGRESS", reason)
        try:
            provider = self._provider(resource_type)
            after = provider.create(request) if replaced else provider.update(before, request)
        except (ResourceError, ServiceException) as error:
            left = getattr(error, "left", None)
            if isinstance(left, StackResource):
                changes.append(_Change(logical_id, before, left, replaced=True))
            self._record(event, "UPDATE_FAILED", _message(error))
            raise ResourceError(f"[{logical_id}]: {_message(error)}") from error
        with self._state_lock:
            stack.resource_map.put(logical_id, after)
        changes.append(_Change(logical_id, before, after, replaced or after.supersedes))
        self._record(event, "UPDATE_COMPLETE", physical_id=after.physical_resource_id)

    def _undo(self, stack: Any, changes: list[_Change]) -> str | None:
        """Take the changes back, last first; return what failed."""
        problems = []
        for change in reversed(changes):
            try:
                self._undo_one(stack, change)
            except (ResourceError, ServiceException) as error:
                problems.append(f"[{change.logical_id}]: {_message(error)}")
        return "; ".join(problems) or None

    def _undo_one(self, stack: Any, change: _Change) -> None:
        before, after = change.before, change.after
        if after is not None and (before is None or change.replaced):
            self._delete_one(stack, change.logical_id, after)
        if before is None:
            return
        restored = before
        if after is not None and not change.replaced:
            event = _Event(stack, change.logical_id, before.cf_resource_type, before.physical_resource_id)
            self._record(event, "UPDATE_IN_PROGRESS")
            restored = self._provider(before.cf_resource_type).update(after, _request_again(stack, before))
            self._record(event, "UPDATE_COMPLETE")
        with self._state_lock:
            stack.resource_map.put(change.logical_id, restored)

    def _clean_up(self, stack: Any, changes: list[_Change], wanted: list[str], old_template: dict[str, Any]) -> None:
        """Delete what was replaced or is no longer in the template, in reverse order of creation."""
        unwanted = [c.before for c in changes if c.replaced and c.before is not None]
        removed = [r for name, r in stack.resource_map.created.items() if name not in wanted]
        for resource in reversed([*removed, *unwanted]):
            logical_id = resource.logical_resource_id
            policy = "UpdateReplacePolicy" if resource in unwanted else "DeletionPolicy"
            retained = old_template["Resources"].get(logical_id, {}).get(policy) in _RETAINED
            try:
                self._delete_one(stack, logical_id, resource, retained=retained)
            except (ResourceError, ServiceException) as error:
                # CloudFormation ends the update well and leaves the resource, with a failed event that says so.
                _log.warning(
                    "Stack %s leaves %s behind: %s", stack.name, resource.physical_resource_id, _message(error)
                )
            if resource in removed:
                with self._state_lock:
                    stack.resource_map.discard(logical_id)

    def _delete_all(self, stack: Any, *, rollback: bool) -> str | None:
        """Delete every resource of the stack, last created first; return what failed."""
        resources: StackResources = stack.resource_map
        problems = []
        for logical_id, resource in reversed(resources.created.items()):
            policy = resources.template["Resources"].get(logical_id, {}).get("DeletionPolicy")
            # A create that is rolled back keeps what says Retain, and removes what says RetainExceptOnCreate.
            retained = policy == "Retain" or (policy in _RETAINED and not rollback)
            try:
                self._delete_one(stack, logical_id, resource, retained=retained)
            except (ResourceError, ServiceException) as error:
                problems.append(f"[{logical_id}]: {_message(error)}")
                continue
            with self._state_lock:
                resources.discard(logical_id)
        return f"The following resource(s) failed to delete: {'; '.join(problems)}" if problems else None

    def _delete_one(self, stack: Any, logical_id: str, resource: StackResource, *, retained: bool = False) -> None:
        self._go_on()
        event = _Event(stack, logical_id, resource.cf_resource_type, resource.physical_resource_id)
        if retained:
            self._record(event, "DELETE_SKIPPED")
            return
        self._record(event, "DELETE_IN_PROGRESS")
        try:
            self._provider(resource.cf_resource_type).delete(resource)
        except (ResourceError, ServiceException) as error:
            self._record(event, "DELETE_FAILED", _message(error))
            raise
        self._record(event, "DELETE_COMPLETE")

    def _provider(self, resource_type: str) -> ResourceProvider:
        family = CUSTOM_RESOURCE if resource_type.startswith("Custom::") else resource_type
        if (provider := self._providers.get(family)) is not None:
            return provider
        if self._moto.serves(resource_type):
            return self._moto
        raise ResourceError(
            f"Unrecognized resource type {resource_type}: this local cloud cannot create it. "
            "AWS may; the local cloud would have to learn it in resource_types.py."
        )

    def _request(self, stack: Any, logical_id: str) -> ResourceRequest:
        with self._state_lock:
            return ResourceRequest(
                stack_name=stack.name,
                stack_id=stack.stack_id,
                logical_id=logical_id,
                type=stack.resource_map.definition(logical_id)["Type"],
                properties=stack.resource_map.properties(logical_id),
                stack_tags=dict(stack.tags or {}),
            )

    def _go_on(self) -> None:
        if self._stopping.is_set():
            raise OperationStoppedError

    def _set_status(self, stack: Any, status: str, reason: str | None = None) -> None:
        with self._state_lock:
            stack.status = status
            stack.stack_status_reason = reason
            stack._add_stack_event(status, resource_status_reason=reason)
            _append(stack, stack.events.pop())

    def _record(
        self, event: "_Event", status: str, reason: str | None = None, *, physical_id: str | None = None
    ) -> None:
        if physical_id is not None:
            event.physical_id = physical_id
        with self._state_lock:
            recorded = models.Event(
                stack_id=event.stack.stack_id,
                stack_name=event.stack.name,
                logical_resource_id=event.logical_id,
                physical_resource_id=event.physical_id,
                resource_type=event.type,
                resource_status=status,
                resource_status_reason=reason,
                resource_properties=None,
            )
            _append(event.stack, recorded)


def _append(stack: Any, recorded: Any) -> None:
    # Readers sort events by their time, which has milliseconds: no two of a stack may have the same.
    if stack.events:
        recorded.timestamp = max(recorded.timestamp, stack.events[-1].timestamp + timedelta(milliseconds=1))
    stack.events.append(recorded)


@dataclass(slots=True)
class _Event:
    """The resource that events speak of."""

    stack: Any
    logical_id: str
    type: str
    physical_id: str = ""


def _request_again(stack: Any, resource: StackResource) -> ResourceRequest:
    return ResourceRequest(
        stack_name=stack.name,
        stack_id=stack.stack_id,
        logical_id=resource.logical_resource_id,
        type=resource.cf_resource_type,
        properties=resource.properties,
        stack_tags=dict(stack.tags or {}),
    )


def _message(error: Exception) -> str:
    return str(getattr(error, "message", None) or error)
