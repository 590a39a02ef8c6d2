"""Voices and languages that Qwen3-TTS CustomVoice knows, and what a user may have meant."""

import difflib
from collections.abc import Iterable
from enum import Enum, auto

from voice_client.errors import BadInputError

LANGUAGES = {
    "zh": "Chinese",
    "en": "English",
    "ja": "Japanese",
    "ko": "Korean",
    "de": "German",
    "fr": "French",
    "ru": "Russian",
    "pt": "Portuguese",
    "es": "Spanish",
    "it": "Italian",
}
"""ISO 639-1 code to the name that the server wants; it refuses codes."""

AUTO = "Auto"
"""Lets the model find out the language from the text."""

VOICES = ("Vivian", "Serena", "Uncle_Fu", "Dylan", "Eric", "Ryan", "Aiden", "Ono_Anna", "Sohee")
"""Voices of Qwen3-TTS CustomVoice (its `GET /v1/audio/voices`)."""

DEFAULT_VOICE = "Vivian"


class ModelKind(Enum):
    """What a text-to-speech model makes its voice from."""

    CUSTOM_VOICE = auto()
    """Qwen3-TTS CustomVoice: one of nine names."""
    BASE = auto()
    """Qwen3-TTS Base: a reference recording."""
    VOICE_DESIGN = auto()
    """Qwen3-TTS VoiceDesign: a description."""
    UNKNOWN = auto()
    """Another model, or one that is not known by name."""


def kind_of(model: str | None) -> ModelKind:
    """Tell a model's kind from its name."""
    name = (model or "").lower()
    if "qwen3-tts" not in name:
        return ModelKind.UNKNOWN
    if "customvoice" in name:
        return ModelKind.CUSTOM_VOICE
    if "voicedesign" in name:
        return ModelKind.VOICE_DESIGN
    return ModelKind.BASE if "base" in name else ModelKind.UNKNOWN


def chosen_voice(voice: str | None, *, model: str | None) -> str | None:
    """Return the server's spelling of the voice to ask a model for.

    The voices of another model than Qwen3-TTS CustomVoice are not known here and pass as they are.

    Raises:
        BadInputError: the model has no such voice.
    """
    if model is not None and kind_of(model) is not ModelKind.CUSTOM_VOICE:
        return voice
    if voice is None:
        return DEFAULT_VOICE if model is not None else None
    known = {name.lower(): name for name in VOICES}
    if (name := known.get(voice.strip().lower().replace(" ", "_"))) is not None:
        return name
    raise _unknown("voice", voice, VOICES)


def language_name(language: str | None) -> str | None:
    """Return the server's name of a language given as name ("english") or code ("en", "pt-BR").

    Raises:
        BadInputError: none of the ten languages.
    """
    if language is None:
        return None
    given = language.strip().lower()
    known = {name.lower(): name for name in (*LANGUAGES.values(), AUTO)}
    code = LANGUAGES.get(given.replace("_", "-").split("-")[0])
    if (name := known.get(given) or code) is not None:
        return name
    raise _unknown("language", language, (*LANGUAGES.values(), AUTO))


def language_code(name: str | None) -> str | None:
    """Return the code of a language given by the server's name; None for "Auto" and for none at all."""
    return next((code for code, language in LANGUAGES.items() if language == name), None)


def _unknown(kind: str, given: str, known: Iterable[str]) -> BadInputError:
    names = {name.lower(): name for name in known}
    close = difflib.get_close_matches(given.strip().lower(), names, n=1, cutoff=0.6)
    meant = f"Did you mean {names[close[0]]}? " if close else ""
    return BadInputError(f"there is no {kind} {given!r}", advice=f"{meant}Known are {', '.join(names.values())}")
