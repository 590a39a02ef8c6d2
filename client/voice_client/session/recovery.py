"""When a new stream can cure what ended the last one."""

from voice_client.errors import ModelError, RefusedError, VoiceError

_BROKEN_STREAM_CODES = {"streambroken", "modelinvocationtimeexceeded"}
"""Codes of a ModelStreamError that speak of the stream and not of what was sent on it: the container went away, or the
stream reached its longest duration. SageMaker documents just these two; written with or without underscores."""


def can_recover(error: VoiceError, *, reconnecting: bool) -> bool:
    """Return whether the conversation can go on over a new stream.

    Args:
        error: what ended the last stream, or stopped the last attempt to open one.
        reconnecting: whether a stream to this endpoint has worked in this conversation. Then a container that refuses
            is one that is starting again, whereas on the first attempt it refuses for good.
    """
    if error.retryable:
        return True
    if isinstance(error, ModelError) and error.error_code is not None:
        return error.error_code.replace("_", "").lower() in _BROKEN_STREAM_CODES
    return reconnecting and isinstance(error, RefusedError)
