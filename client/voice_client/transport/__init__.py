"""Streams to an endpoint: open, send, receive, close, with typed errors and a deadline on every wait.

Importing this package loads the AWS SDK; `voice_client` itself does not.
"""

from voice_client.transport.identity import BotocoreIdentity, Identity, IdentityProvider, StaticIdentity
from voice_client.transport.inbox import Message
from voice_client.transport.settings import StreamTarget, TransportSettings
from voice_client.transport.stream import BidiStream
from voice_client.transport.voice_transport import VoiceTransport

__all__ = [
    "BidiStream",
    "BotocoreIdentity",
    "Identity",
    "IdentityProvider",
    "Message",
    "StaticIdentity",
    "StreamTarget",
    "TransportSettings",
    "VoiceTransport",
]
