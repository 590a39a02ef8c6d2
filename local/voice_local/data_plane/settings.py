"""Every clock and limit of the data plane, each with its default and the reason for it.

Times are in seconds, sizes in bytes. The defaults are SageMaker's where its documentation or measurements give one;
tests shorten them so that minutes become milliseconds.
"""

from dataclasses import dataclass
from enum import StrEnum

from voice_local.interfaces import EndpointStatus

DEFAULT_PORT = 8443
"""The port of SageMaker's HTTP/2 runtime endpoint."""

MIB = 1024 * 1024


class InputEnd(StrEnum):
    """What the platform does to the container's WebSocket when the client ends its half of the stream."""

    CLOSE_WEBSOCKET = "close-websocket"
    """Send a close frame (1000) and relay what still comes until the container has answered it. WebSocket has no
    other way to say "no more input", so a container that answers a close frame at once loses what it had not yet sent:
    a client must wait for its last answer before it ends its input."""
    WAIT_FOR_CONTAINER = "wait-for-container"
    """Leave the WebSocket open, and end the stream when the container closes it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataPlaneSettings:
    """Clocks and limits of one data plane."""

    accept_seconds: float = 0.25
    """SageMaker gives a container 250 ms to accept the WebSocket; then the client gets a ModelError."""
    ping_interval_seconds: float = 60.0
    """SageMaker pings the container's WebSocket every 60 s."""
    unanswered_pings: int = 5
    """SageMaker closes the WebSocket after five pings in a row without a pong."""
    longest_stream_seconds: float = 30 * 60.0
    """A bidirectional stream is cut after 30 minutes; longer sessions open another."""
    plain_invocation_seconds: float = 60.0
    """InvokeEndpoint: a container must answer POST /invocations within 60 s."""
    response_stream_seconds: float = 8 * 60.0
    """InvokeEndpointWithResponseStream: a container must have completed its answer after eight minutes (the limit is
    from memory: docs/decisions/data-plane-unknowns.md)."""
    clock_skew_seconds: float = 5 * 60.0
    """SigV4 refuses dates more than five minutes away from the server's clock."""

    serving_states: frozenset[EndpointStatus] = frozenset({EndpointStatus.IN_SERVICE})
    """States in which an endpoint takes requests."""
    input_end: InputEnd = InputEnd.CLOSE_WEBSOCKET
    """AWS does not document what the container sees when a client ends its input; see docs of `InputEnd`."""
    half_close_seconds: float = 60.0
    """How long a container may go on answering after the platform's close frame: SageMaker's limit for one answer."""

    websocket_close_seconds: float = 2.0
    """Closing handshake with a container whose client is gone; then the socket is dropped. Nobody waits for it."""
    farewell_seconds: float = 5.0
    """How long the last frames of a stream may wait for a client that does not read; then the stream is reset."""
    request_end_seconds: float = 5.0
    """How long a client may take to end its half after the response is complete; then RST_STREAM(NO_ERROR), which
    RFC 9113 section 8.1 provides for this."""
    request_body_seconds: float = 60.0
    """How long the body of a plain request may take to arrive."""
    tls_handshake_seconds: float = 10.0
    """A client that opens a socket and says nothing is dropped."""
    tls_shutdown_seconds: float = 1.0
    """How long to wait for a client's half of the TLS closing handshake."""
    idle_connection_seconds: float = 15 * 60.0
    """A connection without a stream is closed with GOAWAY, so that a forgotten client costs nothing for ever."""
    stop_seconds: float = 5.0
    """`DataPlane.stop` asks streams and sockets to end, and drops what is left after this."""

    concurrent_accepts: int = 4
    """WebSockets being opened at one time. Opening 120 at once keeps the loop busy for about 190 ms (measured on two
    cores), which would be taken from the container's 250 ms."""
    concurrent_streams: int = 128
    """MAX_CONCURRENT_STREAMS: the value AWS's load balancers announce."""
    receive_window: int = 2 * MIB
    """Flow-control window of one stream: a few seconds of audio, far above the 64 KiB default that stalls senders."""
    largest_message: int = 16 * MIB
    """Largest WebSocket message either way: the payload limit of an event-stream frame, and vLLM's own limit."""
    largest_plain_body: int = 25 * MIB
    """Largest InvokeEndpoint request body (SageMaker quota for real-time inference)."""
    largest_header_list: int = 64 * 1024
    """MAX_HEADER_LIST_SIZE: far above anything a signed request needs."""
    longest_invocation_path: int = 100
    """Characters allowed in ModelInvocationPath."""
    longest_query_string: int = 2048
    """Characters allowed in ModelQueryString."""

    def __post_init__(self) -> None:
        """Refuse values that cannot work, all at once.

        Raises:
            ValueError: names every field that is not positive.
        """
        wrong = [
            name
            for name in self.__slots__
            if isinstance(value := getattr(self, name), int | float) and not isinstance(value, bool) and value <= 0
        ]
        if wrong:
            raise ValueError(f"data-plane settings must be positive: {', '.join(sorted(wrong))}")
