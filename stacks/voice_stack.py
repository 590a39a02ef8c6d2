"""What the two stacks share: their names, and how they publish what a client must know."""

from collections.abc import Mapping

from aws_cdk import Aws, CfnOutput, DefaultStackSynthesizer, Environment, RemovalPolicy, Stack
from aws_cdk import aws_logs as logs
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_ssm as ssm
from constructs import Construct

from stacks.endpoint_settings import EndpointSettings
from stacks.names import Service, parameter_name
from stacks.settings import StageSettings
from voice_constructs.instance_pools import InstancePools
from voice_constructs.model_weights import ModelWeights
from voice_constructs.serving_image import ServingImage
from voice_constructs.voice_endpoint import StartupTimeouts, VoiceEndpoint

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
            # The CDK CLI checks the bootstrap version itself; the rule would only clutter the template.
            synthesizer=DefaultStackSynthesizer(generate_bootstrap_version_rule=False),
        )
        self._settings = settings
        self._service: Service = service

    def _add_endpoint(self, image: ServingImage, settings: EndpointSettings) -> VoiceEndpoint:
        retain_logs = self._settings.retain_logs
        return VoiceEndpoint(
            self,
            "Voice",
            endpoint_name=self._settings.endpoint_name(self._service),
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
            log_retention=RETENTION[self._settings.log_retention_days],
            # Kept, but not when the very first deploy fails: the next attempt would find the name taken.
            removal_policy=RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE if retain_logs else RemovalPolicy.DESTROY,
        )

    def _weights(self, settings: EndpointSettings) -> ModelWeights:
        location = settings.weights_location
        if location is None:
            return ModelWeights.hub(settings.model, revision=settings.revision)
        bucket = s3.Bucket.from_bucket_name(self, "Weights", location.bucket)
        return ModelWeights.s3(bucket, location.prefix, model_id=settings.model)

    def _publish(self, endpoint: VoiceEndpoint, model: str, *, client_command: str, facts: Mapping[str, str]) -> None:
        """Write the SSM parameters that clients read by path, and the stack's outputs."""
        # The attribute rather than the literal name: the parameter appears when the endpoint is there.
        published = {"endpoint-name": endpoint.endpoint.attr_endpoint_name, "model": model, **facts}
        for key, value in published.items():
            ssm.StringParameter(
                self,
                "".join(word.capitalize() for word in key.split("-")) + "Parameter",
                parameter_name=parameter_name(self._settings.stage, self._service, key),
                string_value=value,
            )
        CfnOutput(self, "EndpointName", value=endpoint.endpoint.attr_endpoint_name)
        CfnOutput(self, "ModelId", value=model)
        CfnOutput(
            self,
            "ClientCommand",
            value=f"{client_command} --stage {self._settings.stage} --region {Aws.REGION}",
            description="Try it",
        )
