"""HTTP/2 as the h2 library speaks it, but for one thing: a GOAWAY ends no stream that the server still serves.

By RFC 9113, 6.8, streams up to the announced one go on after a GOAWAY; h2 takes the connection for closed instead,
and refuses the frames that follow. What is overridden here is private to h2, and the only thing of a library that is:
tests/client/transport/test_pinned_sdk.py fails when it moves.
"""

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import ConnectionTerminated, Event
from h2.settings import SettingCodes, Settings
from hyperframe.frame import Frame, GoAwayFrame

from voice_client.transport.settings import LARGEST_WINDOW

_DEFAULT_WINDOW = 65_535


class ClientWire(H2Connection):
    """The client's side of one HTTP/2 connection, without I/O."""

    def __init__(self, *, stream_window: int) -> None:
        # An odd field in one answer is that stream's affair (RFC 9113, 8.1.1), but h2 would end the connection and all
        # its streams with it. So fields are not judged here, and read as Latin-1, which knows every byte.
        super().__init__(H2Configuration(client_side=True, header_encoding="latin-1", validate_inbound_headers=False))
        self.local_settings = Settings(
            client=True,
            initial_values={SettingCodes.ENABLE_PUSH: 0, SettingCodes.INITIAL_WINDOW_SIZE: stream_window},
        )
        self.initiate_connection()
        # Each stream's own window bounds what it may hold; one that nobody reads must not stop its siblings.
        self.increment_flow_control_window(LARGEST_WINDOW - _DEFAULT_WINDOW)

    def _receive_goaway_frame(self, frame: GoAwayFrame) -> tuple[list[Frame], list[Event]]:
        event = ConnectionTerminated()
        event.error_code = frame.error_code
        event.last_stream_id = frame.last_stream_id
        return [], [event]
