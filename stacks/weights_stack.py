"""Where a stage's weights are staged. A stack of its own: it outlives the endpoints, whose stacks come and go."""

from aws_cdk import CfnOutput, DefaultStackSynthesizer, Environment, Stack
from aws_cdk import aws_ssm as ssm
from constructs import Construct

from stacks.names import weights_parameter_name, weights_stack_name
from stacks.settings import StageSettings
from stacks.voice_stack import RETENTION
from voice_constructs.model_weights_store import WeightsStore


class WeightsStack(Stack):
    """`{stage}-voice-weights`: bucket, build and function, known to others by parameters."""

    def __init__(self, scope: Construct, settings: StageSettings, *, env: Environment) -> None:
        """Create the stack from the settings of one stage."""
        name = weights_stack_name(settings.stage)
        super().__init__(
            scope,
            name,
            stack_name=name,
            description=f"Stages the weights of the voice endpoints of stage {settings.stage}",
            env=env,
            termination_protection=settings.termination_protection,
            tags=settings.tags,
            synthesizer=DefaultStackSynthesizer(generate_bootstrap_version_rule=False),
        )
        staging = settings.staging
        self.store = WeightsStore(
            self,
            "Weights",
            hub_url=staging.hub,
            token_secret=staging.token_secret,
            timeout_minutes=staging.timeout_minutes,
            log_retention=RETENTION[settings.log_retention_days],
        )
        published = {
            "bucket": self.store.bucket.bucket_name,
            "project": self.store.project.ref,
            "function": self.store.service_token,
        }
        for key, value in sorted(published.items()):
            ssm.StringParameter(
                self,
                f"{key.capitalize()}Parameter",
                parameter_name=weights_parameter_name(settings.stage, key),
                string_value=value,
            )
        CfnOutput(self, "WeightsBucket", value=self.store.bucket.bucket_name, description="Kept with the weights in it")

    @staticmethod
    def is_needed(settings: StageSettings) -> bool:
        """Return whether an endpoint's weights are staged."""
        return settings.weights_staged
