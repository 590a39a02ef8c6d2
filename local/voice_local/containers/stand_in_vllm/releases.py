"""Where two releases of vLLM differ on the wire."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Release:
    """One release of vLLM, as a client of `/v1/realtime` sees it."""

    name: str
    checks_model: bool
    """A model that is not served is refused with `model_not_found`."""
    validates_session_update: bool
    """A `session.update` without `model` is an `invalid_event`; else the lookup's own failure is reported."""
    needs_session_update: bool
    """Nothing is transcribed before a good `session.update`; else the error is sent and the work done all the same."""
    survives_length_limit: bool
    """At `max_model_len` the input stops and a normal-looking `transcription.done` follows; else the engine dies."""


RELEASES = {
    release.name: release
    for release in (
        Release(
            "0.17",
            checks_model=False,
            validates_session_update=False,
            needs_session_update=False,
            survives_length_limit=False,
        ),
        Release(
            "0.27",
            checks_model=True,
            validates_session_update=True,
            needs_session_update=True,
            survives_length_limit=True,
        ),
    )
}

DEFAULT_RELEASE = "0.27"
"""What the newest SageMaker image of vLLM (server-sagemaker-cuda-v2.3) holds."""
