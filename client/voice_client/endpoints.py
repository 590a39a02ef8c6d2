"""From a stage to the endpoint that serves it, by the SSM parameters that the stacks write.

`/sagemaker-voice/{stage}/{stt|tts}/endpoint-name`, `.../model` and, for speech to text, `.../max-model-len`.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import urlsplit

from voice_client.blocking import call_blocking
from voice_client.errors import (
    BadInputError,
    ConnectError,
    CredentialsError,
    EndpointNotFoundError,
    InternalFailureError,
    ProtocolError,
    ThrottledError,
    VoiceError,
)

type Kind = Literal["stt", "tts"]
"""Which of a stage's two endpoints: speech to text, or text to speech."""

LOOK_UP_SECONDS = 20.0
"""Deadline of the whole look-up: credentials (a few seconds from SSO or instance metadata) and two tries at SSM."""
REQUEST_SECONDS = 5.0
"""Connecting to SSM, and waiting for its answer, per try: it answers in well under a second."""

_STAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")
_ENDPOINT_NAME = re.compile(r"[A-Za-z0-9](-*[A-Za-z0-9]){0,62}")
"""SageMaker's own rule for the name of an endpoint."""

_NO_REGION_ADVICE = (
    "Give --region, set AWS_REGION, or set a region in the AWS profile; "
    'for a local cloud that runs: eval "$(voice local env)"'
)
_CREDENTIAL_CODES = {
    "UnrecognizedClientException": "the access key is unknown",
    "InvalidClientTokenId": "the access key is unknown",
    "InvalidSignatureException": "the signature was not accepted: wrong secret key, or a wrong clock",
    "SignatureDoesNotMatch": "the signature was not accepted: wrong secret key, or a wrong clock",
    "ExpiredTokenException": "the credentials have expired",
    "ExpiredToken": "the credentials have expired",
    "RequestExpired": "the credentials have expired, or the clock is wrong",
    "IncompleteSignature": "the signature was not accepted",
    "MissingAuthenticationToken": "there are no credentials",
    "InvalidToken": "the session token is not valid",
}


@dataclass(frozen=True, slots=True)
class ResolvedEndpoint:
    """An endpoint and what its stage published about it."""

    endpoint_name: str
    region: str
    model_id: str | None = None
    """Name the server knows the model by; None when the endpoint was named rather than looked up."""
    max_model_len: int | None = None
    """Longest session in tokens (80 ms of audio each, for the speech-to-text model); None when not published."""


async def resolve_endpoint(
    kind: Kind,
    *,
    stage: str | None = None,
    endpoint_name: str | None = None,
    region: str | None = None,
    deadline_seconds: float = LOOK_UP_SECONDS,
) -> ResolvedEndpoint:
    """Find the endpoint of a stage; with `endpoint_name`, only the region is looked up, and nothing is asked of AWS.

    Args:
        kind: which of the stage's endpoints.
        stage: a deployed stage. Exactly one of it and `endpoint_name` is needed.
        endpoint_name: a SageMaker endpoint's name.
        region: AWS region; None takes AWS_REGION, AWS_DEFAULT_REGION, then the profile's.
        deadline_seconds: for all of it.

    Raises:
        BadInputError: not exactly one of stage and endpoint name, or one that cannot exist.
        CredentialsError: no credentials, not accepted ones, or no region.
        EndpointNotFoundError: the stage is not deployed in this account and region.
        ConnectError, ThrottledError, InternalFailureError: SSM cannot be reached, or does not answer well.
        DeadlineError: no result in time.
    """
    _check(stage, endpoint_name)
    return await call_blocking(
        lambda: _resolve(kind, stage, endpoint_name, region),
        deadline_seconds=deadline_seconds,
        doing="looking the endpoint up",
        advice="Check the network and the source of the AWS credentials; --endpoint NAME needs no look-up",
    )


def _check(stage: str | None, endpoint_name: str | None) -> None:
    if (stage is None) == (endpoint_name is None):
        raise BadInputError("exactly one of a stage and an endpoint name is needed")
    if stage is not None and not _STAGE.fullmatch(stage):
        raise BadInputError(f"{stage!r} cannot be a stage", advice="A stage is a short name such as dev or prod")
    if endpoint_name is not None and not _ENDPOINT_NAME.fullmatch(endpoint_name):
        raise BadInputError(
            f"{endpoint_name!r} cannot be the name of an endpoint",
            advice="Give the endpoint's name (not its ARN): up to 63 letters, digits and hyphens",
        )


def _resolve(kind: Kind, stage: str | None, endpoint_name: str | None, region: str | None) -> ResolvedEndpoint:
    import botocore.session  # noqa: PLC0415  # slow to import
    from botocore.exceptions import BotoCoreError  # noqa: PLC0415

    session = botocore.session.Session()
    try:
        found = region or os.environ.get("AWS_REGION") or session.get_config_variable("region")
    except BotoCoreError as error:  # AWS_PROFILE names a profile that is not there, say
        raise CredentialsError(f"cannot read the AWS configuration: {error}") from error
    if not found:
        raise CredentialsError("no AWS region is set", advice=_NO_REGION_ADVICE)
    if endpoint_name is not None:
        return ResolvedEndpoint(endpoint_name, found)
    path = f"/sagemaker-voice/{stage}/{kind}"
    published = _parameters(session, path, found)
    name = published.get("endpoint-name")
    if not name:
        raise EndpointNotFoundError(
            f"stage {stage} is not deployed in {found}: there is no parameter {path}/endpoint-name",
            advice=f"Deploy it (make deploy STAGE={stage}), or check the stage, account and region; "
            "--endpoint NAME needs no stage",
        )
    return ResolvedEndpoint(name, found, published.get("model"), _tokens(published, path, name))


def _parameters(session: Any, path: str, region: str) -> Mapping[str, str]:
    """Return the parameters below `path`, each by the last part of its name."""
    from botocore.config import Config  # noqa: PLC0415
    from botocore.exceptions import BotoCoreError, ClientError, ConnectionError, HTTPClientError  # noqa: A004, PLC0415

    config = Config(connect_timeout=REQUEST_SECONDS, read_timeout=REQUEST_SECONDS, retries={"total_max_attempts": 2})
    try:
        client = session.create_client("ssm", region_name=region, config=config)
        pages = client.get_paginator("get_parameters_by_path").paginate(Path=path)
        return {item["Name"].rsplit("/", 1)[1]: item["Value"] for page in pages for item in page["Parameters"]}
    except ClientError as error:
        raise _service_error(error, path) from error
    except (ConnectionError, HTTPClientError) as error:
        raise ConnectError(f"cannot reach SSM in {region}: {error}", advice=_unreachable_advice()) from error
    except ValueError as error:  # what botocore raises for a region or URL that cannot be one
        raise BadInputError(f"cannot ask SSM in {region}: {error}") from error
    except BotoCoreError as error:
        raise CredentialsError(f"cannot ask SSM in {region}: {error}") from error


def _unreachable_advice() -> str:
    if urlsplit(os.environ.get("AWS_ENDPOINT_URL", "")).hostname in {"127.0.0.1", "localhost"}:
        return (
            "AWS_ENDPOINT_URL leads to a local cloud that does not run any more: start one (voice local up --deploy), "
            'then eval "$(voice local env)"'
        )
    return "Check the region and the network"


def _service_error(error: Any, path: str) -> VoiceError:
    code = error.response.get("Error", {}).get("Code", "")
    said = error.response.get("Error", {}).get("Message", "") or str(error)
    metadata = error.response.get("ResponseMetadata", {})
    request_id = metadata.get("RequestId")
    if code in _CREDENTIAL_CODES:
        return CredentialsError(f"{_CREDENTIAL_CODES[code]} ({code}): {said}", request_id=request_id)
    if code.startswith("AccessDenied"):
        return CredentialsError(
            f"access denied: {said}",
            request_id=request_id,
            advice=f"Allow ssm:GetParametersByPath on parameter{path}, or name the endpoint with --endpoint",
        )
    if "Throttl" in code or code == "TooManyUpdates":
        return ThrottledError(f"SSM throttled the look-up ({code}): {said}", request_id=request_id)
    if metadata.get("HTTPStatusCode", 0) >= 500:
        return InternalFailureError(f"SSM failed ({code}): {said}", request_id=request_id)
    return ProtocolError(f"SSM did not answer the look-up ({code}): {said}", request_id=request_id)


def _tokens(published: Mapping[str, str], path: str, endpoint_name: str) -> int | None:
    value = published.get("max-model-len")
    if value is None:
        return None
    if not value.isdecimal() or int(value) == 0:
        raise ProtocolError(
            f"the parameter {path}/max-model-len is {value!r}, not a number of tokens",
            endpoint=endpoint_name,
            advice="Deploy the stage again",
        )
    return int(value)
