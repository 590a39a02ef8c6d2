"""Turns a resource's properties into the input of the service's own API call.

CloudFormation takes numbers and booleans as strings and passes on what it does not know of; the services do not.
botocore's model of the service says which type each member has.
"""

from collections.abc import Mapping
from typing import Any

from botocore.model import ListShape, MapShape, Shape, StructureShape

from voice_local.control_plane.errors import ResourceError


def api_input(properties: Mapping[str, Any], shape: StructureShape, where: str) -> dict[str, Any]:
    """Return the properties as input of that shape.

    Args:
        properties: resolved properties, named as the API's members (the first letter's case may differ).
        shape: the API's input.
        where: names the resource type in the message.

    Raises:
        ResourceError: listing every property the API does not have and every value of a wrong type.
    """
    problems: list[str] = []
    converted: dict[str, Any] = _convert(properties, shape, where, problems)
    if problems:
        raise ResourceError("; ".join(problems))
    return converted


def with_stack_tags(
    properties: Mapping[str, Any], stack_tags: Mapping[str, str], shape: StructureShape
) -> dict[str, Any]:
    """Add a stack's tags to properties whose API takes a list of tags; a resource's own tag of a name wins."""
    tags = shape.members.get("Tags")
    if not stack_tags or not isinstance(tags, ListShape) or "Key" not in getattr(tags.member, "members", ()):
        return dict(properties)
    own = list(properties.get("Tags", ()))
    named = {tag["Key"] for tag in own}
    added = [{"Key": key, "Value": value} for key, value in sorted(stack_tags.items()) if key not in named]
    return {**properties, "Tags": own + added}


def _convert(value: Any, shape: Shape, where: str, problems: list[str]) -> Any:
    if isinstance(shape, StructureShape):
        return _structure(value, shape, where, problems)
    if isinstance(shape, ListShape):
        if not isinstance(value, list):
            problems.append(f"{where}: expected a list")
            return value
        return [_convert(item, shape.member, f"{where}[{n}]", problems) for n, item in enumerate(value)]
    if isinstance(shape, MapShape):
        if not isinstance(value, Mapping):
            problems.append(f"{where}: expected a map")
            return value
        return {str(key): _convert(item, shape.value, f"{where}.{key}", problems) for key, item in value.items()}
    return _scalar(value, shape.type_name, where, problems)


def _structure(value: Any, shape: StructureShape, where: str, problems: list[str]) -> Any:
    if not isinstance(value, Mapping):
        problems.append(f"{where}: expected an object")
        return value
    converted = {}
    members = {name[:1].lower() + name[1:]: name for name in shape.members}
    for key, item in value.items():
        name = members.get(key[:1].lower() + key[1:])
        if name is None:
            problems.append(f"Encountered unsupported property {where}.{key}")
        else:
            converted[name] = _convert(item, shape.members[name], f"{where}.{key}", problems)
    return converted


def _scalar(value: Any, type_name: str, where: str, problems: list[str]) -> Any:
    try:
        match type_name:
            case "string":
                return str(value).lower() if isinstance(value, bool) else str(value)
            case "integer" | "long":
                return int(value)
            case "float" | "double":
                return float(value)
            case "boolean":
                return value if isinstance(value, bool) else {"true": True, "false": False}[str(value).lower()]
    except (ValueError, TypeError, KeyError):
        problems.append(f"{where}: {value!r} is not of type {type_name}")
    return value
