"""What the endpoints of a stage share: a dashboard, and VPC endpoints when they are wanted."""

from aws_cdk import DefaultStackSynthesizer, Environment, Stack
from constructs import Construct

from stacks.names import Service, foundation_stack_name
from stacks.settings import StageSettings
from voice_constructs.stage_dashboard import StageDashboard
from voice_constructs.voice_endpoint import VoiceEndpoint
from voice_constructs.voice_network import VoiceVpcEndpoints

_HEADINGS: dict[Service, str] = {"stt": "Speech to text", "tts": "Text to speech"}


class FoundationStack(Stack):
    """`{stage}-voice-foundation`. It knows the endpoints by their literal names only."""

    def __init__(self, scope: Construct, settings: StageSettings, *, env: Environment) -> None:
        """Create the stack from the settings of one stage."""
        name = foundation_stack_name(settings.stage)
        super().__init__(
            scope,
            name,
            stack_name=name,
            description=f"What the voice endpoints of stage {settings.stage} share",
            env=env,
            termination_protection=settings.termination_protection,
            tags=settings.tags,
            synthesizer=DefaultStackSynthesizer(generate_bootstrap_version_rule=False),
        )
        if settings.monitoring.dashboard:
            self._add_dashboard(settings)
        vpc = settings.vpc
        if vpc.create_endpoints and vpc.id is not None and vpc.cidr is not None:
            VoiceVpcEndpoints(
                self,
                "VpcEndpoints",
                vpc_id=vpc.id,
                cidr=vpc.cidr,
                subnet_ids=vpc.subnet_ids,
                route_table_ids=vpc.route_table_ids,
            )

    @staticmethod
    def is_needed(settings: StageSettings) -> bool:
        """Return whether there is anything to share."""
        return settings.monitoring.dashboard or settings.vpc.create_endpoints

    def _add_dashboard(self, settings: StageSettings) -> None:
        dashboard = StageDashboard(self, "Dashboard", title=f"sagemaker-voice, stage {settings.stage}")
        for service, heading in _HEADINGS.items():
            endpoint = VoiceEndpoint.from_endpoint_name(
                self, f"{service.capitalize()}Endpoint", settings.endpoint_name(service)
            )
            # Of the two containers, the bridge is the one that writes the lines.
            logs_sessions = service == "stt" and settings.monitoring.session_metrics
            dashboard.add_endpoint(endpoint, heading=heading, logs_sessions=logs_sessions)
