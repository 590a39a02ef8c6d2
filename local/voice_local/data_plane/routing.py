"""From a request's headers to the container that serves it, with everything SageMaker checks on the way."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from voice_local.data_plane.errors import RequestRefusedError, input_validation_error, validation_error
from voice_local.data_plane.settings import DataPlaneSettings
from voice_local.data_plane.sigv4 import SignedRequest
from voice_local.identity import LocalIdentity
from voice_local.interfaces import EndpointDirectory, ServingContainer

BIDIRECTIONAL = "invocations-bidirectional-stream"
PLAIN = "invocations"
RESPONSE_STREAM = "invocations-response-stream"

DEFAULT_INVOCATION_PATH = "invocations-bidirectional-stream"
"""Where the platform opens the container's WebSocket when the request names no path."""

TARGET_VARIANT = "x-amzn-sagemaker-target-variant"
INVOCATION_PATH = "x-amzn-sagemaker-model-invocation-path"
QUERY_STRING = "x-amzn-sagemaker-model-query-string"

_ROUTE = re.compile(rf"/endpoints/([^/]+)/({BIDIRECTIONAL}|{RESPONSE_STREAM}|{PLAIN})")
_ENDPOINT_NAME = re.compile(r"[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}")
# What may stand in the path and the query of a URL (RFC 3986); anything else could forge a line of the handshake.
_PATH = re.compile(r"(?:[A-Za-z0-9\-._~!$&'()*+,;=:@/]|%[0-9A-Fa-f]{2})*")
_QUERY = re.compile(r"(?:[A-Za-z0-9\-._~!$&'()*+,;=:@/?]|%[0-9A-Fa-f]{2})*")


@dataclass(frozen=True, slots=True)
class Route:
    """Which operation on which endpoint."""

    operation: str
    endpoint_name: str
    """As it stands in the URL: no name that is valid needs percent-encoding, and an encoded line feed must not reach
    the log as one."""


@dataclass(frozen=True, slots=True)
class ModelTarget:
    """Where in the container a bidirectional stream goes."""

    path: str
    """Without a leading slash."""
    query: str


def signed_request(headers: Sequence[tuple[str, str]]) -> SignedRequest:
    """Read the pseudo-headers of HTTP/2; `:authority` takes the place of `host`."""
    pseudo = {name: value for name, value in headers if name.startswith(":")}
    rest = [(name, value) for name, value in headers if not name.startswith(":")]
    if ":authority" in pseudo:
        rest = [(name, value) for name, value in rest if name != "host"]
        rest.append(("host", pseudo[":authority"]))
    return SignedRequest(pseudo.get(":method", ""), pseudo.get(":path", ""), rest)


def unknown_operation(request: SignedRequest) -> RequestRefusedError:
    """Answer 404: there is no such operation, or not over this protocol."""
    return RequestRefusedError(
        404, "UnknownOperationException", f"No operation here: {request.method} {request.target}"
    )


def find_route(request: SignedRequest) -> Route:
    """Return what the request asks for.

    Raises:
        RequestRefusedError: 404 UnknownOperationException.
    """
    match = _ROUTE.fullmatch(request.target.partition("?")[0])
    if match is None or request.method != "POST":
        raise unknown_operation(request)
    return Route(match[2], match[1])


def read_model_target(request: SignedRequest, settings: DataPlaneSettings) -> ModelTarget:
    """Check the model path and query string of the request. An empty header counts as a missing one.

    Raises:
        RequestRefusedError: 400 InputValidationError that names every problem.
    """
    path = request.header(INVOCATION_PATH) or DEFAULT_INVOCATION_PATH
    query = request.header(QUERY_STRING) or ""
    problems = []
    if path.startswith("/"):
        problems.append("ModelInvocationPath must not begin with a slash")
    if len(path) > settings.longest_invocation_path:
        problems.append(
            f"ModelInvocationPath has {len(path)} characters, at most {settings.longest_invocation_path} are allowed"
        )
    if not _PATH.fullmatch(path):
        problems.append("ModelInvocationPath holds characters that a URL path cannot hold")
    if len(query) > settings.longest_query_string:
        problems.append(
            f"ModelQueryString has {len(query)} characters, at most {settings.longest_query_string} are allowed"
        )
    if not _QUERY.fullmatch(query):
        problems.append("ModelQueryString holds characters that a URL query cannot hold")
    if problems:
        raise input_validation_error(f"{len(problems)} validation error(s) detected: {'; '.join(problems)}.")
    return ModelTarget(path, query)


def find_container(
    request: SignedRequest,
    endpoint_name: str,
    directory: EndpointDirectory,
    identity: LocalIdentity,
    settings: DataPlaneSettings,
) -> ServingContainer:
    """Return the container of the wanted variant, of the first variant when none is wanted.

    Raises:
        RequestRefusedError: 400 ValidationError when the endpoint or the variant is missing or not in service, 503 when
            the endpoint has no container.
    """
    account = identity.account_id
    endpoint = directory.find(endpoint_name) if _ENDPOINT_NAME.fullmatch(endpoint_name) else None
    if endpoint is None:
        raise validation_error(f"Endpoint {endpoint_name} of account {account} not found.")
    if endpoint.status not in settings.serving_states:
        raise validation_error(
            f"Endpoint {endpoint_name} of account {account} is not InService: its status is {endpoint.status}."
        )
    if not endpoint.containers:
        raise RequestRefusedError(
            503, "ServiceUnavailableError", f"Endpoint {endpoint_name} of account {account} has no container running."
        )
    variant = request.header(TARGET_VARIANT)
    if not variant:
        return endpoint.containers[0]
    for container in endpoint.containers:
        if container.variant == variant:
            return container
    raise validation_error(f"Variant {variant} of endpoint {endpoint_name} of account {account} not found.")
