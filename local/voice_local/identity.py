"""The one account, region and key pair of a local cloud."""

import secrets
import string
from dataclasses import dataclass, field

ACCOUNT_ID = "123456789012"
"""The account number AWS's own documentation uses; moto answers as this account."""

DEFAULT_REGION = "us-east-1"

_KEY_ALPHABET = string.ascii_uppercase + string.digits


@dataclass(frozen=True, slots=True)
class LocalIdentity:
    """Credentials made for one run; a cloud accepts no others on its data plane."""

    region: str = DEFAULT_REGION
    account_id: str = ACCOUNT_ID
    access_key_id: str = field(
        default_factory=lambda: "AKIALOCAL" + "".join(secrets.choice(_KEY_ALPHABET) for _ in range(11))
    )
    secret_access_key: str = field(default_factory=lambda: secrets.token_urlsafe(30), repr=False)
