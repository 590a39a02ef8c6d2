"""Fills moto's gap in S3's bucket policies: statements with a condition.

moto 5.2 denies what a statement is about when it cannot evaluate the statement's condition. The bootstrap bucket denies
everything that does not come over TLS (`aws:SecureTransport`), so every upload would be refused. Conditioned
statements are kept and described, and not enforced.
"""

import json
from typing import Any

from moto.iam.access_control import IAMPolicy, PermissionResult
from moto.s3 import models

from voice_local.control_plane.patches import Patches


def install(patches: Patches) -> None:
    """Put the gap's filling into moto; `patches` takes it out again."""
    patches.method(models.FakeBucket, "get_permission", _permission)


def _permission(bucket: Any, action: str, resource: str) -> Any:
    if bucket.policy is None:
        return PermissionResult.NEUTRAL
    policy = json.loads(bucket.policy)
    statements = policy["Statement"] if isinstance(policy["Statement"], list) else [policy["Statement"]]
    enforced = [statement for statement in statements if not statement.get("Condition")]
    return IAMPolicy(json.dumps({**policy, "Statement": enforced})).is_action_permitted(action, resource)
