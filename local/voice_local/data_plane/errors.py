"""What can go wrong on the data plane, and how each thing looks to the client.

Three shapes reach a client: an HTTP error before the response headers (`RequestRefusedError`), a last event on an open
stream (`StreamFaultError`), and nothing at all because the client itself is gone (`StreamBrokenError`).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field


class DataPlaneError(Exception):
    """Base of every error of this package."""


class StreamBrokenError(DataPlaneError):
    """The client reset its stream or its connection is gone; nothing can be sent any more."""


class MalformedFrameError(DataPlaneError):
    """Bytes that are no `application/vnd.amazon.eventstream` frame."""


class TlsMaterialError(DataPlaneError):
    """The folder for the CA bundle cannot be used."""


@dataclass(eq=False)
class RequestRefusedError(DataPlaneError):
    """The request is answered with an HTTP error.

    `error_type` goes into the header `x-amzn-errortype`; `message` and `details` into the JSON body.
    """

    status: int
    error_type: str
    message: str
    details: Mapping[str, str | int] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.status} {self.error_type}: {self.message}"


@dataclass(eq=False)
class StreamFaultError(DataPlaneError):
    """An open stream ends with an error event.

    With `modeled`, the event is `:message-type=exception` and `error_type` one of the two exceptions of the operation's
    response (ModelStreamError, InternalStreamFailure). Otherwise it is `:message-type=error`, the event stream's own
    form for an error that an operation does not model.
    """

    error_type: str
    message: str
    modeled: bool = True
    error_code: str | None = None

    def __str__(self) -> str:
        return f"{self.error_type}: {self.message}"


def validation_error(message: str) -> RequestRefusedError:
    """Answer 400 ValidationError, SageMaker's word for an endpoint or a variant that is not there."""
    return RequestRefusedError(400, "ValidationError", message)


def input_validation_error(message: str) -> RequestRefusedError:
    """Answer 400 InputValidationError: a request parameter breaks its constraints."""
    return RequestRefusedError(400, "InputValidationError", message)


def model_stream_error(message: str, error_code: str) -> StreamFaultError:
    """End the stream because of the container.

    `error_code` is one of the two that SageMaker documents for response streams: `StreamBroken` and
    `ModelInvocationTimeExceeded`.
    """
    return StreamFaultError("ModelStreamError", message, error_code=error_code)


def internal_stream_failure(message: str) -> StreamFaultError:
    """End the stream because of the platform itself."""
    return StreamFaultError("InternalStreamFailure", message)


def invalid_input_event(message: str) -> StreamFaultError:
    """End the stream because of an event that cannot be understood."""
    return StreamFaultError("InputValidationError", message, modeled=False)


def root_failure(failures: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the failure of a task group to act on: an unexpected one if there is any, so that none stays hidden."""
    leaves = list(_leaves(failures))
    return next((error for error in leaves if not isinstance(error, DataPlaneError)), leaves[0])


def _leaves(failures: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    for error in failures.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(error)
        else:
            yield error
