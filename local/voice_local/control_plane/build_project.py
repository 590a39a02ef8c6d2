"""AWS::CodeBuild::Project through CodeBuild's API; moto has no CloudFormation model of it."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from voice_local.control_plane.api_input import api_input
from voice_local.control_plane.errors import ResourceError
from voice_local.control_plane.resources import ResourceRequest, StackResource
from voice_local.control_plane.service_clients import ServiceClients, reason_of

_NO_INPUT = ("Visibility", "ResourceAccessRole", "Triggers")
"""Properties that CloudFormation passes to other operations."""


class BuildProjectResource:
    """Creates, changes and deletes projects."""

    def __init__(self, clients: ServiceClients) -> None:
        self._clients = clients

    def replaces(self, current: StackResource, properties: Mapping[str, Any]) -> bool:
        """Return whether the name changed; the rest is changed in place."""
        return current.properties.get("Name") != properties.get("Name")

    def create(self, request: ResourceRequest) -> StackResource:
        """Create the project, under a generated name when the template names none."""
        name = str(request.properties.get("Name") or request.generated_name(150))
        answer = self._put(name, request)
        return StackResource(
            logical_resource_id=request.logical_id,
            cf_resource_type=request.type,
            physical_resource_id=name,
            attributes={"Arn": answer["arn"]},
            properties=request.properties,
        )

    def update(self, current: StackResource, request: ResourceRequest) -> StackResource:
        """Change the project; moto has no UpdateProject, so it is made anew under its name."""
        self.delete(current)
        self._put(current.physical_resource_id, request)
        return replace(current, properties=request.properties)

    def delete(self, current: StackResource) -> None:
        """Delete the project; one that is gone already is no error."""
        self._call("DeleteProject", {"name": current.physical_resource_id})

    def _put(self, name: str, request: ResourceRequest) -> dict[str, Any]:
        properties = {key: value for key, value in request.properties.items() if key not in _NO_INPUT}
        source = dict(properties["Source"])
        if "BuildSpec" in source:
            source["buildspec"] = source.pop("BuildSpec")
        shape = self._clients.input_shape("codebuild", "CreateProject")
        answer: dict[str, Any] = self._call(
            "CreateProject", api_input({**properties, "Source": source, "Name": name}, shape, request.type)
        )["project"]
        return answer

    def _call(self, operation: str, arguments: dict[str, Any]) -> dict[str, Any]:
        try:
            return self._clients.call("codebuild", operation, arguments)
        except (ClientError, BotoCoreError) as error:
            raise ResourceError(reason_of(error)) from error
