"""`python3 -m weights_staging`: the job of the build. It is told by variables, as CodeBuild tells its builds.

WEIGHTS_BUCKET, MODEL, REVISION (a commit), FILES (patterns, separated by commas), HUB_URL; HUB_TOKEN_SECRET names a
secret in Secrets Manager whose text is the token, empty for none: the token is in no variable and in no line.
STAGING_REQUEST names who waits; a failure's reason is left there for them. Exit code 0: complete; 1: not, and the last
line says why.
"""

import os
import signal
import sys
import traceback
from collections.abc import Mapping

import boto3
from boto3.exceptions import S3UploadFailedError
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from .copier import Copier
from .errors import SettingsMissingError, StagingError
from .hub import Hub, HubSettings, is_token
from .requests import leave_reason
from .store import WeightsStore

NEEDED = ("WEIGHTS_BUCKET", "MODEL", "REVISION", "FILES", "HUB_URL")

PATIENCE = {
    "HUB_SOCKET_SECONDS": "socket_seconds",
    "HUB_FIRST_PAUSE_SECONDS": "first_pause_seconds",
    "HUB_LONGEST_PAUSE_SECONDS": "longest_pause_seconds",
}
"""Variables that change the hub's patience; the defaults are right for any hub."""

S3_ATTEMPTS = 10
"""Tries of one request to S3 in all: it slows down who sends many parts at once, and begs to be asked again."""


def main(environment: Mapping[str, str]) -> int:
    """Stage; return the exit code."""
    try:
        _stage(environment)
    except (StagingError, S3UploadFailedError, BotoCoreError, ClientError, OSError) as error:
        return _failed(environment, str(error))
    except KeyboardInterrupt:
        return _failed(environment, "it was stopped. Start again: what was staged stays.")
    except Exception as error:  # noqa: BLE001 - a fault of this program; who waits is told of it too
        traceback.print_exc()
        return _failed(environment, f"the copier itself failed: {type(error).__name__}: {error}")
    return 0


def _failed(environment: Mapping[str, str], reason: str) -> int:
    reason = " ".join(reason.split())  # whoever follows the log knows the end by one line
    say(f"failed: {reason}")
    _tell(environment, reason)
    return 1


def _stage(environment: Mapping[str, str]) -> None:
    if missing := [name for name in NEEDED if not environment.get(name)]:
        raise SettingsMissingError(f"the environment lacks {', '.join(missing)}")
    patience = {name: float(environment[variable]) for variable, name in PATIENCE.items() if variable in environment}
    secret = environment.get("HUB_TOKEN_SECRET")
    hub = Hub(
        environment["HUB_URL"],
        _token(secret) if secret else None,
        say,
        HubSettings(**patience),  # type: ignore[arg-type]
    )
    retries = Config(retries={"mode": "standard", "total_max_attempts": S3_ATTEMPTS})
    store = WeightsStore(boto3.client("s3", config=retries), environment["WEIGHTS_BUCKET"])
    patterns = [pattern.strip() for pattern in environment["FILES"].split(",") if pattern.strip()]
    Copier(hub, store, say).run(environment["MODEL"], environment["REVISION"], patterns)


def _token(secret: str) -> str:
    answer = boto3.client("secretsmanager").get_secret_value(SecretId=secret)
    token = str(answer.get("SecretString", "")).strip()
    if not is_token(token):
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


def _stop(*_: object) -> None:
    """End as Ctrl-C does, so that an upload under way is taken back."""
    raise KeyboardInterrupt


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _stop)
    sys.exit(main(os.environ))
