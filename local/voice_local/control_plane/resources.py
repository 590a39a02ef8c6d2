"""What a stack operation asks of a resource type, and the types that moto's own CloudFormation models serve."""

import copy
import inspect
import secrets
import string
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from moto.cloudformation import parsing
from moto.cloudformation.exceptions import UnformattedGetAttTemplateException
from moto.core.exceptions import ServiceException

from voice_local.control_plane.errors import ResourceError
from voice_local.identity import LocalIdentity

_SUFFIX_ALPHABET = string.ascii_letters + string.digits


@dataclass(frozen=True, slots=True)
class ResourceRequest:
    """A resource as a template asks for it."""

    stack_name: str
    stack_id: str
    logical_id: str
    type: str
    properties: Mapping[str, Any]
    """Every function replaced by its value."""
    stack_tags: Mapping[str, str] = field(default_factory=dict)
    """The stack's own tags, which CloudFormation gives to whatever takes tags."""

    def generated_name(self, limit: int) -> str:
        """Return a name of at most `limit` characters that no other resource has, made the way CloudFormation does."""
        suffix = "-" + "".join(secrets.choice(_SUFFIX_ALPHABET) for _ in range(12))
        stem = f"{self.stack_name}-{self.logical_id}"[: limit - len(suffix)].rstrip("-")
        return stem + suffix


@dataclass(frozen=True, slots=True)
class StackResource:
    """A resource that a stack created; moto's functions and answers read it by these names."""

    logical_resource_id: str
    cf_resource_type: str
    physical_resource_id: str
    attributes: Mapping[str, Any]
    """What Fn::GetAtt returns, by attribute."""
    properties: Mapping[str, Any]
    """The properties it was last created or updated with."""
    model: Any = None
    """moto's own object, for the types that moto serves."""
    stack_id: str = ""
    """Of a custom resource: the stack that its function is told of."""
    supersedes: bool = False
    """Whether an update in place made another resource, so that the one before is deleted when the update is done."""

    def get_cfn_attribute(self, name: str) -> Any:
        """Return the value of Fn::GetAtt.

        Raises:
            UnformattedGetAttTemplateException: the type has no such attribute; moto makes the message.
        """
        if name in self.attributes:
            return self.attributes[name]
        if self.model is None:
            raise UnformattedGetAttTemplateException
        try:
            return self.model.get_cfn_attribute(name)
        except NotImplementedError as error:
            raise UnformattedGetAttTemplateException from error

    def is_created(self) -> bool:
        """Return True: only created resources are kept."""
        return True


class ResourceProvider(Protocol):
    """Creates, updates and deletes resources of some types; each method returns when the resource is stable."""

    def replaces(self, current: StackResource, properties: Mapping[str, Any]) -> bool:
        """Return whether these properties need a new resource in place of the current one."""
        ...

    def create(self, request: ResourceRequest) -> StackResource:
        """Create a resource.

        Raises:
            ResourceError: with the reason.
        """
        ...

    def update(self, current: StackResource, request: ResourceRequest) -> StackResource:
        """Change a resource in place.

        Raises:
            ResourceError: with the reason.
        """
        ...

    def delete(self, current: StackResource) -> None:
        """Delete a resource; one that is gone already is no error.

        Raises:
            ResourceError: with the reason.
        """
        ...


_NOT_SERVED = frozenset({"?", "AWS::CloudFormation::Stack", "AWS::Lambda::Function"})
"""Models that moto has and that do not work here: "?" stands for custom resources, which moto runs in Docker, as it
does functions; nested stacks would need an operation of their own."""


class MotoResources:
    """The types that moto's own CloudFormation models serve well enough."""

    def __init__(self, identity: LocalIdentity, state_lock: threading.RLock) -> None:
        self._identity = identity
        self._state_lock = state_lock

    def serves(self, resource_type: str) -> bool:
        """Return whether moto has a model of that type; custom resources it would run in Docker are left out."""
        return resource_type in parsing.get_model_map() and resource_type not in _NOT_SERVED

    def replaces(self, current: StackResource, properties: Mapping[str, Any]) -> bool:
        """Return False: moto's own update methods replace where they must."""
        del current, properties
        return False

    def create(self, request: ResourceRequest) -> StackResource:
        """Create a resource through moto's model."""
        model_class = parsing.get_model_map()[request.type]
        name = self._name(request)
        with self._state_lock, _Reasons():
            model = model_class.create_from_cloudformation_json(
                name,
                self._definition(request, name),
                self._identity.account_id,
                self._identity.region,
                LogicalId=request.logical_id,
                StackId=request.stack_id,
                ResourceType=request.type,
            )
            return self._describe(request, model)

    def update(self, current: StackResource, request: ResourceRequest) -> StackResource:
        """Update through moto's model, or delete and create again where it has no update."""
        model_class = parsing.get_model_map()[request.type]
        if hasattr(model_class.update_from_cloudformation_json, "__isabstractmethod__"):
            self.delete(current)
            return self.create(request)
        name = self._name(request, current.physical_resource_id)
        with self._state_lock, _Reasons():
            model = model_class.update_from_cloudformation_json(
                original_resource=current.model,
                new_resource_name=name,
                cloudformation_json=self._definition(request, name),
                account_id=self._identity.account_id,
                region_name=self._identity.region,
            )
            return self._describe(request, model)

    def delete(self, current: StackResource) -> None:
        """Delete through moto's model."""
        account, region = self._identity.account_id, self._identity.region
        with self._state_lock, _Reasons():
            if current.cf_resource_type == "AWS::S3::Bucket" and getattr(current.model, "keys", None):
                # moto keeps a bucket that is not empty and says nothing.
                raise ResourceError("The bucket you tried to delete is not empty (Service: S3, Status Code: 409)")
            # Some of moto's models delete themselves, the others are deleted by their class.
            if _deletes_itself(current.model):
                current.model.delete(account, region)
                return
            type(current.model).delete_from_cloudformation_json(
                current.physical_resource_id,
                {"Type": current.cf_resource_type, "Properties": dict(current.properties)},
                account,
                region,
            )

    def _name(self, request: ResourceRequest, current: str | None = None) -> str:
        name_property = parsing.resource_name_property_from_type(request.type)
        if name_property and (name := request.properties.get(name_property)):
            return str(name)
        return current or str(parsing.generate_resource_name(request.type, request.stack_name, request.logical_id))

    def _definition(self, request: ResourceRequest, name: str) -> dict[str, Any]:
        # Several of moto's models look for the name among the properties even when the template leaves it out.
        properties = copy.deepcopy(dict(request.properties))
        if name_property := parsing.resource_name_property_from_type(request.type):
            properties.setdefault(name_property, name)
        return {"Type": request.type, "Properties": properties}

    def _describe(self, request: ResourceRequest, model: Any) -> StackResource:
        return StackResource(
            logical_resource_id=request.logical_id,
            cf_resource_type=request.type,
            physical_resource_id=model.physical_resource_id,
            attributes={},
            properties=request.properties,
            model=model,
        )


def _deletes_itself(model: Any) -> bool:
    delete = getattr(model, "delete", None)
    return callable(delete) and list(inspect.signature(delete).parameters) == ["account_id", "region_name"]


class _Reasons:
    """Turns the errors of moto's models into the reason of a stack event."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, _type: object, error: BaseException | None, _traceback: object) -> None:
        if isinstance(error, ServiceException):
            raise ResourceError(f"{error} (Service error {type(error).__name__})") from error
        if isinstance(error, KeyError):
            raise ResourceError(f"Required property {error} is missing, or what it names does not exist") from error
