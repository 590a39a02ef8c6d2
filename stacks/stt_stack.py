"""Speech to text: Voxtral behind the bridge that gives a vLLM container its bidirectional stream."""

from pathlib import Path

from aws_cdk import Environment
from constructs import Construct

from stacks.settings import StageSettings
from stacks.voice_stack import VoiceStack
from voice_constructs.serving_image import ServingImage

BRIDGE_DIRECTORY = Path(__file__).resolve().parent.parent / "container_assets" / "voxtral_bridge"


class SttStack(VoiceStack):
    """The ear: `{stage}-voice-stt`."""

    def __init__(self, scope: Construct, settings: StageSettings, *, env: Environment) -> None:
        """Create the stack from the settings of one stage."""
        super().__init__(
            scope,
            settings=settings,
            service="stt",
            description=f"Real-time speech to text on SageMaker, stage {settings.stage}",
            env=env,
        )
        stt = settings.stt
        image = ServingImage.voxtral_bridge(BRIDGE_DIRECTORY, base=stt.base_image, cuda=stt.cuda)
        self.voice = self._add_endpoint(image, stt)
        self._publish(
            self.voice,
            stt.model,
            client_command="voice transcribe recording.wav",
            # The shortest of all pools: a client that heeds it never runs into the limit.
            facts={"max-model-len": str(stt.shortest_max_model_len)},
        )
