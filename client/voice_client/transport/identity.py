"""Who signs: AWS credentials from boto3's full chain, or given ones."""

from dataclasses import dataclass, field
from typing import Any, Protocol

from voice_client.blocking import call_blocking
from voice_client.errors import CredentialsError

NO_CREDENTIALS_ADVICE = (
    "Set AWS_PROFILE or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or log in (`aws sso login`, `aws configure`)"
)


@dataclass(frozen=True, slots=True)
class Identity:
    """One set of AWS credentials. A stream keeps the one it was opened with, since each event's signature builds on the
    one before it; a rotated key in the middle of a stream would break that chain."""

    access_key_id: str
    secret_access_key: str = field(repr=False)
    session_token: str | None = field(default=None, repr=False)


class IdentityProvider(Protocol):
    """Gives the credentials for the next stream."""

    async def identity(self, *, deadline_seconds: float) -> Identity:
        """Return valid credentials, refreshed when they are about to expire.

        Raises:
            CredentialsError: there are none, or they cannot be refreshed.
            DeadlineError: their source did not answer in time.
        """
        ...


@dataclass(frozen=True, slots=True)
class StaticIdentity:
    """Always the same credentials."""

    fixed: Identity

    async def identity(self, *, deadline_seconds: float) -> Identity:
        """Return the fixed credentials at once."""
        del deadline_seconds
        return self.fixed


class BotocoreIdentity:
    """Credentials from boto3's chain: environment, profile, SSO, assume-role, web identity, process, container, IMDS.

    The streaming SDK's own chain never returns for SSO and assume-role profiles. botocore is loaded at the first use.

    Args:
        profile: a profile of the AWS configuration; None follows AWS_PROFILE.
    """

    def __init__(self, profile: str | None = None) -> None:
        self._profile = profile
        self._credentials: Any = None

    async def identity(self, *, deadline_seconds: float) -> Identity:
        """Return the chain's credentials; botocore refreshes temporary ones that are about to expire."""
        return await call_blocking(
            self._resolve,
            deadline_seconds=deadline_seconds,
            doing="reading the AWS credentials",
            advice="Check the profile's source: an SSO log-in, a credential_process, or the instance metadata service",
        )

    def _resolve(self) -> Identity:
        import botocore.session  # noqa: PLC0415  # slow to import
        from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415

        try:
            if self._credentials is None:
                self._credentials = botocore.session.Session(profile=self._profile).get_credentials()
            frozen = self._credentials.get_frozen_credentials() if self._credentials is not None else None
        except (BotoCoreError, ClientError) as error:
            self._credentials = None
            raise CredentialsError(f"cannot load AWS credentials: {error}", advice=NO_CREDENTIALS_ADVICE) from error
        if frozen is None or not frozen.access_key or not frozen.secret_key:
            raise CredentialsError("no AWS credentials found", advice=NO_CREDENTIALS_ADVICE)
        return Identity(frozen.access_key, frozen.secret_key, frozen.token)
