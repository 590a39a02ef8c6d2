"""`python3 -m weights_staging`: the job of the build. It is told by variables, as CodeBuild tells its builds.

WEIGHTS_BUCKET, MODEL, REVISION (a commit), FILES (patterns, separated by commas), HUB_URL; HUB_TOKEN_SECRET names a
secret in Secrets Manager whose text is the token, empty for none: the token is in no variable and in no line.
STAGING_REQUEST names who waits; a failure's reason is left there for them. Exit code 0: complete; 1: not, and the last
line says why.
"""

import os
import sys
from collections.abc import Mapping

import boto3
from boto3.exceptions import S3UploadFailedError
from botocore.exceptions import BotoCoreError, ClientError

from .copier import Copier
from .errors import SettingsMissingError, StagingError
from .hub import Hub, HubSettings
from .requests import leave_reason
from .store import WeightsStore

NEEDED = ("WEIGHTS_BUCKET", "MODEL", "REVISION", "FILES", "HUB_URL")

PATIENCE = {
    "HUB_SOCKET_SECONDS": "socket_seconds",
    "HUB_FIRST_PAUSE_SECONDS": "first_pause_seconds",
    "HUB_LONGEST_PAUSE_SECONDS": "longest_pause_seconds",
}
"""Variables that change the hub's patience; the defaults are right for any hub."""


def main(environment: Mapping[str, str]) -> int:
    """Stage; return the exit code."""
    try:
        missing = [name for name in NEEDED if not environment.get(name)]
        if missing:
            raise SettingsMissingError(f"the environment lacks {', '.join(missing)}")
        _stage(environment)
    except (StagingError, S3UploadFailedError, BotoCoreError, ClientError, OSError) as error:
        say(f"failed: {error}")
        _tell(environment, str(error))
        return 1
    return 0


def _stage(environment: Mapping[str, str]) -> None:
    patience = {name: float(environment[variable]) for variable, name in PATIENCE.items() if variable in environment}
    secret = environment.get("HUB_TOKEN_SECRET")
    hub = Hub(
        environment["HUB_URL"],
        _token(secret) if secret else None,
        say,
        HubSettings(**patience),  # type: ignore[arg-type]
    )
    store = WeightsStore(boto3.client("s3"), environment["WEIGHTS_BUCKET"])
    patterns = [pattern.strip() for pattern in environment["FILES"].split(",") if pattern.strip()]
    Copier(hub, store, say).run(environment["MODEL"], environment["REVISION"], patterns)


def _token(secret: str) -> str:
    answer = boto3.client("secretsmanager").get_secret_value(SecretId=secret)
    token = str(answer.get("SecretString", "")).strip()
    if not token or any(character.isspace() for character in token):
        raise StagingError(f"the secret {secret} holds no token: its text must be the token alone")
    return token


def _tell(environment: Mapping[str, str], reason: str) -> None:
    bucket, request = environment.get("WEIGHTS_BUCKET"), environment.get("STAGING_REQUEST")
    if not bucket or not request:
        return
    try:
        leave_reason(boto3.client("s3"), bucket, request, reason)
    except (BotoCoreError, ClientError) as error:
        say(f"the reason could not be left for {request}: {error}")


def say(line: str) -> None:
    """Write one line to the build's log."""
    print(line, flush=True)  # noqa: T201 (the log)


if __name__ == "__main__":
    sys.exit(main(os.environ))
