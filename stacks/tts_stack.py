"""Text to speech: Qwen3-TTS in AWS's vLLM-Omni container."""

from aws_cdk import Environment
from constructs import Construct

from stacks.settings import StageSettings
from stacks.voice_stack import VoiceStack
from voice_constructs.serving_image import ServingImage


class TtsStack(VoiceStack):
    """The voice: `{stage}-voice-tts`."""

    def __init__(self, scope: Construct, settings: StageSettings, *, env: Environment) -> None:
        """Create the stack from the settings of one stage."""
        super().__init__(
            scope,
            settings=settings,
            service="tts",
            description=f"Real-time text to speech on SageMaker, stage {settings.stage}",
            env=env,
        )
        tts = settings.tts
        self.voice = self._add_endpoint(ServingImage.vllm_omni(tts.container_version, cuda=tts.cuda), tts)
        self._publish(self.voice, tts.model, client_command='voice speak "Good morning." -o morning.wav', facts={})
