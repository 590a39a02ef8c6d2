"""How operators' commands reach AWS: one session with a region, credentials and time-outs, made in one place.

The usual chain of the SDK decides: AWS_PROFILE, AWS_REGION, the credentials files, AWS_ENDPOINT_URL. So the variables
of a local cloud (`eval "$(voice local env)"`) lead every command to it, and to nothing else.
"""

import functools
import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

import boto3
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectionError,  # noqa: A004 - botocore's own name
    HTTPClientError,
    IncompleteReadError,
    NoCredentialsError,
    ParamValidationError,
    PartialCredentialsError,
    SSOTokenLoadError,
    TokenRetrievalError,
    UnauthorizedSSOTokenError,
)
from botocore.parsers import ResponseParserError

from voice_ops.errors import OpsError

CONNECT_SECONDS = 5.0
"""For a connection to an AWS API, per attempt: a second is long, five leave room for a slow proxy."""
READ_SECONDS = 20.0
"""For one answer, per attempt: listings of an account with many endpoints take some seconds."""
ATTEMPTS = 3
"""Tries of one call in all; throttling is common while endpoints are listed, and waiting for more helps nobody."""

EXPIRED_CODES = frozenset({"ExpiredToken", "ExpiredTokenException", "RequestExpired"})
"""Error codes by which services say that credentials were good and no longer are."""
REFUSED_CODES = {
    "InvalidClientTokenId": "the access key is unknown",
    "UnrecognizedClientException": "the access key is unknown",
    "SignatureDoesNotMatch": "the signature was not accepted: wrong secret key, or a wrong clock",
    "InvalidSignatureException": "the signature was not accepted: wrong secret key, or a wrong clock",
    "IncompleteSignature": "the signature was not accepted",
    "AuthFailure": "the credentials were not accepted",
    "MissingAuthenticationToken": "there are no credentials",
    "InvalidToken": "the session token is not valid",
}
"""Error codes by which services say that they do not know the caller, and what each means."""
DENIED_CODES = frozenset({"AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "NotAuthorized"})
"""Error codes by which services say that the caller may not do this."""
CLOCK_CODES = frozenset({"RequestTimeTooSkewed", "RequestInTheFuture"})
"""Error codes by which services say that this machine's clock is wrong."""
_CLOCK_WORDS = ("signature expired:", "signature not yet current:")
"""How services begin to say it under the code of a wrong signature."""


class AwsError(OpsError):
    """AWS could not be asked, or did not answer as needed."""


class NoRegionError(AwsError):
    """Nothing says which region."""

    def __init__(self) -> None:
        super().__init__(
            "no AWS region is set: set AWS_REGION or the profile's region, or write `region` into the stage's "
            'settings in cdk.json; for a local cloud that runs: eval "$(voice local env)"'
        )


class CredentialsUnusableError(AwsError):
    """There are no credentials, or AWS does not accept them."""


class CredentialsExpiredError(CredentialsUnusableError):
    """The credentials were good and are no longer."""


class ClockWrongError(CredentialsUnusableError):
    """This machine's clock differs from AWS's by more than a signature may be old."""


class NotPermittedError(AwsError):
    """The caller may not do this."""


class UnreachableError(AwsError):
    """No answer came: network, proxy or region."""


class UnreadableAnswerError(AwsError):
    """Something answered, and not as AWS does."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Who the credentials belong to.

    Attributes:
        account: twelve digits.
        arn: of the user or the assumed role.
    """

    account: str
    arn: str


class AwsSession:
    """A region and the caller's credentials; makes clients with this package's time-outs.

    Clients may be used from several threads; each is made once.
    """

    def __init__(self, region: str | None = None) -> None:
        """Take the region given, else AWS_REGION, AWS_DEFAULT_REGION and the profile's.

        Raises:
            NoRegionError: none of them says one.
            CredentialsUnusableError: AWS_PROFILE names a profile that is not there, or a file cannot be read.
        """
        try:
            # boto3 itself reads AWS_DEFAULT_REGION only; the other SDKs and the CDK CLI read AWS_REGION first.
            found = region or os.environ.get("AWS_REGION") or None
            session = boto3.Session(region_name=found)
            self.region: str = session.region_name or ""
        except BotoCoreError as error:
            raise CredentialsUnusableError(f"the AWS configuration cannot be used: {error}") from error
        if not self.region:
            raise NoRegionError
        self._session = session
        self._config = Config(
            connect_timeout=CONNECT_SECONDS,
            read_timeout=READ_SECONDS,
            retries={"mode": "standard", "total_max_attempts": ATTEMPTS},
            max_pool_connections=16,
            user_agent_extra="sagemaker-voice",
        )
        self._clients: dict[str, Any] = {}
        self._making = threading.Lock()

    @property
    def is_local(self) -> bool:
        """Whether calls go to a cloud on this machine instead of AWS."""
        return local_endpoint() is not None

    def client(self, service: str) -> Any:
        """Return the client of a service, by boto3's name for it.

        Raises:
            CredentialsUnusableError: the AWS configuration cannot be used.
        """
        with self._making, translated(f"reaching {service}"):
            if service not in self._clients:
                self._clients[service] = self._session.client(service, config=self._config)
            return self._clients[service]

    def has_credentials(self) -> bool:
        """Return whether the chain finds any credentials; whether they are good, only `identity` tells.

        Raises:
            CredentialsUnusableError: a profile needs a log-in or a file that is not there.
        """
        with translated("looking for credentials"):
            return self._session.get_credentials() is not None

    @functools.cached_property
    def identity(self) -> Identity:
        """The caller, asked of STS once.

        Raises:
            CredentialsExpiredError: they were good and are no longer.
            CredentialsUnusableError: there are none, or they are not accepted.
            UnreachableError: STS does not answer.
            UnreadableAnswerError: something else answers in its place.
        """
        with translated("asking STS who the credentials belong to"):
            answer = self.client("sts").get_caller_identity()
            return Identity(account=answer["Account"], arn=answer["Arn"])


def local_endpoint(environment: Mapping[str, str] | None = None) -> str | None:
    """Return the URL that AWS_ENDPOINT_URL gives when it is on this machine, None when calls go to AWS."""
    given = (os.environ if environment is None else environment).get("AWS_ENDPOINT_URL", "")
    host = urlsplit(given).hostname or ""
    try:
        on_this_machine = ip_address(host).is_loopback
    except ValueError:
        on_this_machine = host == "localhost" or host.endswith(".localhost")
    return given if on_this_machine else None


def unreachable_advice() -> str:
    """Return what to do when nothing answers."""
    if local_endpoint() is None:
        return "check the network, the proxy and the region"
    return (
        "AWS_ENDPOINT_URL leads to a local cloud that does not run any more: start one (voice local up --deploy), "
        'then eval "$(voice local env)"'
    )


def error_code(error: ClientError) -> str:
    """Return the service's code of an error, such as `AccessDeniedException`; empty when it gave none."""
    return str(error.response.get("Error", {}).get("Code", ""))


class translated:  # noqa: N801 (read as a sentence in `with`)
    """Turns what boto3 raises inside the block into this package's errors, each with what to do next.

    Errors of a service that are none of these kinds (`ResourceNotFound`, say) pass unchanged as `ClientError`.
    """

    def __init__(self, doing: str) -> None:
        """`doing` completes "while ...": what the block is for."""
        self._doing = doing

    def __enter__(self) -> None:
        """Nothing to prepare."""

    def __exit__(self, _type: object, error: BaseException | None, _trace: object) -> None:
        """Raise the translation, if there is one."""
        if error is not None and (translation := _translation(error, self._doing)) is not None:
            raise translation from error


def _translation(error: BaseException, doing: str) -> AwsError | None:
    for kinds, translate in _TRANSLATIONS:
        if isinstance(error, kinds):
            return translate(error, doing)
    return None


def _of_client_error(error: Any, doing: str) -> AwsError | None:
    code, said = error_code(error), error.response.get("Error", {}).get("Message", "") or str(error)
    if code in CLOCK_CODES or (code in REFUSED_CODES and said.lower().startswith(_CLOCK_WORDS)):
        return ClockWrongError(f"this machine's clock is wrong ({code}, {doing}): {said}")
    if code in EXPIRED_CODES:
        return CredentialsExpiredError(
            f"the AWS credentials have expired ({code}, {doing}): log in again (aws sso login, or new keys)"
        )
    if code in REFUSED_CODES:
        return CredentialsUnusableError(f"{REFUSED_CODES[code]} ({code}, {doing}): {said}")
    if code in DENIED_CODES:
        return NotPermittedError(f"not permitted, {doing}: {said}")
    return None


def _of_expired_log_in(error: Any, doing: str) -> AwsError:
    profile = os.environ.get("AWS_PROFILE")
    command = f"aws sso login{f' --profile {profile}' if profile else ''}"
    return CredentialsExpiredError(f"the single sign-on has expired ({doing}): run `{command}`. It said: {error}")


def _of_missing_credentials(_error: Any, doing: str) -> AwsError:
    return CredentialsUnusableError(
        f"no AWS credentials were found ({doing}): set AWS_PROFILE, run `aws configure` or `aws sso login`"
    )


def _of_network(error: Any, doing: str) -> AwsError:
    return UnreachableError(f"no answer, {doing}: {error}; {unreachable_advice()}")


def _of_unreadable(error: Any, doing: str) -> AwsError:
    what = f"the answer lacks {error}" if isinstance(error, KeyError) else str(error).partition(". Further")[0]
    return UnreadableAnswerError(
        f"not AWS's own answer, {doing}, but a proxy's or a log-in page's: {what}; {unreachable_advice()}"
    )


def _of_wrong_arguments(_error: Any, _doing: str) -> None:
    return None  # a fault of the caller's code, and to be seen as one


def _of_the_sdk(error: Any, doing: str) -> AwsError:
    # What is left is about profiles, single sign-on, credential processes and their files.
    return CredentialsUnusableError(f"the AWS configuration cannot be used ({doing}): {error}")


_TRANSLATIONS: tuple[tuple[tuple[type[Exception], ...], Callable[[Any, str], AwsError | None]], ...] = (
    ((ClientError,), _of_client_error),
    ((ParamValidationError,), _of_wrong_arguments),
    ((UnauthorizedSSOTokenError, TokenRetrievalError, SSOTokenLoadError), _of_expired_log_in),
    ((NoCredentialsError, PartialCredentialsError), _of_missing_credentials),
    ((ConnectionError, HTTPClientError, IncompleteReadError), _of_network),
    ((BotoCoreError,), _of_the_sdk),
    # Of an answer that was read inside the block: every answer of AWS has these parts.
    ((ResponseParserError, KeyError), _of_unreadable),
)
