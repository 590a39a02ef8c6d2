"""Change sets: what would change, and a stack operation when they are executed. The CDK CLI deploys this way.

moto 5.2 looks a change set up by its name among those of all stacks, and the CDK CLI gives them all one name; deleting
one that is not there breaks; parameters keep no value the template does not name. So the whole of it is here.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from moto.cloudformation import models, responses
from moto.cloudformation.exceptions import AlreadyExistsException, ValidationError
from moto.cloudformation.utils import generate_changeset_id, generate_stack_id, validate_create_change_set
from moto.core.exceptions import ServiceException
from moto.core.responses import ActionResult

from voice_local.control_plane.patches import Patches
from voice_local.control_plane.resources import StackResource
from voice_local.control_plane.stack_api import StackApi, effective_parameters
from voice_local.control_plane.stack_operations import StackOperations

_NOTHING = "The submitted information didn't contain changes. Submit different information to create a change set."


class _ChangeSetNotFoundError(ServiceException):
    code = "ChangeSetNotFound"


class _InvalidChangeSetStatusError(ServiceException):
    code = "InvalidChangeSetStatus"


@dataclass(slots=True)
class _ChangeSet:
    """A change set as it is kept; `change_set_name` and the like are named as moto's own lookups name them."""

    change_set_id: str
    change_set_name: str
    kind: str
    stack: Any
    template: str
    parameters: dict[str, str]
    tags: dict[str, str]
    role_arn: str | None
    description: str | None
    changes: list[dict[str, Any]]
    status: str = "CREATE_COMPLETE"
    execution_status: str = "AVAILABLE"
    status_reason: str | None = None
    created: datetime = field(default_factory=lambda: datetime.now(UTC).replace(tzinfo=None))

    def summary(self) -> dict[str, Any]:
        """Return what ListChangeSets tells."""
        told = {
            "ChangeSetId": self.change_set_id,
            "ChangeSetName": self.change_set_name,
            "StackId": self.stack.stack_id,
            "StackName": self.stack.name,
            "Status": self.status,
            "ExecutionStatus": self.execution_status,
            "StatusReason": self.status_reason,
            "Description": self.description,
            "CreationTime": self.created,
        }
        return {name: value for name, value in told.items() if value is not None}

    def description_of_all(self) -> dict[str, Any]:
        """Return what DescribeChangeSet tells."""
        return {
            **self.summary(),
            "Parameters": [{"ParameterKey": k, "ParameterValue": v} for k, v in self.parameters.items()],
            "Tags": [{"Key": k, "Value": v} for k, v in self.tags.items()],
            "Changes": self.changes,
        }


class ChangeSetApi:
    """The part of CloudFormation's API about change sets; called with moto's state locked."""

    def __init__(self, stacks: StackApi, operations: StackOperations) -> None:
        self._stacks = stacks
        self._operations = operations

    def install(self, patches: Patches) -> None:
        """Put it in the place of moto's; `patches` takes it out again."""
        answers = responses.CloudFormationResponse
        transformers = {
            path: transformer
            for path, transformer in answers.RESPONSE_KEY_PATH_TO_TRANSFORMER.items()
            if not path.startswith("DescribeChangeSetOutput.")  # made for moto's own change sets
        }
        patches.replace(answers, "RESPONSE_KEY_PATH_TO_TRANSFORMER", transformers)
        patches.method(answers, "create_change_set", self._create)
        patches.method(answers, "describe_change_set", self._describe)
        patches.method(answers, "execute_change_set", self._execute)
        patches.method(answers, "delete_change_set", self._delete)
        patches.method(answers, "list_change_sets", self._list)

    def _create(self, response: Any) -> ActionResult:
        backend = response.cloudformation_backend
        stack_name, name = response._get_param("StackName"), response._get_param("ChangeSetName")
        validate_create_change_set(name)
        kind = response._get_param("ChangeSetType", "UPDATE")
        stack = _living(backend, stack_name)
        if kind == "CREATE":
            if stack is not None and stack.status != "REVIEW_IN_PROGRESS":
                raise AlreadyExistsException(
                    f"Stack [{stack_name}] already exists and cannot be created again with the changeSet [{name}]."
                )
        elif stack is None:
            raise ValidationError(stack_name)
        elif stack.status == "REVIEW_IN_PROGRESS":
            raise ValidationError(
                message=f"Stack:{stack.stack_id} is in REVIEW_IN_PROGRESS state and can not be updated."
            )
        if stack is not None and any(one.change_set_name == name for one in _of(backend, stack)):
            raise AlreadyExistsException(f"ChangeSet {name} cannot be created due to a name conflict.")
        template = self._template(response, stack)
        tags = {tag["Key"]: tag["Value"] for tag in response._get_param("Tags", [])}
        previous = effective_parameters(stack) if stack is not None else {}
        parameters = response._get_param_values(response._get_param("Parameters", []), previous)
        if stack is None:
            stack = self._reviewed_stack(backend, stack_name, tags, response._get_param("RoleARN"))
        change_set = _ChangeSet(
            change_set_id=generate_changeset_id(name, backend.region_name, backend.account_id),
            change_set_name=name,
            kind=kind,
            stack=stack,
            template=template,
            parameters=parameters,
            tags=tags,
            role_arn=response._get_param("RoleARN"),
            description=response._get_param("Description"),
            changes=list(self._changes(stack, template, parameters)),
        )
        if not change_set.changes and kind == "UPDATE" and tags == (stack.tags or {}) and self._same(stack, template):
            change_set.status, change_set.execution_status = "FAILED", "UNAVAILABLE"
            change_set.status_reason = _NOTHING
        backend.change_sets[change_set.change_set_id] = change_set
        return ActionResult({"Id": change_set.change_set_id, "StackId": stack.stack_id})

    @staticmethod
    def _template(response: Any, stack: Any) -> str:
        if url := response._get_param("TemplateURL"):
            return str(response._get_stack_from_s3_url(url))
        if response._get_bool_param("UsePreviousTemplate", False) and stack is not None:
            return str(stack.template)
        body = response._get_param("TemplateBody")
        if not body:
            raise ValidationError(message="Either Template URL or Template Body must be specified.")
        return str(body)

    @staticmethod
    def _reviewed_stack(backend: Any, name: str, tags: dict[str, str], role_arn: str | None) -> Any:
        make: Any = models.Stack  # moto's own class, abstract only to a type checker
        stack = make(
            stack_id=generate_stack_id(name, backend.region_name, backend.account_id),
            name=name,
            template={},
            parameters={},
            account_id=backend.account_id,
            region_name=backend.region_name,
            tags=tags,
            role_arn=role_arn,
            cross_stack_resources=backend.exports,
        )
        backend.stacks[stack.stack_id] = stack
        stack.status = "REVIEW_IN_PROGRESS"
        stack._add_stack_event("REVIEW_IN_PROGRESS", resource_status_reason="User Initiated")
        return stack

    @staticmethod
    def _same(stack: Any, template: str) -> bool:
        same: bool = models.Stack.parse_template(template) == stack.resource_map.template
        return same

    def _changes(self, stack: Any, template: str, parameters: Mapping[str, str]) -> Iterator[dict[str, Any]]:
        """Compare the templates; a parameter that changed counts for every resource, as its effect is not followed."""
        wanted: dict[str, Any] = models.Stack.parse_template(template).get("Resources", {})
        created: dict[str, StackResource] = stack.resource_map.created
        current: dict[str, Any] = (stack.resource_map.template or {}).get("Resources", {})
        moved = bool(created) and dict(parameters) != {
            key: value for key, value in effective_parameters(stack).items() if key in parameters
        }
        for logical_id, body in wanted.items():
            if logical_id not in created:
                yield _change("Add", logical_id, body["Type"])
            elif body != current.get(logical_id) or moved:
                resource = created[logical_id]
                old, new = current.get(logical_id, {}).get("Properties", {}), body.get("Properties", {})
                replaced = body["Type"] != resource.cf_resource_type or self._operations.replaces(
                    replace(resource, properties=old), new
                )
                yield _change("Modify", logical_id, body["Type"], resource, replaced=replaced)
        for logical_id, resource in created.items():
            if logical_id not in wanted:
                yield _change("Remove", logical_id, resource.cf_resource_type, resource)

    def _describe(self, response: Any) -> ActionResult:
        return ActionResult(self._asked_for(response).description_of_all())

    def _list(self, response: Any) -> ActionResult:
        backend = response.cloudformation_backend
        stack = backend.get_stack(response._get_param("StackName"))
        return ActionResult({"Summaries": [one.summary() for one in _of(backend, stack)]})

    def _delete(self, response: Any) -> ActionResult:
        backend = response.cloudformation_backend
        change_set = self._find(response)
        if change_set is not None:  # as CloudFormation: deleting what is not there succeeds
            del backend.change_sets[change_set.change_set_id]
        return ActionResult({})

    def _execute(self, response: Any) -> ActionResult:
        backend = response.cloudformation_backend
        change_set = self._asked_for(response)
        if change_set.execution_status != "AVAILABLE":
            raise _InvalidChangeSetStatusError(
                f"ChangeSet [{change_set.change_set_id}] cannot be executed in its current status of "
                f"[{change_set.status}]"
            )
        stack = change_set.stack
        stack.disable_rollback = bool(response._get_bool_param("DisableRollback", False))
        if change_set.kind == "CREATE":
            self._stacks.create_reviewed(
                backend, stack, change_set.template, change_set.parameters, change_set.role_arn
            )
        else:
            self._stacks.update(
                backend,
                stack,
                template=change_set.template,
                parameters=change_set.parameters,
                role_arn=change_set.role_arn,
                tags=change_set.tags,
            )
        change_set.execution_status = "EXECUTE_COMPLETE"
        # The others were made for a stack that is another now.
        for other in list(_of(backend, stack)):
            if other is not change_set:
                del backend.change_sets[other.change_set_id]
        return ActionResult({})

    def _asked_for(self, response: Any) -> _ChangeSet:
        change_set = self._find(response)
        if change_set is None:
            raise _ChangeSetNotFoundError(f"ChangeSet [{response._get_param('ChangeSetName')}] does not exist")
        return change_set

    @staticmethod
    def _find(response: Any) -> _ChangeSet | None:
        backend = response.cloudformation_backend
        name, stack_name = response._get_param("ChangeSetName"), response._get_param("StackName")
        found: _ChangeSet | None = backend.change_sets.get(name)
        if found is not None or not stack_name:
            return found
        stack = _living(backend, stack_name)
        if stack is None:
            raise ValidationError(stack_name)
        return next((one for one in _of(backend, stack) if one.change_set_name == name), None)


def _living(backend: Any, name_or_id: str) -> Any:
    return next((stack for stack in backend.stacks.values() if name_or_id in (stack.name, stack.stack_id)), None)


def _of(backend: Any, stack: Any) -> list[_ChangeSet]:
    return [one for one in backend.change_sets.values() if one.stack is stack]


def _change(
    action: str,
    logical_id: str,
    resource_type: str,
    resource: StackResource | None = None,
    *,
    replaced: bool | None = None,
) -> dict[str, Any]:
    change: dict[str, Any] = {"Action": action, "LogicalResourceId": logical_id, "ResourceType": resource_type}
    if resource is not None:
        change["PhysicalResourceId"] = resource.physical_resource_id
    if replaced is not None:
        change["Replacement"] = "True" if replaced else "False"
        change["Scope"] = ["Properties"]
        change["Details"] = []
    return {"Type": "Resource", "ResourceChange": change}
