"""The log group of an endpoint's containers, created before SageMaker does: its own would never expire."""

from aws_cdk import ArnFormat, RemovalPolicy, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from constructs import Construct

from voice_constructs.acknowledgements import Scanner, acknowledge


def create_log_group(
    scope: Construct,
    id: str,  # noqa: A002 - the CDK's own name for it
    *,
    endpoint_name: str,
    retention: logs.RetentionDays,
    encryption_key: kms.IKey | None,
    removal_policy: RemovalPolicy,
) -> logs.LogGroup:
    """Create the log group that SageMaker writes an endpoint's containers' output to.

    Args:
        scope: parent construct.
        id: construct id.
        endpoint_name: decides the log group's name.
        retention: of its lines.
        encryption_key: its policy is made to let the Logs service use it for this log group; None for AWS's own key.
        removal_policy: of the log group.
    """
    name = f"/aws/sagemaker/Endpoints/{endpoint_name}"
    if encryption_key is not None:
        _let_logs_use(encryption_key, Stack.of(scope), name)
    group = logs.LogGroup(
        scope,
        id,
        log_group_name=name,
        retention=retention,
        encryption_key=encryption_key,
        removal_policy=removal_policy,
    )
    if encryption_key is None:
        acknowledge(
            group,
            Scanner.CHECKOV,
            "CKV_AWS_158",
            reason="Encrypted with a key that AWS owns, and no spoken word is logged; a key of its own is an option.",
        )
    return group


def _let_logs_use(key: kms.IKey, stack: Stack, log_group_name: str) -> None:
    """Name the Logs service in the key's policy: without it, creating the log group fails."""
    log_group_arn = stack.format_arn(
        service="logs",
        resource="log-group",
        resource_name=log_group_name,
        arn_format=ArnFormat.COLON_RESOURCE_NAME,
    )
    key.add_to_resource_policy(
        iam.PolicyStatement(
            principals=[iam.ServicePrincipal(f"logs.{stack.region}.amazonaws.com")],
            actions=["kms:Decrypt", "kms:DescribeKey", "kms:Encrypt", "kms:GenerateDataKey*", "kms:ReEncrypt*"],
            resources=["*"],  # in a key's own policy: this key
            conditions={"ArnEquals": {"kms:EncryptionContext:aws:logs:arn": log_group_arn}},
        )
    )
