"""Every way a conversation with a voice endpoint fails, as one hierarchy.

An error says what happened (`message`), to which endpoint (`endpoint`), under which request (`request_id`, what AWS
support asks for), whether trying again can help (`retryable`) and what to do next (`advice`). `str(error)` joins them.
No error quotes audio or speech; what the service or the container said about a failure is passed on.
"""

from typing import ClassVar


class VoiceError(Exception):
    """The base of all errors of this package.

    Args:
        message: what happened, without a full stop.
        endpoint: name of the SageMaker endpoint, None when it was not yet known.
        request_id: the service's id of the request, None when no answer arrived.
        retryable: whether the same call can succeed later; None takes the default of the class.
        advice: what to do next, a sentence; None takes the default of the class.
    """

    exit_code: ClassVar[int] = 1
    """Exit status of `voice`: 2 bad usage or input, 3 credentials or endpoint, 4 stream or model, 1 else."""
    default_retryable: ClassVar[bool] = False
    default_advice: ClassVar[str] = ""

    def __init__(
        self,
        message: str,
        *,
        endpoint: str | None = None,
        request_id: str | None = None,
        retryable: bool | None = None,
        advice: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.endpoint = endpoint
        self.request_id = request_id
        self.retryable = self.default_retryable if retryable is None else retryable
        self.advice = self.default_advice if advice is None else advice

    def __str__(self) -> str:
        where = f"endpoint {self.endpoint}: " if self.endpoint else ""
        request = f" (request id {self.request_id})" if self.request_id else ""
        advice = f". {self.advice}" if self.advice else ""
        return f"{where}{self.message.removesuffix('.')}{request}{advice}"


class BadInputError(VoiceError):
    """The caller's input cannot be used: an unreadable file, a setting out of range, an invalid request."""

    exit_code = 2


class CredentialsError(VoiceError):
    """No AWS credentials or region, or the service does not accept them."""

    exit_code = 3
    default_advice = "Check the credentials: `aws sts get-caller-identity` shows who you are"


class EndpointNotFoundError(VoiceError):
    """The account has no such endpoint, or a stage is not deployed."""

    exit_code = 3
    default_advice = "Deploy it, or check the endpoint's name, account and region"


class EndpointNotInServiceError(VoiceError):
    """The endpoint exists but is not InService (it is being created or updated, or it failed)."""

    exit_code = 3
    default_retryable = True
    default_advice = "Wait until the endpoint is InService; a fresh GPU endpoint takes 10 to 20 minutes"


class RefusedError(VoiceError):
    """The container did not take the connection (HTTP 424 before any frame)."""

    exit_code = 4


class ThrottledError(VoiceError):
    """The service or the endpoint has no room for one more stream now."""

    exit_code = 4
    default_retryable = True
    default_advice = "Try again after a pause, or raise the quota or the instance count"


class ConnectionLostError(VoiceError):
    """The connection ended before the conversation did; what was under way can be replayed on a new stream."""

    exit_code = 4
    default_retryable = True
    default_advice = "Open a new stream and replay what was not acknowledged"


class ConnectError(ConnectionLostError):
    """No connection could be made: a name that does not resolve, a refused port, a certificate that is not trusted."""

    default_advice = "Check the endpoint URL and the network"


class DeadlineError(VoiceError):
    """Something that has a deadline did not happen in time; the stream it happened on is closed."""

    exit_code = 4
    default_retryable = True
    default_advice = "Try again; if it repeats, look at the endpoint's load and its log group"


class ModelError(VoiceError):
    """The model container failed in the middle of a stream (ModelStreamError), or answered with an error event.

    `error_code` is the service's code when it gave one (such as MODEL_INVOCATION_TIME_EXCEEDED).
    """

    exit_code = 4

    def __init__(
        self,
        message: str,
        *,
        endpoint: str | None = None,
        request_id: str | None = None,
        retryable: bool | None = None,
        advice: str | None = None,
        error_code: str | None = None,
    ) -> None:
        super().__init__(message, endpoint=endpoint, request_id=request_id, retryable=retryable, advice=advice)
        self.error_code = error_code


class InternalFailureError(VoiceError):
    """SageMaker itself failed (HTTP 500 or 503, InternalStreamFailure)."""

    exit_code = 4
    default_retryable = True
    default_advice = "Open a new stream; if it repeats, give AWS support the request id"


class ProtocolError(VoiceError):
    """The peer sent something its protocol does not allow, or the stream was used against its contract."""

    exit_code = 4


def log_group(endpoint_name: str) -> str:
    """Return the CloudWatch log group that SageMaker writes the endpoint's container output to."""
    return f"/aws/sagemaker/Endpoints/{endpoint_name}"
