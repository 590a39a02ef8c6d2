"""Joins CloudFormation's API, as moto answers it, to the operations that run in the background.

What moto 5.2 does not do, and what is done here:

- operations end inside the call: handed to `StackOperations`
- a parameter that keeps its previous value breaks unless it was given before: its default is its value
- outputs are worked out at every request, also while resources are missing: as they were when an operation ended
- no UpdateTerminationProtection, and a protected stack is deleted all the same
- times are cut to the second, and readers that sort events by time mix them up: milliseconds, as in AWS
- templates in a bucket are not found under the loopback address: read by path
- a resource's state is the stack's: each resource that exists is CREATE_COMPLETE or UPDATE_COMPLETE
"""

import threading
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

from moto.cloudformation import models, parsing, responses
from moto.cloudformation.exceptions import AlreadyExistsException, ValidationError
from moto.cloudformation.utils import generate_stack_id
from moto.core.responses import ActionResult
from moto.core.serialize import TimestampSerializer

from voice_local.control_plane.patches import Patches
from voice_local.control_plane.stack_operations import StackOperations
from voice_local.control_plane.stack_template import StackResources

_CHANGEABLE = ("CREATE_COMPLETE", "UPDATE_COMPLETE", "UPDATE_ROLLBACK_COMPLETE")


class StackApi:
    """The part of CloudFormation's API that changes stacks."""

    def __init__(self, operations: StackOperations, state_lock: threading.RLock) -> None:
        self._operations = operations
        self._state_lock = state_lock

    def install(self, patches: Patches) -> None:
        """Put the gaps' fillings into moto; `patches` takes them out again."""
        backend = models.CloudFormationBackend
        patches.method(models.Stack, "_create_resource_map", _resource_map)
        patches.method(models.Stack, "_create_output_map", _no_outputs_yet)
        patches.method(backend, "create_stack", self._create_stack)
        patches.method(backend, "update_stack", self._update_stack)
        patches.method(backend, "delete_stack", self._delete_stack)
        patches.method(backend, "_resolve_update_parameters", _parameters_of_update)
        patches.method(
            responses.CloudFormationResponse, "update_termination_protection", _update_termination_protection
        )
        patches.around(responses.CloudFormationResponse, "create_stack", _keep_rollback_choice)
        patches.method(TimestampSerializer, "_timestamp_iso8601_zeroed", _with_milliseconds)
        patches.around(responses.CloudFormationResponse, "_get_stack_from_s3_url", _template_by_path)

    def _create_stack(self, backend: Any, name: str, template: str, parameters: dict[str, Any], **options: Any) -> Any:
        if any(stack.name == name for stack in backend.stacks.values()):
            raise AlreadyExistsException(f"Stack [{name}] already exists")
        make: Any = models.Stack  # moto's own class, abstract only to a type checker
        stack = make(
            stack_id=generate_stack_id(name, backend.region_name, backend.account_id),
            name=name,
            template=template,
            parameters=parameters,
            account_id=backend.account_id,
            region_name=backend.region_name,
            cross_stack_resources=backend.exports,
            **options,
        )
        stack.resource_map.wanted()  # a circle in the template is refused before anything exists
        backend.stacks[stack.stack_id] = stack
        self._operations.create(stack, lambda: _show_outputs(backend, stack))
        return stack

    def _update_stack(self, backend: Any, name: str, *, parameters: list[dict[str, Any]], **wanted: Any) -> Any:
        stack = backend.get_stack(name)
        resolved = backend._resolve_update_parameters(instance=stack, incoming_params=parameters)
        self.update(backend, stack, parameters=resolved, **wanted)
        return stack

    def update(
        self,
        backend: Any,
        stack: Any,
        *,
        template: str,
        parameters: dict[str, Any],
        role_arn: str | None,
        tags: dict[str, str] | None,
    ) -> None:
        """Bring a stack to another template; returns at once.

        Raises:
            ValidationError: the stack cannot be updated now, or nothing would change.
        """
        if stack.status not in _CHANGEABLE:
            raise ValidationError(message=f"Stack:{stack.stack_id} is in {stack.status} state and can not be updated.")
        wanted = models.Stack.parse_template(template)
        if wanted == stack.resource_map.template and parameters == stack.parameters and tags in (None, stack.tags):
            raise ValidationError(message="No updates are to be performed.")

        def updated() -> None:
            stack.template, stack.template_dict = template, wanted
            stack.description = wanted.get("Description")
            stack.parameters = parameters
            stack.role_arn = role_arn or stack.role_arn
            stack.tags = stack.tags if tags is None else tags
            _show_outputs(backend, stack)

        self._operations.update(stack, wanted, parameters, updated)

    def _delete_stack(self, backend: Any, name_or_stack_id: str) -> None:
        stack = next((s for s in backend.stacks.values() if name_or_stack_id in (s.name, s.stack_id)), None)
        if stack is None or stack.status == "DELETE_IN_PROGRESS":
            return  # as CloudFormation: deleting what is not there succeeds
        if stack.enable_termination_protection:
            raise ValidationError(
                message=f"Stack [{stack.name}] cannot be deleted while TerminationProtection is enabled"
            )

        def deleted() -> None:
            for name in [
                name for name, export in backend.exports.items() if export.exporting_stack_id == stack.stack_id
            ]:
                del backend.exports[name]
            backend.stacks.pop(stack.stack_id, None)
            for name in [name for name, one in backend.change_sets.items() if one.stack is stack]:
                del backend.change_sets[name]
            backend.deleted_stacks[stack.stack_id] = stack

        self._operations.delete(stack, deleted)

    def create_reviewed(
        self, backend: Any, stack: Any, template: str, parameters: dict[str, Any], role_arn: str | None
    ) -> None:
        """Create the resources of a stack that a change set has announced."""
        stack.template, stack.template_dict = template, models.Stack.parse_template(template)
        stack.description = stack.template_dict.get("Description")
        stack.parameters = parameters
        stack.role_arn = role_arn
        stack.resource_map.use(stack.template_dict, parameters)
        stack.resource_map.wanted()  # a circle in the template is refused before anything exists
        self._operations.create(stack, lambda: _show_outputs(backend, stack))


def _resource_map(stack: Any) -> StackResources:
    resources = StackResources(
        stack.stack_id,
        stack.name,
        stack.parameters,
        stack.tags,
        account_id=stack.account_id,
        region_name=stack.region_name,
        template=stack.template_dict,
        cross_stack_resources=stack.cross_stack_resources,
    )
    resources.load()
    return resources


class _Outputs:
    """A stack's outputs as they were when its last operation ended.

    moto works them out at every request, which fails while a resource they name is being deleted or replaced.
    """

    def __init__(self, resources: StackResources, template: dict[str, Any], stack_id: str) -> None:
        live = parsing.OutputMap(resources, template, stack_id)
        self._outputs = [output for output in live.values() if output is not None]
        self.exports = live.exports

    def values(self) -> list[Any]:
        """Return moto's Output objects."""
        return self._outputs


def _no_outputs_yet(stack: Any) -> _Outputs:
    return _Outputs(stack.resource_map, {}, stack.stack_id)


def effective_parameters(stack: Any) -> dict[str, str]:
    """Return a stack's parameters with their values in force: those given, else the template's defaults."""
    declared = (stack.resource_map.template or {}).get("Parameters") or {}
    defaults = {name: str(body["Default"]) for name, body in declared.items() if "Default" in body}
    return {**defaults, **(stack.parameters or {})}


def _parameters_of_update(_backend: object, instance: Any, incoming_params: list[dict[str, Any]]) -> dict[str, str]:
    previous = effective_parameters(instance)
    return {
        given["ParameterKey"]: str(given.get("ParameterValue", previous.get(given["ParameterKey"], "")))
        for given in incoming_params
        if "ParameterValue" in given or given["ParameterKey"] in previous
    }


def _show_outputs(backend: Any, stack: Any) -> None:
    stack.output_map = _Outputs(stack.resource_map, stack.template_dict, stack.stack_id)
    for name in [name for name, export in backend.exports.items() if export.exporting_stack_id == stack.stack_id]:
        del backend.exports[name]
    for export in stack.exports:
        backend.exports[export.name] = export


def _update_termination_protection(response: Any) -> ActionResult:
    stack = response.cloudformation_backend.get_stack(response._get_param("StackName"))
    stack.enable_termination_protection = bool(response._get_bool_param("EnableTerminationProtection"))
    return ActionResult({"StackId": stack.stack_id})


def _with_milliseconds(_serializer: object, value: datetime) -> str:
    return value.strftime("%Y-%m-%dT%H:%M:%S.") + f"{value.microsecond // 1000:03d}Z"


def _template_by_path(read: Any, response: Any, template_url: str) -> str:
    url = urlsplit(template_url)
    # Asked through 127.0.0.1, S3 has the bucket in the path; moto looks there only when the host is called localhost.
    return str(read(response, f"http://localhost{url.path}" if url.hostname == "127.0.0.1" else template_url))


def _keep_rollback_choice(create: Any, response: Any) -> Any:
    answer = create(response)
    stack = response.cloudformation_backend.get_stack(response._get_param("StackName"))
    stack.disable_rollback = (
        bool(response._get_bool_param("DisableRollback", False)) or response._get_param("OnFailure") == "DO_NOTHING"
    )
    return answer
