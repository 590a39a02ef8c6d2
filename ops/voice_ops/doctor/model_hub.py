"""Models on the Hugging Face hub: whether id and revision exist, and whether whoever downloads them is let in."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any
from urllib.parse import quote, urlsplit

from botocore.exceptions import ClientError

from stacks.endpoint_settings import EndpointSettings
from stacks.settings import StageSettings
from voice_constructs.model_weights_job.weights_staging.hub import is_token
from voice_ops.doctor.check import Check, failed, passed, skipped
from voice_ops.doctor.public_request import Answer, PublicRequestError, get
from voice_ops.doctor.subject import DEFAULT_HUB, Limits, Places
from voice_ops.session import AwsSession, CredentialsUnusableError, NotPermittedError, error_code, translated

_SMALL_FILES = ("config.json", "params.json", "README.md")
"""Asked for first, to see whether a token lets its owner in: one of them is in every repository."""


class _TokenError(Exception):
    """The token cannot be used; carries detail and advice."""

    def __init__(self, detail: str, advice: str) -> None:
        super().__init__(detail)
        self.detail, self.advice = detail, advice


@dataclass(frozen=True, slots=True)
class _Asking:
    settings: StageSettings
    aws: AwsSession | None
    places: Places
    limits: Limits


@dataclass(frozen=True, slots=True)
class _Found:
    commit: str
    gated: bool
    private: bool
    files: tuple[str, ...]


def model_checks(settings: StageSettings, aws: AwsSession | None, places: Places, limits: Limits) -> Iterator[Check]:
    """Yield the lines `model.stt` and `model.tts`; AWS is needed for the token of a gated model alone."""
    asking = _Asking(settings, aws, places, limits)
    for service, endpoint in (("stt", settings.stt), ("tts", settings.tts)):
        yield _model(asking, f"model.{service}", endpoint)


def _model(subject: _Asking, check: str, endpoint: EndpointSettings) -> Check:
    if endpoint.weights_location is not None:
        return skipped(check, f"{endpoint.model} comes from {endpoint.weights}: the hub is not needed")
    hub = _hub(subject, endpoint)
    if hub is None:
        return skipped(
            check,
            f"{endpoint.model}: with a local cloud no model hub beyond this machine is asked",
            "HF_ENDPOINT names one to ask",
        )
    try:
        token = _token(subject) if endpoint.weights_staged else None
        return _judge(subject, check, endpoint, hub, token)
    except _TokenError as error:
        return failed(check, f"{endpoint.model}: {error.detail}", error.advice)
    except PublicRequestError as error:
        return skipped(
            check, f"{endpoint.model} could not be looked for: {error}", "check the network, and HTTPS_PROXY"
        )


def _judge(subject: _Asking, check: str, endpoint: EndpointSettings, hub: str, token: str | None) -> Check:
    model, revision = endpoint.model, endpoint.revision or "main"
    seconds = subject.limits.request_seconds
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    url = f"{hub}/api/models/{quote(model)}/revision/{quote(revision, safe='')}"
    answer = get(url, seconds=seconds, headers=headers, follow=not token)
    found = _read(answer)
    if found is None:
        return _not_found(subject, check, endpoint, answer, had_token=token is not None)
    named = f"{model} at {found.commit[:12]}"
    if not found.gated and not found.private:
        return passed(check, f"{named}, open to everybody")
    kind = "private" if found.private else "gated"
    if token is None:
        return failed(
            check,
            f"{named} is {kind}, and no token is there to download it with",
            _stage_it(subject, check, endpoint, found.commit),
        )
    file = next(
        (name for name in _SMALL_FILES if name in found.files), found.files[0] if found.files else "config.json"
    )
    let_in = get(
        f"{hub}/{quote(model)}/resolve/{found.commit}/{quote(file)}",
        seconds=seconds,
        headers=headers,
        method="HEAD",
        follow=False,
    )
    if let_in.status in {401, 403}:
        return failed(
            check,
            f"{named} is {kind}, and the token's owner is not let in ({let_in.status})",
            f"ask for access on {hub}/{model} as the owner of the token, or put another token into the secret",
        )
    if let_in.status >= 400:
        return skipped(check, f"{named} is {kind}; whether the token is let in is not known: {let_in.status}")
    return passed(check, f"{named}, {kind}; the token's owner is let in")


def _read(answer: Answer) -> _Found | None:
    if answer.status != 200:
        return None
    try:
        told: Mapping[str, Any] = json.loads(answer.body)
        return _Found(
            commit=str(told["sha"]),
            gated=bool(told.get("gated")),
            private=bool(told.get("private")),
            files=tuple(str(file["rfilename"]) for file in told.get("siblings", ())),
        )
    except (ValueError, KeyError, TypeError):
        raise PublicRequestError("the hub's answer is not in the form expected") from None


def _not_found(subject: _Asking, check: str, endpoint: EndpointSettings, answer: Answer, *, had_token: bool) -> Check:
    service, model, reason = check.partition(".")[2], endpoint.model, answer.headers.get("x-error-code", "")
    if reason == "RevisionNotFound" or (answer.status == 404 and reason != "RepoNotFound" and endpoint.revision):
        return failed(
            check,
            f"{model} has no revision {endpoint.revision or 'main'}",
            f"correct {service}.revision: a branch, a tag or a commit of that model",
        )
    if reason == "GatedRepo" or answer.status == 403:
        return failed(
            check,
            f"{model} is gated, and {'the token is not let in' if had_token else 'no token is there'}",
            _stage_it(subject, check, endpoint, endpoint.revision or "COMMIT"),
        )
    if answer.status in {401, 404}:
        unless = "the token may not see it" if had_token else "it is private"
        return failed(check, f"{model} is not on the hub, unless {unless}", f"correct {service}.model: owner/name")
    detail = f"{model} could not be looked for: the hub answered {answer.status}"
    return skipped(check, detail, "run this again later; HF_ENDPOINT names another hub")


def _stage_it(subject: _Asking, check: str, endpoint: EndpointSettings, commit: str) -> str:
    service, secret = check.partition(".")[2], subject.settings.staging.token_secret
    steps = [] if endpoint.weights_staged else [f"{service}.weights=staged", f"{service}.revision={commit}"]
    advice = "ask for access on the model's page as the owner of a hub token"
    if secret is None:
        advice += f"; put that token into Secrets Manager: {_create_secret(subject, 'hub-token')}"
        steps.append("staging.token_secret=hub-token")
    return f"{advice}{f'; set {" and ".join(steps)}' if steps else ''}. The token never reaches the container"


def _create_secret(subject: _Asking, name: str) -> str:
    region = subject.aws.region if subject.aws else subject.settings.region
    command = f"aws secretsmanager create-secret --name {name} --secret-string file://TOKEN-FILE"
    return f"{command}{f' --region {region}' if region else ''}"


def _hub(subject: _Asking, endpoint: EndpointSettings) -> str | None:
    """Return the base URL to ask: of the settings when the weights are staged from there, else of the environment."""
    own = subject.settings.staging.hub.rstrip("/") if endpoint.weights_staged else DEFAULT_HUB
    if own != DEFAULT_HUB and (not subject.places.local_cloud or _on_this_machine(own)):
        return own
    return subject.places.hub.rstrip("/") if subject.places.hub else None


def _on_this_machine(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _token(subject: _Asking) -> str | None:
    """Read the hub's token out of Secrets Manager; None when the settings name no secret."""
    secret = subject.settings.staging.token_secret
    if secret is None:
        return None
    if subject.aws is None:
        raise CredentialsUnusableError(f"the secret {secret} cannot be read without credentials")
    create = _create_secret(subject, secret)
    try:
        with translated(f"reading the secret {secret}"):
            answer = subject.aws.client("secretsmanager").get_secret_value(SecretId=secret)
    except NotPermittedError as error:
        raise _TokenError(
            f"the secret {secret} is not readable: {error}", f"allow secretsmanager:GetSecretValue on {secret}"
        ) from error
    except ClientError as error:
        if error_code(error) not in {"ResourceNotFoundException", "InvalidRequestException"}:
            raise
        raise _TokenError(f"there is no secret {secret} to read the hub's token from", create) from error
    token = str(answer.get("SecretString", "")).strip()
    if not is_token(token):
        raise _TokenError(f"the secret {secret} holds no token: its text must be the token alone", create)
    return token
