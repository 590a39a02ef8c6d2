"""The client's half of a bidirectional stream, without I/O: bytes in, messages for the container out."""

from collections.abc import Iterator

from voice_local.data_plane.errors import MalformedFrameError, invalid_input_event
from voice_local.data_plane.event_stream import LARGEST_HEADERS, FrameDecoder, decode_single
from voice_local.data_plane.payload_parts import Message, PartJoiner
from voice_local.data_plane.sigv4 import EventChain

_INNER_OVERHEAD = LARGEST_HEADERS + 16
"""A signed frame holds a whole frame: its payload is larger than the message by that frame's own headers."""


class RequestEvents:
    """Cuts, verifies and joins what one client sends."""

    def __init__(self, chain: EventChain, largest_message: int) -> None:
        self._chain = chain
        self._decoder = FrameDecoder(largest_message + _INNER_OVERHEAD)
        self._parts = PartJoiner(largest_message)
        self.ended = False
        """Whether the signed empty frame has come; bytes after it are not looked at."""

    def feed(self, data: bytes) -> Iterator[Message]:
        """Take bytes in, and yield the messages that they complete.

        Raises:
            StreamFaultError: a frame is malformed, its signature is wrong, or its event has no meaning here.
        """
        try:
            for frame in self._decoder.feed(data):
                inner = self._chain.verify(frame)
                if not inner:
                    self.ended = True
                    self.check_complete(after_end_frame=True)
                    return
                if (message := self._parts.add(decode_single(inner))) is not None:
                    yield message
        except MalformedFrameError as error:
            raise invalid_input_event(f"The event stream cannot be read: {error}.") from error

    def check_complete(self, *, after_end_frame: bool = False) -> None:
        """Check, once the input is over, that nothing of it was cut off.

        An input may end without the signed empty frame: older releases of the SDK do not send one.

        Raises:
            StreamFaultError: it was cut inside a frame or inside a run of PARTIAL parts.
        """
        if self._parts.pending:
            raise invalid_input_event("The input ended inside a run of PARTIAL parts.")
        if self._decoder.pending and not after_end_frame:
            raise invalid_input_event("The input ended inside an event.")
