"""One template of a stack: what depends on what, and the values its functions stand for.

moto creates a resource when something first refers to it. CloudFormation creates in the order of the dependencies,
reports each resource by events and deletes in reverse order; for that, the order is worked out here.
"""

import re
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from typing import Any

from moto.cloudformation import parsing
from moto.cloudformation.exceptions import (
    UnformattedGetAttTemplateException,
    ValidationError,
)

from voice_local.control_plane.resources import StackResource

_SUBSTITUTED = re.compile(r"\$\{(?!!)([^}.]+)(?:\.[^}]+)?\}")


class StackResources(parsing.ResourceMap):
    """The parameters, conditions, mappings and created resources of a stack, as moto's functions look them up.

    Unlike moto's own map, looking a resource up never creates it.
    """

    def __getitem__(self, key: str) -> Any:
        return self._parsed_resources[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.created)

    def __len__(self) -> int:
        return len(self.created)

    @property
    def created(self) -> dict[str, StackResource]:
        """What exists now, by logical id, in the order of creation."""
        return {name: value for name, value in self._parsed_resources.items() if isinstance(value, StackResource)}

    def validate_outputs(self) -> None:
        """Check that outputs refer to resources of the template; moto's wants a class for each type."""
        unknown = [
            name
            for output in (self._template.get("Outputs") or {}).values()
            for name in references(output)
            if name not in self._resource_json_map
            and name not in self._parsed_resources
            and name not in (self._template.get("Parameters") or {})
        ]
        if unknown:
            raise ValidationError(
                message=f"Template error: unresolved resource dependencies [{', '.join(unknown)}] in the Outputs block"
            )

    @property
    def template(self) -> dict[str, Any]:
        """The template in force."""
        template: dict[str, Any] = self._template
        return template

    def use(self, template: dict[str, Any], parameters: Mapping[str, Any]) -> None:
        """Go on with another template and other parameters; the resources created so far stay known."""
        created = self.created
        fresh = StackResources(
            stack_id=self.stack_id,
            stack_name=self._parsed_resources["AWS::StackName"],
            parameters=dict(parameters),
            tags=self.tags,
            region_name=self._region_name,
            account_id=self._account_id,
            template=template,
            cross_stack_resources=self.cross_stack_resources,
        )
        fresh.load()
        self.__dict__.update(fresh.__dict__)
        self._parsed_resources.update(created)

    def put(self, logical_id: str, resource: Any) -> None:
        """Make a created resource known to the functions that refer to it."""
        self._parsed_resources[logical_id] = resource

    def discard(self, logical_id: str) -> None:
        """Forget a deleted resource."""
        self._parsed_resources.pop(logical_id, None)

    def wanted(self) -> list[str]:
        """Return the logical ids of the template whose condition holds, each after what it depends on.

        Raises:
            ValidationError: the template's resources depend on each other in a circle.
        """
        resources = self._resource_json_map
        graph = {
            name: {other for other in references(body) if other in resources and other != name}
            for name, body in resources.items()
        }
        try:
            order = list(TopologicalSorter(graph).static_order())
        except CycleError as error:
            raise ValidationError(
                message=f"Circular dependency between resources: [{', '.join(error.args[1])}]"
            ) from error
        return [name for name in order if self._holds(resources[name].get("Condition"))]

    def definition(self, logical_id: str) -> dict[str, Any]:
        """Return a resource as the template has it."""
        definition: dict[str, Any] = self._resource_json_map[logical_id]
        return definition

    def properties(self, logical_id: str) -> dict[str, Any]:
        """Return a resource's properties with every function replaced by its value.

        Raises:
            ValidationError: a function refers to something that is not there.
        """
        return resolve(self.definition(logical_id).get("Properties") or {}, self)

    def _holds(self, condition: str | None) -> bool:
        return condition is None or bool(self.lazy_condition_map[condition])


def resolve(value: dict[str, Any], resources: StackResources) -> dict[str, Any]:
    """Replace the functions in a piece of template by their values."""
    try:
        resolved: dict[str, Any] = parsing.clean_json(value, resources)
    except KeyError as error:
        raise ValidationError(message=f"Unresolved reference to {error.args[0]}") from error
    except UnformattedGetAttTemplateException as error:
        raise ValidationError(message="Fn::GetAtt of an attribute that the resource does not have") from error
    return resolved


def references(value: Any) -> Iterator[str]:
    """Go through the names that Ref, Fn::GetAtt, Fn::Sub and DependsOn mention; pseudo parameters are left out."""
    if isinstance(value, list):
        for item in value:
            yield from references(item)
    if not isinstance(value, dict):
        return
    for key, inner in value.items():
        if key == "Ref" and isinstance(inner, str):
            if not inner.startswith("AWS::"):
                yield inner
        elif key == "Fn::GetAtt":
            yield inner[0] if isinstance(inner, list) else inner.partition(".")[0]
        elif key == "Fn::Sub":
            text, named = inner if isinstance(inner, list) else (inner, {})
            yield from (n for n in _SUBSTITUTED.findall(text) if n not in named and not n.startswith("AWS::"))
            yield from references(named)
        elif key == "DependsOn":
            yield from [inner] if isinstance(inner, str) else inner
        else:
            yield from references(inner)
