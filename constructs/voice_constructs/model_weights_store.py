"""Where weights are staged: a private bucket, the build that fills it, and the function that stacks ask for it.

The bucket outlives the stack, and nothing deletes a file in it. A stack asks by a custom resource; the function starts
a build unless the revision is there and complete, and answers when the build has ended (its end comes as an event), so
nothing waits and no function runs for long. CloudFormation waits an hour at the most.
"""

import json
from pathlib import Path
from typing import Protocol

from aws_cdk import Duration, RemovalPolicy, Stack
from aws_cdk import aws_codebuild as codebuild
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_s3_assets as assets
from aws_cdk import aws_secretsmanager as secretsmanager
from constructs import Construct

from voice_constructs.acknowledgements import Scanner, acknowledge, wildcard_resource
from voice_constructs.errors import InvalidPropertiesError

JOB_DIRECTORY = Path(__file__).resolve().parent / "model_weights_job"
"""The copier and the function: one asset."""

BUILD_IMAGE = "aws/codebuild/amazonlinux-x86_64-standard:5.0"
"""CodeBuild's own; each of its Pythons has boto3 (the image's Dockerfile, aws/aws-codebuild-docker-images)."""

BUILD_PYTHON = "3.12"

BUILD_SIZE = "BUILD_GENERAL1_MEDIUM"
"""128 GB of disk, of which one file at a time takes some: 9 GB for Voxtral. The small one has 64 GB and half the CPUs,
which hash what comes."""

LONGEST_BUILD_MINUTES = 55
"""CloudFormation gives up on a custom resource after an hour."""

LONGEST_QUEUE_MINUTES = 30
"""A young account runs one build at a time, and the second voice's weights wait for those of the first."""

_NOT_OF_THE_JOB = ["**/__pycache__", "**/*.pyc"]

_LIFE_OF_OLD_VERSIONS_DAYS = 7


class StagesWeights(Protocol):
    """What `ModelWeights.staged` needs to know: a `WeightsStore`, of this stack or another one."""

    @property
    def bucket(self) -> s3.IBucket:
        """Where the files go."""
        ...

    @property
    def service_token(self) -> str:
        """ARN of the function that stages."""
        ...


class WeightsStore(Construct):
    """A bucket for weights, and what fills it from the Hugging Face hub."""

    def __init__(
        self,
        scope: Construct,
        id: str,  # noqa: A002 - the CDK's own name for it
        *,
        hub_url: str,
        token_secret: str | None = None,
        timeout_minutes: int = LONGEST_BUILD_MINUTES,
        log_retention: logs.RetentionDays = logs.RetentionDays.ONE_MONTH,
    ) -> None:
        """Create the bucket, the build project and the function.

        Args:
            scope: parent construct.
            id: construct id.
            hub_url: of the Hugging Face hub, or of a mirror that has its API and leads to its checksums.
            token_secret: name or ARN of a secret in Secrets Manager whose text is a hub token. The build reads it when
                it needs it; it is in no template, variable or log. Default: none, for models that are not gated.
            timeout_minutes: after which a build is ended, 5 to 55.
            log_retention: of the build's and the function's log.

        Raises:
            InvalidPropertiesError: the time-out is out of range, or the hub is not reached over TLS.
        """
        super().__init__(scope, id)
        problems = []
        if not 5 <= timeout_minutes <= LONGEST_BUILD_MINUTES:
            problems.append(f"timeout_minutes is {timeout_minutes}; give 5 to {LONGEST_BUILD_MINUTES}")
        if not hub_url.startswith(("https://", "http://127.0.0.1:")):
            problems.append(f"hub_url is {hub_url!r}; write https://...")
        if problems:
            raise InvalidPropertiesError(self.node.path, problems)
        self._timeout_minutes = timeout_minutes
        self._log_retention = log_retention
        self.bucket: s3.IBucket = self._create_bucket()
        """Of the weights; kept when the stack is deleted."""
        self._job = assets.Asset(self, "Job", path=str(JOB_DIRECTORY), exclude=_NOT_OF_THE_JOB)
        self.project = self._create_project(hub_url, token_secret)
        """The build."""
        self.function = self._create_function()
        """Answers custom resources."""
        rule = events.Rule(
            self,
            "BuildEnded",
            description="Tells the staging function that a build has ended",
            event_pattern=events.EventPattern(
                source=["aws.codebuild"],
                detail_type=["CodeBuild Build State Change"],
                detail={
                    "project-name": [self.project.ref],
                    "build-status": ["SUCCEEDED", "FAILED", "STOPPED", "TIMED_OUT", "FAULT"],
                },
            ),
        )
        rule.add_target(targets.LambdaFunction(self.function))

    @property
    def service_token(self) -> str:
        """ARN of the function, for custom resources."""
        return str(self.function.function_arn)

    @staticmethod
    def from_attributes(scope: Construct, id: str, *, bucket_name: str, service_token: str) -> StagesWeights:  # noqa: A002
        """Return a store of another stack.

        Args:
            scope: parent construct.
            id: construct id.
            bucket_name: its bucket.
            service_token: ARN of its function.
        """
        return _ImportedStore(s3.Bucket.from_bucket_name(scope, id, bucket_name), service_token)

    def _create_bucket(self) -> s3.Bucket:
        bucket = s3.Bucket(
            self,
            "Bucket",
            versioned=True,
            enforce_ssl=True,
            encryption=s3.BucketEncryption.S3_MANAGED,
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
            removal_policy=RemovalPolicy.RETAIN,
            lifecycle_rules=[
                s3.LifecycleRule(
                    id="unfinished-uploads-and-old-versions",
                    abort_incomplete_multipart_upload_after=Duration.days(1),
                    noncurrent_version_expiration=Duration.days(_LIFE_OF_OLD_VERSIONS_DAYS),
                ),
                s3.LifecycleRule(id="answered-requests", prefix="requests/", expiration=Duration.days(1)),
            ],
        )
        why = (
            "The files are copies of a published model, read by the endpoints' roles only; a log of each read would "
            "need a second bucket. CloudTrail data events record them where that is wanted."
        )
        acknowledge(bucket, Scanner.CDK_NAG, "AwsSolutions-S1", reason=why)
        acknowledge(bucket, Scanner.CHECKOV, "CKV_AWS_18", reason=why)
        return bucket

    def _secret(self, given: str | None) -> secretsmanager.ISecret | None:
        if given is None:
            return None
        if given.startswith("arn:"):
            return secretsmanager.Secret.from_secret_complete_arn(self, "Token", given)
        return secretsmanager.Secret.from_secret_name_v2(self, "Token", given)

    def _create_project(self, hub_url: str, token_secret: str | None) -> codebuild.CfnProject:
        log_group = self._log_group("BuildLog", "The build's output is progress and file names; it holds no secret.")
        role = iam.Role(
            self,
            "BuildRole",
            assumed_by=iam.ServicePrincipal("codebuild.amazonaws.com"),
            description="What the build that stages weights may do",
        )
        role.add_to_policy(_writing_to(log_group))
        models, requests = self.bucket.arn_for_objects("models/*"), self.bucket.arn_for_objects("requests/*")
        role.add_to_policy(
            # No deletion: a build cannot take away what an endpoint serves from.
            iam.PolicyStatement(actions=["s3:GetObject", "s3:PutObject", "s3:AbortMultipartUpload"], resources=[models])
        )
        role.add_to_policy(iam.PolicyStatement(actions=["s3:PutObject"], resources=[requests]))
        # With it, S3 says of a file that is not there that it is not there.
        role.add_to_policy(iam.PolicyStatement(actions=["s3:ListBucket"], resources=[self.bucket.bucket_arn]))
        source = Stack.of(self).format_arn(service="s3", region="", account="", resource=self._job.s3_bucket_name)
        role.add_to_policy(
            iam.PolicyStatement(
                actions=["s3:GetObject", "s3:GetObjectVersion"], resources=[f"{source}/{self._job.s3_object_key}"]
            )
        )
        role.add_to_policy(iam.PolicyStatement(actions=["s3:GetBucketAcl", "s3:GetBucketLocation"], resources=[source]))
        if (secret := self._secret(token_secret)) is not None:
            role.add_to_policy(
                iam.PolicyStatement(
                    actions=["secretsmanager:GetSecretValue"],
                    resources=[secret.secret_full_arn or f"{secret.secret_arn}-??????"],
                )
            )
        policy = role.node.find_child("DefaultPolicy")
        for arn in (models, requests):
            acknowledge(policy, Scanner.CDK_NAG, wildcard_resource(self, arn), reason="Objects of this bucket alone.")
        project = codebuild.CfnProject(
            self,
            "Project",
            description="Copies a pinned revision of a model from the Hugging Face hub to S3",
            service_role=role.role_arn,
            source=codebuild.CfnProject.SourceProperty(
                type="S3",
                location=f"{self._job.s3_bucket_name}/{self._job.s3_object_key}",
                build_spec=json.dumps(
                    {
                        "version": 0.2,
                        "phases": {
                            "install": {"runtime-versions": {"python": BUILD_PYTHON}},
                            "build": {"commands": ["python3 -m weights_staging"]},
                        },
                    }
                ),
            ),
            artifacts=codebuild.CfnProject.ArtifactsProperty(type="NO_ARTIFACTS"),
            environment=codebuild.CfnProject.EnvironmentProperty(
                type="LINUX_CONTAINER",
                compute_type=BUILD_SIZE,
                image=BUILD_IMAGE,
                environment_variables=[
                    codebuild.CfnProject.EnvironmentVariableProperty(name=name, value=value)
                    for name, value in (
                        ("WEIGHTS_BUCKET", self.bucket.bucket_name),
                        ("HUB_URL", hub_url),
                        ("HUB_TOKEN_SECRET", token_secret or ""),
                    )
                ],
            ),
            timeout_in_minutes=self._timeout_minutes,
            # No limit of its own on builds at once: with one, CodeBuild refuses what it would else keep in its queue.
            queued_timeout_in_minutes=LONGEST_QUEUE_MINUTES,
            logs_config=codebuild.CfnProject.LogsConfigProperty(
                cloud_watch_logs=codebuild.CfnProject.CloudWatchLogsConfigProperty(
                    status="ENABLED", group_name=log_group.log_group_name
                )
            ),
        )
        acknowledge(
            project,
            Scanner.CDK_NAG,
            "AwsSolutions-CB4",
            reason="The build makes no artifact that a key would protect; the bucket encrypts the weights.",
        )
        project.node.add_dependency(policy)
        return project

    def _create_function(self) -> lambda_.Function:
        log_group = self._log_group("FunctionLog", "The function writes names of models and files; no secret.")
        role = iam.Role(
            self,
            "FunctionRole",
            assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"),
            description="What the function that starts and checks stagings may do",
        )
        role.add_to_policy(_writing_to(log_group))
        manifests = self.bucket.arn_for_objects("models/*.manifest.json")
        requests = self.bucket.arn_for_objects("requests/*")
        role.add_to_policy(iam.PolicyStatement(actions=["s3:GetObject"], resources=[manifests]))
        role.add_to_policy(
            iam.PolicyStatement(actions=["s3:GetObject", "s3:PutObject", "s3:DeleteObject"], resources=[requests])
        )
        role.add_to_policy(iam.PolicyStatement(actions=["s3:ListBucket"], resources=[self.bucket.bucket_arn]))
        role.add_to_policy(iam.PolicyStatement(actions=["codebuild:StartBuild"], resources=[self.project.attr_arn]))
        policy = role.node.find_child("DefaultPolicy")
        for arn in (manifests, requests):
            acknowledge(policy, Scanner.CDK_NAG, wildcard_resource(self, arn), reason="Objects of this bucket alone.")
        function = lambda_.Function(
            self,
            "Function",
            description="Starts the staging of weights and answers CloudFormation when it has ended",
            runtime=lambda_.Runtime.PYTHON_3_14,
            handler="weights_staging.custom_resource.handler",
            # The same content as the build's, hence the same object; named as an asset, it changes with its content.
            code=lambda_.Code.from_asset(str(JOB_DIRECTORY), exclude=_NOT_OF_THE_JOB),
            role=role,
            log_group=log_group,
            memory_size=256,
            # Two small reads, a listing and a call: seconds.
            timeout=Duration.minutes(2),
            environment={"WEIGHTS_BUCKET": self.bucket.bucket_name, "STAGING_PROJECT": self.project.ref},
        )
        for rule, reason in (
            ("CKV_AWS_115", "It is called when a stack changes: reserved concurrency would only take from others."),
            ("CKV_AWS_116", "CloudFormation waits for its answer, and says so when none comes; a queue would hide it."),
            ("CKV_AWS_117", "It reaches AWS's own APIs alone, and no VPC holds anything for it."),
            ("CKV_AWS_173", "Its variables are the names of a bucket and a project."),
        ):
            acknowledge(function, Scanner.CHECKOV, rule, reason=reason)
        acknowledge(
            function,
            Scanner.CFN_LINT,
            "W3005",
            reason="The CDK makes a function depend on its role and the role's policy; one of them would be enough.",
        )
        return function

    def _log_group(self, id: str, no_key: str) -> logs.LogGroup:  # noqa: A002
        group = logs.LogGroup(self, id, retention=self._log_retention, removal_policy=RemovalPolicy.DESTROY)
        acknowledge(group, Scanner.CHECKOV, "CKV_AWS_158", reason=f"{no_key} AWS's own key encrypts it.")
        return group


class _ImportedStore:
    def __init__(self, bucket: s3.IBucket, service_token: str) -> None:
        self.bucket = bucket
        self.service_token = service_token


def _writing_to(group: logs.ILogGroup) -> iam.PolicyStatement:
    return iam.PolicyStatement(actions=["logs:CreateLogStream", "logs:PutLogEvents"], resources=[group.log_group_arn])
