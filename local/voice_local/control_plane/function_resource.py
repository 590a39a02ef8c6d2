"""AWS::Lambda::Function through Lambda's API: moto's CloudFormation model drops layers, log group and code changes."""

import io
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from voice_local.control_plane.api_input import api_input
from voice_local.control_plane.errors import ResourceError
from voice_local.control_plane.function_runtime import BOOTSTRAPS
from voice_local.control_plane.resources import ResourceRequest, StackResource
from voice_local.control_plane.service_clients import ServiceClients, reason_of

_ONLY_AT_CREATION = ("Code", "Tags", "PackageType", "Architectures", "CodeSigningConfigArn")

_INLINE_MODULES = {"python": ("index.py", "cfnresponse.py"), "nodejs": ("index.js", "cfn-response.js")}
"""By runtime: the file that inline code becomes, and the module that Lambda adds to it."""


class LambdaFunctionResource:
    """Creates, changes and deletes functions."""

    def __init__(self, clients: ServiceClients) -> None:
        self._clients = clients

    def replaces(self, current: StackResource, properties: Mapping[str, Any]) -> bool:
        """Return whether the name changed; the rest is changed in place."""
        return current.properties.get("FunctionName") != properties.get("FunctionName")

    def create(self, request: ResourceRequest) -> StackResource:
        """Create the function, under a generated name when the template names none."""
        name = str(request.properties.get("FunctionName") or request.generated_name(64))
        wanted = {**request.properties, "FunctionName": name, "Code": _code(request.properties)}
        # CloudFormation lists tags, Lambda's API maps them.
        wanted["Tags"] = {tag["Key"]: tag["Value"] for tag in request.properties.get("Tags", ())}
        wanted.pop("ReservedConcurrentExecutions", None)
        answer = self._call("CreateFunction", wanted, request.type)
        return StackResource(
            logical_resource_id=request.logical_id,
            cf_resource_type=request.type,
            physical_resource_id=name,
            attributes={"Arn": answer["FunctionArn"]},
            properties=request.properties,
        )

    def update(self, current: StackResource, request: ResourceRequest) -> StackResource:
        """Send the new code and the new configuration."""
        name = current.physical_resource_id
        if request.properties.get("Code") != current.properties.get("Code"):
            self._call("UpdateFunctionCode", {**_code(request.properties), "FunctionName": name}, request.type)
        changed = {
            key: value
            for key, value in request.properties.items()
            if key not in _ONLY_AT_CREATION and key != "ReservedConcurrentExecutions"
        }
        self._call("UpdateFunctionConfiguration", {**changed, "FunctionName": name}, request.type)
        return replace(current, properties=request.properties)

    def delete(self, current: StackResource) -> None:
        """Delete the function; one that is gone already is no error."""
        try:
            self._clients.call("lambda", "DeleteFunction", {"FunctionName": current.physical_resource_id})
        except ClientError as error:
            if error.response["Error"]["Code"] != "ResourceNotFoundException":
                raise ResourceError(reason_of(error)) from error
        except BotoCoreError as error:
            raise ResourceError(reason_of(error)) from error

    def _call(self, operation: str, arguments: dict[str, Any], where: str) -> dict[str, Any]:
        shape = self._clients.input_shape("lambda", operation)
        try:
            return self._clients.call("lambda", operation, api_input(arguments, shape, where))
        except (ClientError, BotoCoreError) as error:
            raise ResourceError(reason_of(error)) from error


def _code(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return where the code is; inline code becomes a zip file with the module that Lambda adds to it."""
    code = dict(properties.get("Code", {}))
    if "ZipFile" not in code:
        return code
    runtime = str(properties.get("Runtime", ""))
    named = next((names for family, names in _INLINE_MODULES.items() if runtime.startswith(family)), None)
    if named is None:
        raise ResourceError(f"AWS::Lambda::Function: inline code cannot have the runtime {runtime}")
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as target:
        target.writestr(named[0], str(code["ZipFile"]))
        target.write(BOOTSTRAPS / named[1], named[1])
    return {"ZipFile": archive.getvalue()}
