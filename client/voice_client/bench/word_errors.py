"""How many words of a recording were heard wrong."""

import re
import unicodedata
from dataclasses import dataclass

import jiwer

_SPELLED_OUT = {"mr": "mister", "mrs": "missus", "dr": "doctor", "st": "saint"}


@dataclass(frozen=True, slots=True)
class WordErrors:
    """Words substituted, deleted and inserted, and how many were said."""

    errors: int
    words: int


def normalized(text: str) -> str:
    """Take away what no listener hears: lower case, no punctuation, hyphens opened, titles spelled out."""
    text = unicodedata.normalize("NFKC", text).lower().replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")
    words = re.sub(r"[^\w' ]", " ", text.replace("-", " ")).split()
    return " ".join(_SPELLED_OUT.get(word, word) for word in words)


def word_errors(said: str, heard: str) -> WordErrors:
    """Compare what was heard with what was said, both normalized.

    Raises:
        ValueError: nothing was said.
    """
    reference = normalized(said)
    if not reference:
        raise ValueError("the text of a recording holds no word")
    measured = jiwer.process_words(reference, normalized(heard))
    errors = measured.substitutions + measured.deletions + measured.insertions
    return WordErrors(errors, measured.hits + measured.substitutions + measured.deletions)
