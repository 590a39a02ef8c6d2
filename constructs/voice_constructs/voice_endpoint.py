"""A SageMaker real-time endpoint that takes bidirectional streams."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields

from aws_cdk import Annotations, RemovalPolicy
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from aws_cdk import aws_sagemaker as sagemaker
from aws_cdk import aws_sns as sns
from constructs import Construct

from voice_constructs.accelerators import Accelerator, accelerator_of
from voice_constructs.acknowledgements import Scanner, acknowledge
from voice_constructs.container_log import create_log_group
from voice_constructs.deployment_guardrails import DeploymentGuardrails
from voice_constructs.endpoint_alarms import error_alarms, notify, operation_alarms
from voice_constructs.endpoint_metrics import VARIANT_NAME, MeasuredEndpoint
from voice_constructs.errors import InvalidPropertiesError
from voice_constructs.instance_pools import InstancePools
from voice_constructs.model_weights import ModelWeights
from voice_constructs.serving_image import ServingImage
from voice_constructs.session_metrics import add_session_metric_filters
from voice_constructs.stage_dashboard import endpoint_widgets
from voice_constructs.stream_scaling import StreamScaling
from voice_constructs.voice_network import VoiceNetwork

_ENDPOINT_NAME = re.compile(r"[a-z0-9](?:-?[a-z0-9])*")
_MAX_ENDPOINT_NAME = 63
_SECRET_NAME = re.compile(r"(?:^|_)(?:TOKEN|SECRET|PASSWORD|API_KEY|ACCESS_KEY)(?:_|$)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class StartupTimeouts:
    """How long SageMaker waits for an instance's container, in seconds; each 60-3600.

    Attributes:
        health_check: from the container's start to its first `/ping` with status 200. Weights from the hub are
            downloaded in this time, and the model is compiled.
        model_download: for weights in S3, before the container starts.
    """

    health_check: int = 1800
    model_download: int = 1800


class VoiceEndpoint(MeasuredEndpoint):
    """Execution role, log group, model, endpoint config and endpoint of one streaming voice model.

    The endpoint and its log group carry literal names, because clients and alarms must name them before they exist. The
    models and the endpoint config carry none: they cannot be changed, only replaced, and CloudFormation cannot
    replace what has a fixed name.
    """

    @staticmethod
    def from_endpoint_name(scope: Construct, id: str, endpoint_name: str) -> MeasuredEndpoint:  # noqa: A002
        """Return an endpoint that is defined elsewhere, for grants and metrics."""
        return MeasuredEndpoint(scope, id, endpoint_name=endpoint_name)

    def __init__(
        self,
        scope: Construct,
        id: str,  # noqa: A002 - the CDK's own name for it
        *,
        endpoint_name: str,
        image: ServingImage,
        weights: ModelWeights,
        pools: InstancePools | None = None,
        environment: Mapping[str, str] | None = None,
        environment_without_bfloat16: Mapping[str, str] | None = None,
        instance_count: int = 1,
        timeouts: StartupTimeouts | None = None,
        guardrails: DeploymentGuardrails | None = None,
        guaranteed_instances: int | None = None,
        network: VoiceNetwork | None = None,
        log_retention: logs.RetentionDays = logs.RetentionDays.THREE_MONTHS,
        encryption_key: kms.IKey | None = None,
        removal_policy: RemovalPolicy = RemovalPolicy.DESTROY,
        session_metrics: bool = False,
        paused: bool = False,
    ) -> None:
        """Create the endpoint.

        Args:
            scope: parent construct.
            id: construct id.
            endpoint_name: lower case letters, digits and single hyphens, at most 63 characters.
            image: the serving container.
            weights: where its weights are.
            pools: instance types in order of preference. Default: g6, g6e, g5, g4dn xlarge.
            environment: further variables of the container; no secret, DescribeModel shows them. Default: none.
            environment_without_bfloat16: what replaces or joins `environment` on GPUs without bfloat16 (T4), which
                get a model of their own. Default: dtype `half`.
            instance_count: instances at creation; later updates keep the current count. Default: 1.
            timeouts: start-up limits. Default: 1800 s each.
            guardrails: blue/green updates that roll back. Default: SageMaker's own, which switches all traffic at once
                and ends the old instances, and the calls on them, right after.
            guaranteed_instances: how many instances there are at the least, which decides whether an update can have a
                canary. Default: `instance_count`.
            network: a VPC to run in. Default: SageMaker's own network.
            log_retention: of the container's log. Default: three months.
            encryption_key: of the container's log; its key policy is made to let the Logs service use it for this log
                group. Default: a key that AWS owns.
            removal_policy: of the log group. Default: DESTROY.
            session_metrics: make metrics of the container's log lines; only for images that write them. Default: no.
            paused: leave the endpoint itself out, so that nothing bills by the hour. Default: no.

        Raises:
            InvalidPropertiesError: all that is wrong with the properties, at once.
        """
        super().__init__(scope, id, endpoint_name=endpoint_name)
        pools = pools or InstancePools()
        timeouts = timeouts or StartupTimeouts()
        environment = dict(environment or {})
        for_half_precision = dict(environment_without_bfloat16 or {"SM_VLLM_DTYPE": "half"})
        problems = _problems(endpoint_name, instance_count, timeouts, {**environment, **for_half_precision})
        problems += guardrails.problems() if guardrails else []
        if session_metrics and not image.logs_sessions:
            problems.append("session_metrics is set, but the image does not write the log lines they are made of")
        if network is not None and weights.needs_egress and not network.internet_egress:
            problems.append("weights come from the hub, but the network has no internet_egress; stage them in S3")
        if problems:
            raise InvalidPropertiesError(self.node.path, problems)

        self._network = network
        self.log_group = create_log_group(
            self,
            "Logs",
            endpoint_name=endpoint_name,
            retention=log_retention,
            encryption_key=encryption_key,
            removal_policy=removal_policy,
        )
        if session_metrics:
            add_session_metric_filters(self, self.log_group, namespace=self.session_namespace)
        self._logs_sessions = session_metrics
        self.role = self._create_role()
        self._image_uri = image.bind(self, self.role)
        self._weights = weights.bind(self, self.role)
        self._needs_egress = weights.needs_egress
        self._attach_policy = network.grant_attach(self.role) if network is not None else None

        self.models: dict[bool, sagemaker.CfnModel] = {}
        """The model for GPUs with bfloat16 (True) and the one for those without (False), as far as pools need them."""
        for accelerator in pools.accelerators:
            if accelerator.bfloat16 not in self.models:
                overrides = {} if accelerator.bfloat16 else for_half_precision
                model_id = "Model" if accelerator.bfloat16 else "ModelWithoutBfloat16"
                self.models[accelerator.bfloat16] = self._create_model(model_id, {**environment, **overrides})
        self._warn_of_unproven(pools)

        self.config = self._create_config(image, pools, timeouts, instance_count)
        self._error_alarms: tuple[cloudwatch.Alarm, ...] = ()
        self.endpoint: sagemaker.CfnEndpoint | None = None
        """None while paused."""
        if not paused:
            self.endpoint = self._create_endpoint(guardrails, guaranteed_instances or instance_count)

    def add_scaling(self, scaling: StreamScaling) -> None:
        """Let the number of instances follow the streams in progress.

        Raises:
            InvalidPropertiesError: its values cannot work, or the endpoint is paused.
        """
        endpoint = self._endpoint_or_raise("add_scaling")
        if problems := scaling.problems():
            raise InvalidPropertiesError(f"{self.node.path}.add_scaling", problems)
        scaling.bind(self, endpoint, endpoint_name=self.endpoint_name)

    def add_alarms(self, topic: sns.ITopic | None = None) -> tuple[cloudwatch.Alarm, ...]:
        """Create the endpoint's alarms: server and model errors, missing instances, KV cache, refused sessions.

        The last two need `session_metrics`. The alarms that guardrails roll back on are among them.

        Args:
            topic: is told of every change. Default: nobody is; the alarms' states can be looked up.

        Raises:
            InvalidPropertiesError: the endpoint is paused.
        """
        endpoint = self._endpoint_or_raise("add_alarms")
        self._error_alarms = self._error_alarms or error_alarms(self, self)
        alarms = (
            *self._error_alarms,
            *operation_alarms(self, self, in_service=endpoint, logs_sessions=self._logs_sessions),
        )
        if topic is not None:
            notify(alarms, topic)
        return alarms

    def widgets(self) -> list[cloudwatch.IWidget]:
        """Return the endpoint's graphs, for a dashboard of one's own."""
        return [widget for row in endpoint_widgets(self, logs_sessions=self._logs_sessions) for widget in row]

    def _endpoint_or_raise(self, what: str) -> sagemaker.CfnEndpoint:
        if self.endpoint is None:
            raise InvalidPropertiesError(
                f"{self.node.path}.{what}", ["the endpoint is paused: there is nothing to watch"]
            )
        return self.endpoint

    def _create_endpoint(self, guardrails: DeploymentGuardrails | None, instances: int) -> sagemaker.CfnEndpoint:
        if guardrails is not None:
            self._error_alarms = error_alarms(self, self)
        endpoint = sagemaker.CfnEndpoint(
            self,
            "Endpoint",
            endpoint_name=self.endpoint_name,
            endpoint_config_name=self.config.attr_endpoint_config_name,
            # Else an update resets a scaled variant to its initial count.
            retain_all_variant_properties=True,
            deployment_config=guardrails.bind(self._error_alarms, instance_count=instances)
            if guardrails is not None
            else None,
        )
        endpoint.node.add_dependency(self.log_group)
        return endpoint

    def _create_role(self) -> iam.Role:
        role = iam.Role(
            self,
            "ExecutionRole",
            assumed_by=iam.ServicePrincipal("sagemaker.amazonaws.com"),
            description=f"What the containers of the SageMaker endpoint {self.endpoint_name} may do",
        )
        self.log_group.grant(
            role, "logs:CreateLogGroup", "logs:CreateLogStream", "logs:DescribeLogStreams", "logs:PutLogEvents"
        )
        # The action takes no resource; the namespace narrows it to the endpoint's instance metrics. Source: the
        # developer guide's permissions of an execution role for CreateModel, which list it.
        role.add_to_policy(
            iam.PolicyStatement(
                actions=["cloudwatch:PutMetricData"],
                resources=["*"],
                conditions={"StringEquals": {"cloudwatch:namespace": "/aws/sagemaker/Endpoints"}},
            )
        )
        acknowledge(
            role.node.find_child("DefaultPolicy"),
            Scanner.CDK_NAG,
            "AwsSolutions-IAM5[Resource::*]",
            reason="cloudwatch:PutMetricData and ecr:GetAuthorizationToken take no resource; the former is narrowed to "
            "SageMaker's namespace of instance metrics.",
        )
        return role

    def _create_model(self, model_id: str, environment: Mapping[str, str]) -> sagemaker.CfnModel:
        model = sagemaker.CfnModel(
            self,
            model_id,
            execution_role_arn=self.role.role_arn,
            # Weights in S3 are mounted by SageMaker: the container then needs no network at all.
            enable_network_isolation=None if self._needs_egress else True,
            vpc_config=self._network.vpc_config if self._network else None,
            primary_container=sagemaker.CfnModel.ContainerDefinitionProperty(
                image=self._image_uri,
                environment={"VLLM_NO_USAGE_STATS": "1", **self._weights.environment, **environment},
                model_data_source=self._weights.model_data_source,
            ),
        )
        # SageMaker tries the role when the model is created: its policy must be attached by then.
        model.node.add_dependency(self.role.node.find_child("DefaultPolicy"))
        if self._attach_policy is not None:
            model.node.add_dependency(self._attach_policy)
        if self._weights.ready is not None:
            model.node.add_dependency(self._weights.ready)
        if self._needs_egress:
            acknowledge(
                model,
                Scanner.CHECKOV,
                "CKV_AWS_370",
                reason="The container downloads its weights from the hub; with weights in S3 it is isolated.",
            )
        return model

    def _create_config(
        self, image: ServingImage, pools: InstancePools, timeouts: StartupTimeouts, instance_count: int
    ) -> sagemaker.CfnEndpointConfig:
        variant_model = self._model_for(pools.accelerators[0])
        return sagemaker.CfnEndpointConfig(
            self,
            "Config",
            production_variants=[
                sagemaker.CfnEndpointConfig.ProductionVariantProperty(
                    variant_name=VARIANT_NAME,
                    model_name=variant_model.attr_model_name,
                    initial_instance_count=instance_count,
                    initial_variant_weight=1,
                    instance_pools=[
                        self._pool(instance_type, priority, variant_model)
                        for priority, instance_type in enumerate(pools.instance_types, start=1)
                    ],
                    variant_instance_provision_timeout_in_seconds=pools.provision_timeout_seconds,
                    model_data_download_timeout_in_seconds=timeouts.model_download,
                    container_startup_health_check_timeout_in_seconds=timeouts.health_check,
                    inference_ami_version=image.inference_ami.version,
                    # A stream lasts minutes: the next one belongs on the instance with the fewest open.
                    routing_config=sagemaker.CfnEndpointConfig.RoutingConfigProperty(
                        routing_strategy="LEAST_OUTSTANDING_REQUESTS"
                    ),
                )
            ],
        )

    def _pool(
        self, instance_type: str, priority: int, variant_model: sagemaker.CfnModel
    ) -> sagemaker.CfnEndpointConfig.InstancePoolProperty:
        model = self._model_for(accelerator_of(instance_type))
        return sagemaker.CfnEndpointConfig.InstancePoolProperty(
            instance_type=instance_type,
            priority=priority,
            model_name_override=None if model is variant_model else model.attr_model_name,
        )

    def _model_for(self, accelerator: Accelerator) -> sagemaker.CfnModel:
        return self.models[accelerator.bfloat16]

    def _warn_of_unproven(self, pools: InstancePools) -> None:
        if pools.without_bfloat16:
            Annotations.of(self).add_warning_v2(
                "sagemaker-voice:no-bfloat16",
                f"{', '.join(pools.without_bfloat16)}: its GPU has no bfloat16, so it runs a model of its own in half "
                "precision, which is unproven; leave it out of the instance types where quality must not vary",
            )


def _problems(
    endpoint_name: str, instance_count: int, timeouts: StartupTimeouts, environment: Mapping[str, str]
) -> list[str]:
    problems: list[str] = []
    if _ENDPOINT_NAME.fullmatch(endpoint_name) is None or len(endpoint_name) > _MAX_ENDPOINT_NAME:
        problems.append(
            f"endpoint_name is {endpoint_name!r}; use lower case letters, digits and single hyphens, "
            f"at most {_MAX_ENDPOINT_NAME}"
        )
    if instance_count < 1:
        problems.append(f"instance_count is {instance_count}; a variant with instance pools needs at least 1")
    for field in fields(timeouts):
        seconds: int = getattr(timeouts, field.name)
        if not 60 <= seconds <= 3600:
            problems.append(f"timeouts.{field.name} is {seconds}; SageMaker takes 60-3600 seconds")
    problems.extend(
        f"environment holds {name}: DescribeModel shows it to every reader of the account; keep secrets out and stage "
        "gated weights in S3"
        for name in environment
        if _SECRET_NAME.search(name)
    )
    return problems
