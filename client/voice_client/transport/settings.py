"""Where a stream goes, and every limit and deadline of the transport with its default and the reason for it."""

from dataclasses import dataclass
from pathlib import Path

from voice_client.errors import BadInputError

LARGEST_WINDOW = 2**31 - 1
"""By RFC 9113, 6.9.1."""


@dataclass(frozen=True, slots=True)
class StreamTarget:
    """One SageMaker endpoint and how to reach it."""

    endpoint_name: str
    region: str
    """AWS region; it is part of the signature, also when `endpoint_url` points elsewhere."""
    endpoint_url: str | None = None
    """`https://host:port` of the HTTP/2 runtime. None: from the environment, else from the region's partition."""
    ca_bundle: Path | None = None
    """PEM file of the certificate authorities to trust. None: SSL_CERT_FILE, AWS_CA_BUNDLE, else the system's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransportSettings:
    """Deadlines in seconds and limits in bytes. Nothing in the transport waits without one of them.

    Raises:
        BadInputError: one or more values are not positive, and all of them are named; or the window is too large.
    """

    credentials_seconds: float = 15.0
    """To find or refresh credentials. Instance metadata, SSO and assume-role each take up to a few seconds."""
    connect_seconds: float = 5.0
    """Name look-up, TCP, TLS and the server's first frame. Two lost SYN packets still fit (1 s + 2 s)."""
    open_seconds: float = 15.0
    """From the request to the response's headers. SageMaker first opens a WebSocket to the container."""
    send_seconds: float = 10.0
    """To hand one message over while the peer does not read. Longer than that, speech is no longer live."""
    close_seconds: float = 1.0
    """For the peer to end its side after we ended ours; then the stream is dropped. An interruption must feel so."""
    keepalive_idle_seconds: int = 10
    """Silence on the connection before TCP asks whether the peer is still there."""
    keepalive_interval_seconds: int = 5
    keepalive_probes: int = 3
    """Unanswered questions until the connection counts as lost: 10 s + 3 * 5 s of silence."""
    unacknowledged_seconds: float = 15.0
    """How long sent bytes may stay unacknowledged by the peer's TCP (Linux only; elsewhere the system's minutes)."""
    send_buffer_bytes: int = 64 * 1024
    """Sent but not yet taken by the HTTP/2 connection, per stream: 1.5 s of base64 PCM16 at 16 kHz."""
    receive_window_bytes: int = 1024 * 1024
    """HTTP/2 window per stream: what the peer may send ahead of the reader (22 s of PCM16 at 24 kHz)."""
    inbox_bytes: int = 1024 * 1024
    """Decoded messages waiting for the caller, per stream. When full, reading stops and the window closes."""
    inbox_messages: int = 4096
    """The same as a count, since a transcript delta can be a few bytes."""
    message_bytes: int = 16 * 1024 * 1024
    """Longest message, sent or joined from PARTIAL parts (16 MiB is the most vLLM's WebSocket takes)."""
    error_body_seconds: float = 1.0
    """For the body of an HTTP error after its head. What came by then has to do."""
    error_body_bytes: int = 64 * 1024
    """How much of an HTTP error's body is read."""

    def __post_init__(self) -> None:
        wrong = [f"{name} = {getattr(self, name)!r}" for name in self.__slots__ if not getattr(self, name) > 0]
        if wrong:
            raise BadInputError(f"transport settings must be positive: {', '.join(wrong)}")
        if self.receive_window_bytes > LARGEST_WINDOW:
            raise BadInputError(
                f"receive_window_bytes = {self.receive_window_bytes} is more than HTTP/2 can say ({LARGEST_WINDOW})"
            )
