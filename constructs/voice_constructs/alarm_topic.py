"""Where alarms go: an SNS topic that CloudWatch, and nobody outside the account, may publish to."""

from aws_cdk import Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from constructs import Construct

from voice_constructs.acknowledgements import Scanner, acknowledge


class AlarmTopic(Construct):
    """A topic for alarms, with an e-mail subscription if wanted, to be confirmed from the mail it sends."""

    def __init__(
        self,
        scope: Construct,
        id: str,  # noqa: A002 - the CDK's own name for it
        *,
        email: str | None = None,
        encryption_key: kms.IKey | None = None,
    ) -> None:
        """Create the topic.

        Args:
            scope: parent construct.
            id: construct id.
            email: who is told. Default: nobody yet; subscribe to `topic`.
            encryption_key: its policy is made to let CloudWatch use it. Default: SNS's own encryption at rest.
        """
        super().__init__(scope, id)
        self.topic = sns.Topic(self, "Topic", enforce_ssl=True, master_key=encryption_key)
        same_account = {"StringEquals": {"aws:SourceAccount": Stack.of(self).account}}
        cloudwatch = iam.ServicePrincipal("cloudwatch.amazonaws.com")
        # A topic's policy replaces the default one, by which CloudWatch may publish: it must be let in again.
        self.topic.add_to_resource_policy(
            iam.PolicyStatement(
                sid="CloudWatchAlarms",
                principals=[cloudwatch],
                actions=["sns:Publish"],
                resources=[self.topic.topic_arn],
                conditions=same_account,
            )
        )
        if encryption_key is not None:
            encryption_key.add_to_resource_policy(
                iam.PolicyStatement(
                    principals=[cloudwatch],
                    actions=["kms:Decrypt", "kms:GenerateDataKey*"],
                    resources=["*"],  # in a key's own policy: this key
                    conditions=same_account,
                )
            )
        else:
            acknowledge(
                self.topic,
                Scanner.CHECKOV,
                "CKV_AWS_26",
                reason="CloudWatch cannot publish to a topic under AWS's own SNS key; an alarm's text holds no secret.",
            )
        if email is not None:
            self.topic.add_subscription(subscriptions.EmailSubscription(email))
