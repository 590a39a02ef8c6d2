"""Builds the stacks from the settings of one stage. `npx cdk synth -c stage=prod` runs this."""

import os
import sys

from aws_cdk import App, Environment

from stacks.foundation_stack import FoundationStack
from stacks.settings import SettingsError, load_settings
from stacks.stt_stack import SttStack
from stacks.tts_stack import TtsStack
from stacks.weights_stack import WeightsStack
from voice_constructs.errors import VoiceConstructError


def build(app: App) -> None:
    """Add the stacks of the stage that the app's context names.

    Raises:
        SettingsError: the settings of that stage cannot be used.
        VoiceConstructError: a construct refuses its properties.
    """
    settings = load_settings(app.node.get_all_context())
    # Set by the CDK CLI from the credentials in use. Without them, the templates fit every account and region.
    env = Environment(
        account=settings.account or os.environ.get("CDK_DEFAULT_ACCOUNT"),
        region=settings.region or os.environ.get("CDK_DEFAULT_REGION"),
    )
    stt = SttStack(app, settings, env=env)
    tts = TtsStack(app, settings, env=env)
    if WeightsStack.is_needed(settings):
        weights = WeightsStack(app, settings, env=env)
        stt.add_stack_dependency(weights)
        tts.add_stack_dependency(weights)
    if FoundationStack.is_needed(settings):
        foundation = FoundationStack(app, settings, env=env)
        # VPC endpoints first: containers reach AWS through them. No value passes between stacks, so that each can be
        # changed without the others.
        stt.add_stack_dependency(foundation)
        tts.add_stack_dependency(foundation)


def main() -> None:
    """Build and synthesize; a mistake in the settings ends with its list and no traceback."""
    app = App()
    try:
        build(app)
    except (SettingsError, VoiceConstructError) as error:
        sys.exit(str(error))
    app.synth()


if __name__ == "__main__":
    main()
