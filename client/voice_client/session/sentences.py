# ruff: noqa: RUF001 - marks and words of ten languages
"""Cuts a text into sentences, so that the first is spoken while the others wait.

A small splitter for the ten languages of the model. It prefers too few cuts to wrong ones: a sentence cut in two has
a wrong melody, whereas two sentences in one only start later.
"""

import re
from collections.abc import Iterator

_CLOSING = "\"'”’»›」』）)\\]】"
_BOUNDARY = re.compile(
    # Chinese and Japanese end marks need no space after them; neither does a line break with an empty line.
    rf"(?:[。！？]+[{_CLOSING}]*)|(?:[.!?…]+[{_CLOSING}]*(?=\s|$))|(?:[!?]+(?=[\u3040-\u9fff\uac00-\ud7af]))|(?:\n\s*\n)"
)
_ABBREVIATION_WORDS = """
mr mrs ms dr prof st jr sr vs etc inc ltd co no fig approx e.g i.e a.m p.m u.s
bzw ca evtl ggf hr fr nr str usw z.b d.h u.a z usf vgl abs
m mm mme mlle p.ex env av
sra srta dra ud uds ee.uu núm sr.ª exmo exma pág
sig sig.ra dott ecc pag
г гг ул т.е т.д т.п им см руб тыс млн
"""
"""English; German; French; Spanish and Portuguese; Italian; Russian. Small letters, without the last full stop."""
_ABBREVIATIONS = frozenset(_ABBREVIATION_WORDS.split())
_SPEAKABLE = re.compile(r"\w|[^\x00-\x7f]")
_CUTS = (re.compile(r"[,;:—]\s|[，；：、]"), re.compile(r"\s"))
"""Where a sentence that is too long is cut: after a clause, else at a space."""


def split_sentences(text: str, *, longest: int) -> list[str]:
    """Return the sentences of a text in order, none blank and none longer than `longest` characters.

    Whitespace inside a sentence is reduced to single spaces; apart from that, the pieces joined are the text. A
    piece without anything to say ("...") goes with the sentence before it.
    """
    sentences: list[str] = []
    for raw in _cut(text):
        sentence = " ".join(raw.split())
        if not sentence:
            continue
        if sentences and not _SPEAKABLE.search(sentence):
            sentences[-1] += f" {sentence}"
        else:
            sentences.append(sentence)
    return [piece for sentence in sentences for piece in _limit(sentence, longest)]


def _cut(text: str) -> Iterator[str]:
    start = 0
    for mark in _BOUNDARY.finditer(text):
        if _ends_sentence(text, mark):
            yield text[start : mark.end()]
            start = mark.end()
    yield text[start:]


def _ends_sentence(text: str, mark: re.Match[str]) -> bool:
    after = text[mark.end() :].lstrip()[:1]
    quoted = mark.group()[-1] in _CLOSING
    if quoted and (after.islower() or after in {"と", "っ"}):
        return False  # "Stop!" he said: the sentence goes on after the quotation
    if mark.group()[0] not in ".…":
        return True
    if after.islower():
        return False
    word = (text[: mark.start()].rsplit(maxsplit=1)[-1:] or [""])[0].lstrip("\"'“‘«(¿¡[").lower()
    initial = len(word) == 1 and word.isalpha()  # J. Smith
    ordinal = len(word) <= 2 and word.isdigit()  # am 3. Mai
    return not (mark.group() == "." and (word in _ABBREVIATIONS or initial or ordinal))


def _limit(sentence: str, longest: int) -> Iterator[str]:
    while len(sentence) > longest:
        cut = next((ends[-1] for ends in (_ends(pattern, sentence, longest) for pattern in _CUTS) if ends), longest)
        yield sentence[:cut].strip()
        sentence = sentence[cut:].strip()
    if sentence:
        yield sentence


def _ends(pattern: re.Pattern[str], sentence: str, longest: int) -> list[int]:
    # Not in the first half: a crumb at the front would sound worse than a cut at a later space.
    return [end for match in pattern.finditer(sentence, 0, longest) if (end := match.end()) > longest // 2]
