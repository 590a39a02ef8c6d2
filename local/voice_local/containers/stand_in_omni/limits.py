"""Limits of vLLM-Omni 0.26's speech front-end."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SpeechLimits:
    """Named as the release's own defaults are; tests make the time-outs short."""

    config_seconds: float = 10.0
    """A client that has not sent a good `session.config` by then is told so and cut off."""
    idle_seconds: float = 30.0
    """Longest silence between two messages once configured; time spent generating does not count."""
    config_characters: int = 4 * 1024 * 1024
    """`session.config` may carry a reference recording."""
    message_characters: int = 128 * 1024
    """Any other message."""
