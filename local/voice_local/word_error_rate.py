"""Word error rate of a transcript, after the differences that no listener hears are taken away."""

import re
import unicodedata

import jiwer

_SPELLED_OUT = {"mr": "mister", "mrs": "missus", "dr": "doctor", "st": "saint"}


def normalized(text: str) -> str:
    """Lower-case, without punctuation, hyphens opened, titles spelled out."""
    text = unicodedata.normalize("NFKC", text).lower().replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")
    words = re.sub(r"[^\w' ]", " ", text.replace("-", " ")).split()
    return " ".join(_SPELLED_OUT.get(word, word) for word in words)


def word_error_rate(reference: str, hypothesis: str) -> float:
    """Return the share of reference words that were substituted, deleted or inserted (0.0 is perfect).

    Raises:
        ValueError: the reference holds no word.
    """
    spoken = normalized(reference)
    if not spoken:
        raise ValueError("the reference text holds no word")
    return float(jiwer.wer(spoken, normalized(hypothesis)))
