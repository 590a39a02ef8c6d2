"""Fills moto's gap in IAM: SimulatePrincipalPolicy, decided by the policies that users, groups and roles really have.

Conditions and permission boundaries are not looked at. The local cloud's own key pair, and the root user, belong to no
user that anybody made: they may do everything, as in the rest of the local cloud, where nothing is refused.
"""

from typing import Any

from moto.core.responses import ActionResult
from moto.iam.access_control import IAMPolicy, PermissionResult
from moto.iam.exceptions import NotFoundException
from moto.iam.responses import IamResponse

from voice_local.control_plane.patches import Patches

_OWN_USER = "user/moto"
"""As whom moto answers callers whose key it has not made."""


def install(patches: Patches) -> None:
    """Put the gap's filling into moto; `patches` takes it out again."""
    patches.method(IamResponse, "simulate_principal_policy", _simulate)


def _simulate(response: Any) -> ActionResult:
    source = response._get_param("PolicySourceArn")
    policies = _policies_of(response.backend, source)
    resources = response._get_param("ResourceArns") or ["*"]
    results = [
        {
            "EvalActionName": action,
            "EvalResourceName": resource,
            "EvalDecision": "allowed" if policies is None else _decision(policies, action, resource),
            "MatchedStatements": [],
            "MissingContextValues": [],
        }
        for action in response._get_param("ActionNames")
        for resource in resources
    ]
    return ActionResult({"EvaluationResults": results, "IsTruncated": False})


def _policies_of(backend: Any, source: str) -> list[Any] | None:
    """Return the policies of a user or role, None for one that may do everything."""
    if source.endswith((f":{_OWN_USER}", ":root")):
        return None
    kind, _, path = source.rpartition(":")[2].partition("/")
    name = path.rpartition("/")[2]
    match kind:
        case "user":
            holders = [backend.get_user(name), *backend.get_groups_for_user(name)]
        case "role":
            holders = [backend.get_role(name)]
        case _:
            raise NotFoundException(f"{source} is neither a user nor a role of this account.")
    return [policy for holder in holders for policy in (*holder.policies.values(), *holder.managed_policies.values())]


def _decision(policies: list[Any], action: str, resource: str) -> str:
    permitted = False
    for policy in policies:
        match IAMPolicy(policy).is_action_permitted(action, resource):
            case PermissionResult.DENIED:
                return "explicitDeny"
            case PermissionResult.PERMITTED:
                permitted = True
    return "allowed" if permitted else "implicitDeny"
