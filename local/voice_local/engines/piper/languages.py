"""Which engine speaks which of Qwen3-TTS's languages here."""

from collections.abc import Mapping

ENGLISH = frozenset({"Auto", "English"})
"""Spoken by Piper. `Auto` does not look at the text: it is English."""

ESPEAK_VOICES: Mapping[str, str] = {
    "Chinese": "cmn",
    "Korean": "ko",
    "German": "de",
    "French": "fr",
    "Russian": "ru",
    "Portuguese": "pt-br",
    "Spanish": "es",
    "Italian": "it",
}
"""Language to eSpeak NG's name of it. Japanese is not among them: eSpeak NG knows kana and no kanji."""
