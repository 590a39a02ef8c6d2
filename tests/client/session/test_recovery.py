"""Which losses a new stream can cure."""

import pytest

from voice_client.errors import (
    BadInputError,
    ConnectionLostError,
    CredentialsError,
    DeadlineError,
    EndpointNotFoundError,
    ModelError,
    RefusedError,
    VoiceError,
)
from voice_client.session.recovery import can_recover


@pytest.mark.parametrize(
    ("error", "first", "again"),
    [
        (ConnectionLostError("lost"), True, True),
        (DeadlineError("late"), True, True),
        (ModelError("the container went away", error_code="StreamBroken"), True, True),
        (ModelError("30 minutes", error_code="MODEL_INVOCATION_TIME_EXCEEDED"), True, True),
        (ModelError("no such model", error_code="model_not_found"), False, False),
        (ModelError("bad voice"), False, False),
        (RefusedError("not yet"), False, True),
        (CredentialsError("wrong key"), False, False),
        (EndpointNotFoundError("gone"), False, False),
        (BadInputError("no"), False, False),
    ],
)
def test_what_can_be_cured(error: VoiceError, first: bool, again: bool) -> None:
    assert can_recover(error, reconnecting=False) is first
    assert can_recover(error, reconnecting=True) is again
