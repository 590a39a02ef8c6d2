"""AWS::SageMaker::Endpoint: stable only when the endpoint is InService, or gone."""

import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from voice_local.control_plane.api_input import api_input, with_stack_tags
from voice_local.control_plane.errors import ResourceError
from voice_local.control_plane.resources import ResourceRequest, StackResource
from voice_local.control_plane.service_clients import ServiceClients, reason_of
from voice_local.control_plane.settings import ControlPlaneSettings

_UPDATE_ONLY = ("RetainAllVariantProperties", "ExcludeRetainedVariantProperties", "RetainDeploymentConfig")
"""Properties that CloudFormation keeps for UpdateEndpoint; CreateEndpoint does not take them."""

_MOVING = frozenset({"Creating", "Updating", "SystemUpdating", "RollingBack", "Deleting"})


class SageMakerEndpoint:
    """Creates, moves and deletes endpoints through SageMaker's API and waits for them."""

    def __init__(self, clients: ServiceClients, settings: ControlPlaneSettings, stopping: threading.Event) -> None:
        """`stopping` ends every wait: the control plane stops."""
        self._clients = clients
        self._stopping = stopping
        self._settings = settings

    def replaces(self, current: StackResource, properties: Mapping[str, Any]) -> bool:
        """Return whether the name changed; everything else UpdateEndpoint changes in place."""
        return current.properties.get("EndpointName") != properties.get("EndpointName")

    def create(self, request: ResourceRequest) -> StackResource:
        """Create the endpoint and wait until it is InService."""
        name = str(request.properties.get("EndpointName") or request.generated_name(63))
        given = {key: value for key, value in request.properties.items() if key not in _UPDATE_ONLY}
        shape = self._input("CreateEndpoint")
        tagged = with_stack_tags({**given, "EndpointName": name}, request.stack_tags, shape)
        answer = self._call("CreateEndpoint", api_input(tagged, shape, request.type))
        endpoint = StackResource(
            logical_resource_id=request.logical_id,
            cf_resource_type=request.type,
            physical_resource_id=answer["EndpointArn"],
            attributes={"EndpointName": name},
            properties=request.properties,
        )
        try:
            self._wait(name, str(request.properties["EndpointConfigName"]))
        except ResourceError as error:
            raise ResourceError(str(error), left=endpoint) from error
        return endpoint

    def update(self, current: StackResource, request: ResourceRequest) -> StackResource:
        """Move the endpoint to another configuration and wait until it serves from it."""
        name = str(current.attributes["EndpointName"])
        config_name = str(request.properties["EndpointConfigName"])
        given = {key: value for key, value in request.properties.items() if key != "Tags"}
        if config_name != current.properties.get("EndpointConfigName"):
            self._call(
                "UpdateEndpoint",
                api_input({**given, "EndpointName": name}, self._input("UpdateEndpoint"), request.type),
            )
            self._wait(name, config_name)
        return replace(current, properties=request.properties)

    def delete(self, current: StackResource) -> None:
        """Delete the endpoint and wait until its containers are gone."""
        self.delete_named(str(current.attributes["EndpointName"]))

    def delete_named(self, name: str) -> None:
        """Delete an endpoint by name; one that is gone already is no error."""
        if self._describe(name) is None:
            return
        self._call("DeleteEndpoint", {"EndpointName": name})
        deadline = time.monotonic() + self._settings.stop_seconds + self._settings.stabilization_margin_seconds
        while self._describe(name) is not None:
            if time.monotonic() >= deadline:
                raise ResourceError(f"Endpoint {name} is still being deleted; its containers do not end.")
            self._pause(name)

    def _wait(self, name: str, config_name: str) -> None:
        deadline = (
            time.monotonic() + self._settings.container_startup_seconds + self._settings.stabilization_margin_seconds
        )
        while True:
            described = self._describe(name)
            if described is None:
                raise ResourceError(f"Endpoint {name} was deleted while the stack waited for it.")
            status = described["EndpointStatus"]
            if status == "InService" and described["EndpointConfigName"] == config_name:
                return
            if status not in _MOVING:
                reason = described.get("FailureReason", "no reason given")
                raise ResourceError(
                    f"Resource of type 'AWS::SageMaker::Endpoint' with name {name} did not stabilize: {reason}"
                )
            if time.monotonic() >= deadline:
                raise ResourceError(f"Endpoint {name} is still {status}; exceeded attempts to wait.")
            self._pause(name)

    def _pause(self, name: str) -> None:
        if self._stopping.wait(self._settings.stabilization_poll_seconds):
            raise ResourceError(f"The local cloud ended while the stack waited for endpoint {name}.")

    def _describe(self, name: str) -> dict[str, Any] | None:
        try:
            return self._clients.call("sagemaker", "DescribeEndpoint", {"EndpointName": name})
        except ClientError as error:
            if error.response["Error"].get("Message", "").startswith("Could not find"):
                return None
            raise ResourceError(reason_of(error)) from error
        except BotoCoreError as error:
            raise ResourceError(reason_of(error)) from error

    def _call(self, operation: str, arguments: dict[str, Any]) -> dict[str, Any]:
        try:
            return self._clients.call("sagemaker", operation, arguments)
        except (ClientError, BotoCoreError) as error:
            raise ResourceError(reason_of(error)) from error

    def _input(self, operation: str) -> Any:
        return self._clients.input_shape("sagemaker", operation)
