"""Ctrl-C while the commands are loaded: there is nothing to clean up yet, and a traceback would help nobody."""

import os
import signal
from types import FrameType


def _leave(number: int, _: FrameType | None) -> None:
    os._exit(128 + number)


def leave_at_ctrl_c() -> None:
    """End the process at once at Ctrl-C; where it is ignored (a shell's background job) it stays so."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _leave)


def interrupt_at_ctrl_c() -> None:
    """Raise KeyboardInterrupt again from here on: a command may have begun something that wants to be ended."""
    if signal.getsignal(signal.SIGINT) is _leave:
        signal.signal(signal.SIGINT, signal.default_int_handler)
