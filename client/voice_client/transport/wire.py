"""HTTP/2 as the h2 library speaks it, but for what one peer or one stream could do to all the others.

- A GOAWAY ends no stream that the server still serves: by RFC 9113, 6.8, streams up to the announced one go on; h2
  takes the connection for closed instead, and refuses the frames that follow.
- Odd fields of an answer, and a content-length that is wrong, concern that answer's stream alone.
- A frame's length is judged before it has come.

What is overridden here is private to h2, and the only thing of a library that is:
tests/client/transport/test_pinned_sdk.py fails when it moves.
"""

from collections.abc import Iterable

from h2.config import H2Configuration
from h2.connection import AllowedStreamIDs, H2Connection
from h2.events import ConnectionTerminated, Event
from h2.frame_buffer import FrameBuffer
from h2.settings import SettingCodes, Settings
from h2.stream import H2Stream
from hpack.struct import Header
from hyperframe.frame import Frame, GoAwayFrame

from voice_client.transport.settings import LARGEST_WINDOW

_DEFAULT_WINDOW = 65_535
_LENGTH_BYTES = 3
"""At the start of each frame (RFC 9113, 4.1)."""


class ClientWire(H2Connection):
    """The client's side of one HTTP/2 connection, without I/O."""

    def __init__(self, *, stream_window: int) -> None:
        # An odd field in one answer is that stream's affair (RFC 9113, 8.1.1), but h2 would end the connection and all
        # its streams with it. So fields are not judged here, and read as Latin-1, which knows every byte.
        super().__init__(H2Configuration(client_side=True, header_encoding="latin-1", validate_inbound_headers=False))
        self.incoming_buffer = _Frames(server=False)
        self.local_settings = Settings(
            client=True,
            initial_values={SettingCodes.ENABLE_PUSH: 0, SettingCodes.INITIAL_WINDOW_SIZE: stream_window},
        )
        self.initiate_connection()
        # Each stream's own window bounds what it may hold; one that nobody reads must not stop its siblings.
        self.increment_flow_control_window(LARGEST_WINDOW - _DEFAULT_WINDOW)

    def _begin_new_stream(self, stream_id: int, allowed_ids: AllowedStreamIDs) -> H2Stream:
        # A wrong content-length is that stream's affair too, and nothing here needs it: events say how long they are.
        stream = super()._begin_new_stream(stream_id, allowed_ids)
        stream._initialize_content_length = _take_no_length  # type: ignore[method-assign]
        return stream

    def _receive_goaway_frame(self, frame: GoAwayFrame) -> tuple[list[Frame], list[Event]]:
        event = ConnectionTerminated()
        event.error_code = frame.error_code
        event.last_stream_id = frame.last_stream_id
        return [], [event]


class _Frames(FrameBuffer):
    """Judges a frame's length when it is announced; h2 would first collect the 16 MiB that a frame can claim."""

    def __next__(self) -> Frame:
        if len(self._data) >= _LENGTH_BYTES:
            self._validate_frame_length(int.from_bytes(self._data[:_LENGTH_BYTES]))
        return super().__next__()


def _take_no_length(headers: Iterable[Header]) -> None:
    """Take the place of the method that reads a content-length."""
