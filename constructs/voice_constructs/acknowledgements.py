"""How a finding of a scanner is accepted: one finding, on one resource, for one reason, beside the construct.

`python -m voice_ops.review` reads the acknowledgements out of the cloud assembly and takes none that covers more than
one resource. There is deliberately no way to acknowledge a finding for a whole stack.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from aws_cdk import Acknowledgment, CfnResource, Stack, Validations
from constructs import IConstruct


class Scanner(StrEnum):
    """Who made a finding; the value is the prefix of an acknowledgement's id."""

    CDK_NAG = "AwsSolutions"
    CHECKOV = "checkov"
    CFN_LINT = "cfn-lint"


def acknowledge(construct: IConstruct, scanner: Scanner, rule: str, *, reason: str) -> None:
    """Accept one finding on the one resource of a construct.

    Args:
        construct: a CloudFormation resource, or a construct whose default child is one.
        scanner: who made the finding.
        rule: as the scanner writes it, for example `AwsSolutions-IAM5[Resource::*]` or `CKV_AWS_158`.
        reason: one sentence for the reviewer.

    Raises:
        TypeError: the construct is not one resource.
    """
    resource = construct if isinstance(construct, CfnResource) else construct.node.default_child
    if not isinstance(resource, CfnResource):
        raise TypeError(
            f"{construct.node.path} is not one resource; acknowledge the finding on the resource it is about"
        )
    Validations.of(resource).acknowledge(Acknowledgment(id=f"{scanner.value}::{rule}", reason=reason))


def wildcard_resource(scope: IConstruct, arn: str) -> str:
    """Return cdk-nag's rule of one wildcard in one IAM resource, in the way cdk-nag writes the ARN down."""
    return f"AwsSolutions-IAM5[Resource::{_written(Stack.of(scope).resolve(arn))}]"


def _written(value: Any) -> str:
    """Write a resolved ARN as cdk-nag does: `Fn::Join` joined, references and attributes in angle brackets."""
    if not isinstance(value, Mapping):
        return str(value)
    ((name, argument),) = value.items()
    if name == "Fn::Join":
        return str(argument[0]).join(_written(part) for part in argument[1])
    return f"<{'.'.join(argument) if isinstance(argument, list) else argument}>"
