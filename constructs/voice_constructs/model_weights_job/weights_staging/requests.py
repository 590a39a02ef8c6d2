"""Who waits for a staging, kept in the bucket while the build runs: `requests/{id}.json` and, if it fails, its reason.

CloudFormation waits at a signed URL. In the build's variables it would be readable by everybody who may look at builds.
"""

import json
from collections.abc import Mapping
from typing import Any

from botocore.exceptions import ClientError

PREFIX = "requests/"


def keep(s3: Any, bucket: str, request: str, event: Mapping[str, Any]) -> None:
    """Keep CloudFormation's event until it can be answered."""
    s3.put_object(Bucket=bucket, Key=_key(request), Body=json.dumps(event).encode())


def kept(s3: Any, bucket: str, request: str) -> dict[str, Any] | None:
    """Return the event, None when it was answered already."""
    content = _content(s3, bucket, _key(request))
    return None if content is None else dict(json.loads(content))


def leave_reason(s3: Any, bucket: str, request: str, reason: str) -> None:
    """Leave why the build failed."""
    s3.put_object(Bucket=bucket, Key=_reason_key(request), Body=reason.encode())


def reason(s3: Any, bucket: str, request: str) -> str | None:
    """Return why the build failed, as far as it could say."""
    content = _content(s3, bucket, _reason_key(request))
    return None if content is None else content.decode()


def forget(s3: Any, bucket: str, request: str) -> None:
    """Remove both."""
    for key in (_key(request), _reason_key(request)):
        s3.delete_object(Bucket=bucket, Key=key)


def _key(request: str) -> str:
    return f"{PREFIX}{request}.json"


def _reason_key(request: str) -> str:
    return f"{PREFIX}{request}.reason"


def _content(s3: Any, bucket: str, key: str) -> bytes | None:
    try:
        content: bytes = s3.get_object(Bucket=bucket, Key=key)["Body"].read()
    except ClientError as error:
        if error.response["Error"]["Code"] in {"NoSuchKey", "404"}:
            return None
        raise
    return content
