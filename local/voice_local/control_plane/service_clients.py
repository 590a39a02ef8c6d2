"""Clients of the local cloud's own API, for resources that stacks create through it."""

from collections.abc import Mapping
from typing import Any

from botocore import xform_name
from botocore.exceptions import BotoCoreError, ClientError
from botocore.model import StructureShape
from botocore.parsers import ResponseParserError

from voice_local.identity import LocalIdentity
from voice_local.isolation import IsolatedClients


class ServiceClients:
    """Calls operations by the names of the services' API references; used from several threads."""

    def __init__(self, identity: LocalIdentity, endpoint_url: str) -> None:
        self._clients = IsolatedClients(identity, endpoint_url)

    def input_shape(self, service: str, operation: str) -> StructureShape:
        """Return botocore's shape of an operation's input."""
        shape: StructureShape = self._clients.of(service).meta.service_model.operation_model(operation).input_shape
        return shape

    def call(self, service: str, operation: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Call an operation by the name of the API's reference, such as `CreateModel`.

        Raises:
            ClientError: the service refused, or moto broke.
            BotoCoreError: the arguments are invalid, or the service does not answer.
        """
        try:
            answer: dict[str, Any] = getattr(self._clients.of(service), xform_name(operation))(**arguments)
        except ResponseParserError as error:
            # The page that moto's server makes of a bug; the server has logged it.
            described = {"Code": "InternalFailure", "Message": f"moto cannot answer {service} {operation} here"}
            answered = {"Error": described, "ResponseMetadata": {"HTTPStatusCode": 500}}
            raise ClientError(answered, operation) from error
        return answer


def reason_of(error: ClientError | BotoCoreError) -> str:
    """Return an API error in the form CloudFormation shows as a resource's status reason."""
    if not isinstance(error, ClientError):
        return str(error)
    described, metadata = error.response["Error"], error.response.get("ResponseMetadata", {})
    status = metadata.get("HTTPStatusCode", "?")
    return f"{described.get('Message', '')} (Error Code: {described['Code']}, Status Code: {status})"
