"""A thin client for real-time speech on Amazon SageMaker AI: speech in, text out, and the reverse.

Importing this package is cheap: it loads neither boto3 nor the streaming SDK.
"""

from voice_client.errors import (
    BadInputError,
    ConnectError,
    ConnectionLostError,
    CredentialsError,
    DeadlineError,
    EndpointNotFoundError,
    EndpointNotInServiceError,
    InternalFailureError,
    ModelError,
    ProtocolError,
    RefusedError,
    ThrottledError,
    VoiceError,
)

__all__ = [
    "BadInputError",
    "ConnectError",
    "ConnectionLostError",
    "CredentialsError",
    "DeadlineError",
    "EndpointNotFoundError",
    "EndpointNotInServiceError",
    "InternalFailureError",
    "ModelError",
    "ProtocolError",
    "RefusedError",
    "ThrottledError",
    "VoiceError",
]
