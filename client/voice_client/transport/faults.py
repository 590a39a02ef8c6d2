"""What the connection, the service's HTTP answers and the stream's events call a failure, as this package's errors."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from voice_client.errors import (
    BadInputError,
    ConnectError,
    ConnectionLostError,
    CredentialsError,
    EndpointNotFoundError,
    EndpointNotInServiceError,
    InternalFailureError,
    ModelError,
    ProtocolError,
    RefusedError,
    ThrottledError,
    VoiceError,
    log_group,
)

INVOKE_ACTION = "sagemaker:InvokeEndpointWithBidirectionalStream"
"""The IAM action of a bidirectional stream; `sagemaker:InvokeEndpoint` does not cover it."""

_SIGNATURE_TYPES = {"InvalidSignatureException", "SignatureDoesNotMatch", "IncompleteSignature"}
_EXPIRED_TYPES = {"ExpiredTokenException", "ExpiredToken", "RequestExpired"}
_DENIED_TYPES = {"AccessDeniedException", "AccessDenied", "OptInRequired", "NotAuthorized"}
_THROTTLE_TYPES = {"ThrottlingException", "Throttling", "TooManyRequestsException", "RequestLimitExceeded"}

_NOT_FOUND = re.compile(
    r"\bendpoint\b.*\b(not found|could not find|does not exist)|\bcould not find endpoint\b", re.I | re.S
)
_NOT_IN_SERVICE = re.compile(
    r"not\s+(?:currently\s+)?in[\s-]?service|\bendpoint\b.*\bstatus\b.*\b(Creating|Updating|Failed|Deleting)\b",
    re.I | re.S,
)


@dataclass(slots=True)
class HttpAnswer:
    """The head of an HTTP response; the body only when it is an error's."""

    status: int
    headers: Mapping[str, str]
    """By lower-case name."""
    body: bytes = field(default=b"", repr=False)

    @property
    def request_id(self) -> str | None:
        """The service's id of the request."""
        return self.headers.get("x-amzn-requestid") or self.headers.get("x-amz-request-id")


def connect_failure(url: str, reason: str, *, endpoint: str) -> ConnectError:
    """A connection to `url` could not be made."""
    return ConnectError(f"cannot connect to {url}: {reason}", endpoint=endpoint)


def untrusted_certificate(url: str, reason: str, *, endpoint: str) -> ConnectError:
    """The server's certificate does not verify."""
    return ConnectError(
        f"the certificate of {url} is not trusted: {reason}",
        endpoint=endpoint,
        retryable=False,
        advice="Point ca_bundle, SSL_CERT_FILE or AWS_CA_BUNDLE at the authority that signed it; it is always verified",
    )


def connection_loss(reason: str, *, endpoint: str, request_id: str | None) -> ConnectionLostError:
    """An HTTP/2 stream that its peer had not ended is over: reset, GOAWAY, a closed socket, TCP without answer."""
    return ConnectionLostError(f"the connection was lost ({reason})", endpoint=endpoint, request_id=request_id)


def refusal(answer: HttpAnswer, *, endpoint: str) -> VoiceError:  # noqa: PLR0911  # one line a kind
    """An HTTP status other than 200, from its `x-amzn-errortype` and JSON body.

    The SDK drops both for whatever its model does not list, all of 403 and 429 among it.
    """
    body = _json_object(answer.body)
    error_type = _error_type(answer, body)
    said = _text(body, "Message", "message") or "no reason given"
    kind = f"HTTP {answer.status} {error_type}".rstrip()
    where: dict[str, Any] = {"endpoint": endpoint, "request_id": answer.request_id}

    if error_type in _SIGNATURE_TYPES:
        advice = "The secret access key does not belong to the key id, or this machine's clock is wrong: check both"
        return CredentialsError(f"the request's signature was not accepted ({kind}): {said}", **where, advice=advice)
    if error_type in _EXPIRED_TYPES:
        return CredentialsError(f"the credentials have expired ({kind}): {said}", **where, advice="Log in again")
    if error_type in _DENIED_TYPES:
        advice = f"Allow {INVOKE_ACTION} on the endpoint for these credentials"
        return CredentialsError(f"access denied ({kind}): {said}", **where, advice=advice)
    if answer.status in {401, 403}:
        return CredentialsError(f"the credentials were not accepted ({kind}): {said}", **where)
    if answer.status == 429 or error_type in _THROTTLE_TYPES:
        return ThrottledError(f"throttled ({kind}): {said}", **where)
    if answer.status == 424:
        return _refused(body, kind, said, endpoint=endpoint, request_id=answer.request_id)
    if answer.status in {400, 404}:
        if _NOT_IN_SERVICE.search(said):
            return EndpointNotInServiceError(f"not in service ({kind}): {said}", **where)
        if _NOT_FOUND.search(said):
            return EndpointNotFoundError(f"there is none here ({kind}): {said}", **where)
        if answer.status == 400:
            return BadInputError(f"the service calls the request invalid ({kind}): {said}", **where)
    if answer.status >= 500:
        return InternalFailureError(f"SageMaker failed ({kind}): {said}", **where)
    advice = "Check that the endpoint URL is that of SageMaker's HTTP/2 runtime"
    return ProtocolError(f"unexpected answer ({kind}): {said}", **where, advice=advice)


def stream_exception(
    exception_type: str, message: str | None, *, endpoint: str, request_id: str | None, error_code: str | None = None
) -> VoiceError:
    """An exception or error event in the middle of a stream."""
    said = message or "no reason given"
    where: dict[str, Any] = {"endpoint": endpoint, "request_id": request_id}
    if exception_type == "ModelStreamError":
        code = f" {error_code}" if error_code else ""
        return ModelError(
            f"the model container failed (ModelStreamError{code}): {said}",
            **where,
            error_code=error_code,
            advice=f"Look at the log group {log_group(endpoint)}",
        )
    if exception_type in _SIGNATURE_TYPES:
        return CredentialsError(f"an event's signature was not accepted ({exception_type}): {said}", **where)
    if exception_type in _EXPIRED_TYPES:
        return CredentialsError(
            f"the credentials have expired ({exception_type}): {said}", **where, advice="Log in again"
        )
    if exception_type in {"InputValidationError", "ValidationError"}:
        return BadInputError(f"the service calls an event invalid ({exception_type}): {said}", **where)
    if "throttl" in exception_type.lower():
        return ThrottledError(f"throttled ({exception_type}): {said}", **where)
    # InternalStreamFailure, and types that are newer than this SDK: what ended the stream is on the service's side.
    return InternalFailureError(f"SageMaker ended the stream ({exception_type}): {said}", **where)


def _refused(body: Mapping[str, Any], kind: str, said: str, *, endpoint: str, request_id: str | None) -> RefusedError:
    original = _text(body, "OriginalMessage", "originalMessage")
    status = body.get("OriginalStatusCode", body.get("originalStatusCode"))
    detail = f"{said}; the container said: {original}" if original and original not in said else said
    return RefusedError(
        f"the container refused the stream ({kind}{f', container status {status}' if status else ''}): {detail}",
        endpoint=endpoint,
        request_id=request_id,
        retryable=status in {429, 503},
        advice=f"Look at the container's log group {log_group(endpoint)}; check the invocation path and that the image "
        "carries the bidirectional-streaming label",
    )


def _error_type(answer: HttpAnswer, body: Mapping[str, Any]) -> str:
    # `Type:http://internal...` and `namespace#Type` are both in use (AWS restJson1 protocol).
    named = answer.headers.get("x-amzn-errortype") or _text(body, "__type", "code") or ""
    return named.split(":", 1)[0].rsplit("#", 1)[-1].strip()


def _json_object(body: bytes) -> dict[str, Any]:
    try:
        value = json.loads(body)
    except ValueError:  # not JSON, or not UTF-8: a proxy's page, say
        return {}
    return value if isinstance(value, dict) else {}


def _text(body: Mapping[str, Any], *names: str) -> str | None:
    return next((value for name in names if isinstance(value := body.get(name), str) and value), None)
