"""A thin client for real-time speech on Amazon SageMaker AI: speech in, text out, and the reverse.

    from voice_client import AudioFile, Final, Synthesizer, Transcriber

Importing this package is cheap: it loads neither boto3 nor the streaming SDK nor a decoder. The names of the sessions
and of audio files are there at once and load what they need when they are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING

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

if TYPE_CHECKING:
    from voice_client.audio import AudioFile
    from voice_client.session import (
        Final,
        Notice,
        Partial,
        Restarted,
        Retry,
        SessionStarted,
        SpeakingInterruptedError,
        SpeechChunk,
        Synthesizer,
        SynthesizerSettings,
        Transcriber,
        TranscriberSettings,
        TranscriptionInterruptedError,
        Turns,
    )
    from voice_client.session.conversation import Conversation
    from voice_client.session.conversation_events import Interrupted
    from voice_client.session.conversation_settings import BargeIn, ConversationSettings

_LOADED_WHEN_USED = {
    "AudioFile": "voice_client.audio",
    "BargeIn": "voice_client.session.conversation_settings",
    "Conversation": "voice_client.session.conversation",
    "ConversationSettings": "voice_client.session.conversation_settings",
    "Final": "voice_client.session",
    "Interrupted": "voice_client.session.conversation_events",
    "Notice": "voice_client.session",
    "Partial": "voice_client.session",
    "Restarted": "voice_client.session",
    "Retry": "voice_client.session",
    "SessionStarted": "voice_client.session",
    "SpeakingInterruptedError": "voice_client.session",
    "SpeechChunk": "voice_client.session",
    "Synthesizer": "voice_client.session",
    "SynthesizerSettings": "voice_client.session",
    "Transcriber": "voice_client.session",
    "TranscriberSettings": "voice_client.session",
    "TranscriptionInterruptedError": "voice_client.session",
    "Turns": "voice_client.session",
}

if not TYPE_CHECKING:  # a type checker would take any name for one that exists

    def __getattr__(name: str) -> object:
        if name not in _LOADED_WHEN_USED:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(_LOADED_WHEN_USED[name]), name)
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *_LOADED_WHEN_USED})


__all__ = [
    "AudioFile",
    "BadInputError",
    "BargeIn",
    "ConnectError",
    "ConnectionLostError",
    "Conversation",
    "ConversationSettings",
    "CredentialsError",
    "DeadlineError",
    "EndpointNotFoundError",
    "EndpointNotInServiceError",
    "Final",
    "InternalFailureError",
    "Interrupted",
    "ModelError",
    "Notice",
    "Partial",
    "ProtocolError",
    "RefusedError",
    "Restarted",
    "Retry",
    "SessionStarted",
    "SpeakingInterruptedError",
    "SpeechChunk",
    "Synthesizer",
    "SynthesizerSettings",
    "ThrottledError",
    "Transcriber",
    "TranscriberSettings",
    "TranscriptionInterruptedError",
    "Turns",
    "VoiceError",
]
