"""What the two stacks share: their names, and how they publish what a client must know."""

from collections.abc import Mapping

from aws_cdk import Aws, CfnOutput, DefaultStackSynthesizer, Environment, RemovalPolicy, Stack
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sns as sns
from aws_cdk import aws_ssm as ssm
from constructs import Construct

from stacks.endpoint_settings import EndpointSettings
from stacks.names import Service, parameter_name, weights_parameter_name
from stacks.settings import StageSettings
from voice_constructs.alarm_topic import AlarmTopic
from voice_constructs.deployment_guardrails import DeploymentGuardrails
from voice_constructs.instance_pools import InstancePools
from voice_constructs.model_weights import ModelWeights
from voice_constructs.model_weights_store import StagesWeights, WeightsStore
from voice_constructs.serving_image import ServingImage
from voice_constructs.stream_scaling import StreamScaling
from voice_constructs.voice_endpoint import StartupTimeouts, VoiceEndpoint
from voice_constructs.voice_network import VoiceNetwork

RETENTION = {
    1: logs.RetentionDays.ONE_DAY,
    3: logs.RetentionDays.THREE_DAYS,
    5: logs.RetentionDays.FIVE_DAYS,
    7: logs.RetentionDays.ONE_WEEK,
    14: logs.RetentionDays.TWO_WEEKS,
    30: logs.RetentionDays.ONE_MONTH,
    60: logs.RetentionDays.TWO_MONTHS,
    90: logs.RetentionDays.THREE_MONTHS,
    120: logs.RetentionDays.FOUR_MONTHS,
    150: logs.RetentionDays.FIVE_MONTHS,
    180: logs.RetentionDays.SIX_MONTHS,
    365: logs.RetentionDays.ONE_YEAR,
    400: logs.RetentionDays.THIRTEEN_MONTHS,
    545: logs.RetentionDays.EIGHTEEN_MONTHS,
    731: logs.RetentionDays.TWO_YEARS,
    1096: logs.RetentionDays.THREE_YEARS,
    1827: logs.RetentionDays.FIVE_YEARS,
    2192: logs.RetentionDays.SIX_YEARS,
    2557: logs.RetentionDays.SEVEN_YEARS,
    2922: logs.RetentionDays.EIGHT_YEARS,
    3288: logs.RetentionDays.NINE_YEARS,
    3653: logs.RetentionDays.TEN_YEARS,
}


class VoiceStack(Stack):
    """One endpoint, and the parameters and outputs that lead to it."""

    def __init__(
        self, scope: Construct, *, settings: StageSettings, service: Service, description: str, env: Environment
    ) -> None:
        """Create an empty stack named as its endpoint will be, `{stage}-voice-{service}`."""
        name = settings.endpoint_name(service)
        super().__init__(
            scope,
            name,
            stack_name=name,
            description=description,
            env=env,
            termination_protection=settings.termination_protection,
            # Of the stack: CloudFormation puts them on everything in it that takes tags, at no line of template.
            tags={**settings.tags, "service": service},
            # The CDK CLI checks the bootstrap version itself; the rule would only clutter the template.
            synthesizer=DefaultStackSynthesizer(generate_bootstrap_version_rule=False),
        )
        self._settings = settings
        self._service: Service = service

    def _add_endpoint(self, image: ServingImage, settings: EndpointSettings) -> VoiceEndpoint:
        """Create the endpoint, and what scales and watches it."""
        stage = self._settings
        # Kept, but not when the very first deploy fails: the next attempt would find the name taken.
        kept = RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE if stage.retain_logs else RemovalPolicy.DESTROY
        key = self._create_key(kept) if stage.encrypt_logs else None
        endpoint = VoiceEndpoint(
            self,
            "Voice",
            endpoint_name=stage.endpoint_name(self._service),
            image=image,
            weights=self._weights(settings),
            pools=InstancePools(
                settings.instance_types,
                min_gpu_memory_gb=settings.min_gpu_memory_gb,
                provision_timeout_seconds=settings.provision_timeout_seconds,
            ),
            environment=settings.environment,
            environment_without_bfloat16=settings.half_precision_environment,
            instance_count=settings.instance_count,
            timeouts=StartupTimeouts(
                health_check=settings.startup_timeout_seconds, model_download=settings.model_download_timeout_seconds
            ),
            guardrails=self._guardrails(settings),
            guaranteed_instances=settings.certain_instance_count,
            network=self._network(),
            log_retention=RETENTION[stage.log_retention_days],
            encryption_key=key,
            removal_policy=kept,
            session_metrics=stage.monitoring.session_metrics and image.logs_sessions,
            paused=stage.paused,
        )
        # Made while paused too: a mail address that has confirmed must not be asked again after every pause.
        topic = self._alarm_topic(key) if stage.monitoring.alarms else None
        if not stage.paused:
            if settings.scaling.enabled:
                endpoint.add_scaling(StreamScaling(**settings.scaling.model_dump()))
            if stage.monitoring.alarms:
                endpoint.add_alarms(topic)
        return endpoint

    def _create_key(self, removal_policy: RemovalPolicy) -> kms.Key:
        return kms.Key(
            self,
            "Key",
            description=f"Logs and alarms of {self._settings.endpoint_name(self._service)}",
            enable_key_rotation=True,
            removal_policy=removal_policy,  # a log that is kept can be read only with its key
        )

    def _alarm_topic(self, key: kms.IKey | None) -> sns.ITopic:
        monitoring = self._settings.monitoring
        if monitoring.alarms_topic_arn is not None:
            return sns.Topic.from_topic_arn(self, "AlarmTopic", monitoring.alarms_topic_arn)
        return AlarmTopic(self, "Alarms", email=monitoring.alarms_email, encryption_key=key).topic

    def _guardrails(self, settings: EndpointSettings) -> DeploymentGuardrails | None:
        update = settings.update
        if not update.guarded or self._settings.paused:
            return None
        return DeploymentGuardrails(
            termination_wait_seconds=update.termination_wait_seconds,
            canary_percent=update.canary_percent,
            canary_wait_seconds=update.canary_wait_seconds,
        )

    def _network(self) -> VoiceNetwork | None:
        vpc = self._settings.vpc
        if vpc.id is None:
            return None
        return VoiceNetwork(
            self,
            "Network",
            # Zones and route tables are asked for and never used: nothing here selects subnets by them.
            vpc=ec2.Vpc.from_vpc_attributes(self, "Vpc", vpc_id=vpc.id, availability_zones=["unused"]),
            subnets=[
                ec2.Subnet.from_subnet_attributes(self, subnet_id, subnet_id=subnet_id, route_table_id="unused")
                for subnet_id in vpc.subnet_ids
            ],
            internet_egress=vpc.internet_egress,
        )

    def _weights(self, settings: EndpointSettings) -> ModelWeights:
        location = settings.weights_location
        if settings.weights_staged and settings.revision is not None:
            return ModelWeights.staged(
                self._weights_store(), settings.model, revision=settings.revision, files=settings.weights_files
            )
        if location is None:
            return ModelWeights.hub(settings.model, revision=settings.revision)
        bucket = s3.Bucket.from_bucket_name(self, "Weights", location.bucket)
        return ModelWeights.s3(bucket, location.prefix, model_id=settings.model)

    def _weights_store(self) -> StagesWeights:
        # Read when the stack is deployed, from what the weights stack has published: no export, so that either can be
        # changed without the other.
        bucket, function = (
            ssm.StringParameter.value_for_string_parameter(self, weights_parameter_name(self._settings.stage, key))
            for key in ("bucket", "function")
        )
        return WeightsStore.from_attributes(self, "Weights", bucket_name=bucket, service_token=function)

    def _publish(self, endpoint: VoiceEndpoint, model: str, *, client_command: str, facts: Mapping[str, str]) -> None:
        """Write the SSM parameters that clients read by path, and the stack's outputs."""
        published = {"model": model, **facts}
        if endpoint.endpoint is not None:
            # The attribute rather than the literal name: the parameter appears when the endpoint is there.
            published["endpoint-name"] = endpoint.endpoint.attr_endpoint_name
        for key, value in sorted(published.items()):
            ssm.StringParameter(
                self,
                "".join(word.capitalize() for word in key.split("-")) + "Parameter",
                parameter_name=parameter_name(self._settings.stage, self._service, key),
                string_value=value,
            )
        CfnOutput(self, "ModelId", value=model)
        if endpoint.endpoint is None:
            CfnOutput(
                self, "Paused", value="true", description="Deploy with -c paused=false to bring the endpoint back"
            )
            return
        CfnOutput(self, "EndpointName", value=endpoint.endpoint.attr_endpoint_name)
        CfnOutput(
            self,
            "ClientCommand",
            value=f"{client_command} --stage {self._settings.stage} --region {Aws.REGION}",
            description="Try it",
        )
