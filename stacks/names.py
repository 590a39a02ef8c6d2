"""The literal names by which stacks, clients and operators find one another. Imports nothing of aws-cdk-lib."""

from typing import Literal

Service = Literal["stt", "tts"]
"""Speech to text, or text to speech."""


def endpoint_name(stage: str, service: Service) -> str:
    """Return the endpoint's name, which is also the name of the stack it is in: `dev-voice-stt`."""
    return f"{stage}-voice-{service}"


def parameter_name(stage: str, service: Service, key: str) -> str:
    """Return the SSM parameter that publishes one fact of an endpoint: `/sagemaker-voice/dev/stt/endpoint-name`."""
    return f"/sagemaker-voice/{stage}/{service}/{key}"


def foundation_stack_name(stage: str) -> str:
    """Return the name of the stack with what a stage's endpoints share: `dev-voice-foundation`."""
    return f"{stage}-voice-foundation"


def weights_stack_name(stage: str) -> str:
    """Return the name of the stack that stages a stage's weights: `dev-voice-weights`."""
    return f"{stage}-voice-weights"


def weights_parameter_name(stage: str, key: str) -> str:
    """Return the SSM parameter that publishes where weights are staged: `/sagemaker-voice-weights/dev/bucket`.

    Not below the stage's other parameters: these stay when its endpoints are destroyed. Keys: `bucket`,
    `project` (the build's name), `function` (ARN, for custom resources).
    """
    return f"/sagemaker-voice-weights/{stage}/{key}"
