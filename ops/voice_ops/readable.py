"""Templates in a reviewer's words: intrinsic functions as text, IAM statements in one line each, what is public."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from voice_ops.assembly import SynthesizedStack


@dataclass(frozen=True, slots=True)
class PolicyStatement:
    """One statement of one policy.

    Attributes:
        resource: logical id of the resource that holds it.
        kind: `identity` (of a role), `trust` (who may take the role) or `resource` (of a key, a topic, a bucket).
        holder: role, key, topic or bucket it is about.
        effect: `Allow` or `Deny`.
        principals: who; empty in an identity policy, where it is the holder.
        actions: what.
        resources: on what; empty in a trust policy.
        condition: under which condition, empty for none.
    """

    resource: str
    kind: str
    holder: str
    effect: str
    principals: tuple[str, ...]
    actions: tuple[str, ...]
    resources: tuple[str, ...]
    condition: str

    @property
    def public(self) -> bool:
        """Whether it lets everybody in."""
        return self.effect == "Allow" and "*" in self.principals and not self.condition

    def __str__(self) -> str:
        who = ", ".join(self.principals) or self.holder
        where = ", ".join(self.resources) or self.holder
        if self.kind == "resource":
            where = self.holder
        condition = f"  if {self.condition}" if self.condition else ""
        return f"{self.effect.upper():5} {who}: {', '.join(self.actions)}  on {where}{condition}"


def text(value: Any) -> str:
    """Write a template's value as one would say it: `Fn::Join` joined, references in angle brackets."""
    if isinstance(value, Mapping):
        name, argument = next(iter(value.items()), ("", None))
        if len(value) == 1 and name in _INTRINSICS:
            return _INTRINSICS[name](argument)
        return ", ".join(f"{key} {text(inner)}" for key, inner in value.items())
    if isinstance(value, list):
        return ", ".join(map(text, value))
    return str(value)


_INTRINSICS: Mapping[str, Callable[[Any], str]] = {
    "Ref": lambda name: f"<{str(name).removeprefix('AWS::')}>",
    "Fn::GetAtt": lambda path: f"<{'.'.join(map(str, path)) if isinstance(path, list) else path}>",
    "Fn::Join": lambda parts: str(parts[0]).join(text(part) for part in parts[1]),
    "Fn::Sub": lambda pattern: pattern if isinstance(pattern, str) else str(pattern[0]),
    "Fn::FindInMap": lambda keys: f"<{keys[0]}>",
}


def statements(stack: SynthesizedStack) -> Iterator[PolicyStatement]:
    """Yield every statement of every policy in a template."""
    for logical_id, resource in stack.resources.items():
        properties = resource.get("Properties", {})
        for holder, kind, document in _documents(logical_id, resource["Type"], properties):
            for statement in _listed(document["Statement"]):
                yield PolicyStatement(
                    resource=logical_id,
                    kind=kind,
                    holder=holder,
                    effect=statement["Effect"],
                    principals=tuple(_principals(statement.get("Principal", {}))),
                    actions=tuple(map(text, _listed(statement.get("Action", statement.get("NotAction", []))))),
                    resources=() if kind == "trust" else tuple(map(text, _listed(statement.get("Resource", [])))),
                    condition=_condition(statement.get("Condition", {})),
                )


def public_access(stack: SynthesizedStack) -> list[str]:
    """List what anybody on the internet could reach or do; empty when nothing is."""
    found = [f"{statement.resource}: {statement}" for statement in statements(stack) if statement.public]
    for logical_id, resource in stack.resources.items():
        properties = resource.get("Properties", {})
        found += [
            f"{logical_id}: ports {rule.get('FromPort')}-{rule.get('ToPort')} open to the internet"
            for rule in _listed(properties.get("SecurityGroupIngress", []))
            if rule.get("CidrIp") == "0.0.0.0/0" or rule.get("CidrIpv6") == "::/0"
        ]
        if resource["Type"] == "AWS::S3::Bucket" and len(properties.get("PublicAccessBlockConfiguration", {})) < 4:
            found.append(f"{logical_id}: the bucket does not block public access")
        if resource["Type"] == "AWS::Lambda::Url" and properties.get("AuthType") == "NONE":
            found.append(f"{logical_id}: a function URL without authentication")
    return found


def _documents(
    logical_id: str, resource_type: str, properties: Mapping[str, Any]
) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    if "AssumeRolePolicyDocument" in properties:
        yield logical_id, "trust", properties["AssumeRolePolicyDocument"]
    for inline in properties.get("Policies", []) if resource_type == "AWS::IAM::Role" else []:
        yield logical_id, "identity", inline["PolicyDocument"]
    if resource_type in {"AWS::IAM::Policy", "AWS::IAM::ManagedPolicy"}:
        yield text(properties.get("Roles", [logical_id])), "identity", properties["PolicyDocument"]
    elif "PolicyDocument" in properties:
        holder = properties.get("Topics") or properties.get("Queues") or properties.get("Bucket") or logical_id
        yield text(holder), "resource", properties["PolicyDocument"]
    if "KeyPolicy" in properties:
        yield logical_id, "resource", properties["KeyPolicy"]


def _principals(principal: Any) -> Iterator[str]:
    if isinstance(principal, str):
        yield principal
        return
    for names in principal.values():
        yield from map(text, _listed(names))


def _condition(condition: Mapping[str, Mapping[str, Any]]) -> str:
    return " and ".join(
        f"{key} {operator} {text(value)}" for operator, tests in condition.items() for key, value in tests.items()
    )


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
