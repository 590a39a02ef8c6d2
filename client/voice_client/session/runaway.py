"""When speech goes on longer than its text can take: the model lost itself and babbles (vLLM-Omni issue 4576)."""

import unicodedata

from voice_client.errors import ModelError
from voice_client.session.settings import SynthesizerSettings

_SYLLABLE_SECONDS = 0.3
"""A Chinese or Korean character, or a kana, spoken slowly."""
_DIGIT_SECONDS = 0.6
"""A digit spoken slowly, as part of a number or alone."""
_LETTER_SECONDS = 0.1
"""A letter spoken slowly: about 100 words a minute."""
_SIGN_SECONDS = 0.2
"""A pause, or a sign read out ("percent")."""


class RunawayError(ModelError):
    """The voice did not end."""


def longest_speech(text: str, settings: SynthesizerSettings) -> float:
    """Return how many seconds a text can take at most before it is taken for babble: slow speech, and much room."""
    return settings.runaway_seconds + settings.runaway_factor * sum(map(_seconds, text))


def _seconds(character: str) -> float:
    if character.isdigit():
        return _DIGIT_SECONDS
    if not character.isalpha():
        return _SIGN_SECONDS if not character.isspace() else _LETTER_SECONDS
    if character >= "\u2e80" and unicodedata.category(character) == "Lo":
        return _SYLLABLE_SECONDS
    return _LETTER_SECONDS
