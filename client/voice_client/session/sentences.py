# ruff: noqa: RUF001 - marks and words of ten languages
"""Cuts a growing text into sentences, so that the first is spoken while the others wait or are yet to come.

It prefers too few cuts to wrong ones: a sentence cut in two has a wrong melody, whereas two sentences in one only start
later. The sentences are the same however the text comes, at once or letter by letter: whether a mark ends a sentence is
decided from the sentence up to it and the word after it, never from more.
"""

import re
from collections.abc import Iterator

from voice_client.session.speakable import speakable

_CLOSING = "\"'”’»›」』）)\\]】*_"
_CJK = "\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
_MARK = re.compile(
    # Chinese and Japanese end marks need no space after them; neither does an empty line or an item of a list.
    rf"(?:[。！？]+[{_CLOSING}]*)|(?:[.!?…]+[{_CLOSING}]*(?=\s))|(?:[!?…]+[{_CLOSING}]*(?=[{_CJK}\uac00-\ud7af]))"
    r"|(?:\n[^\S\n]*\n\s*)|(?:\n(?=\s*(?:[-*•]|\d{1,3}[.)])\s))"
)
_NEXT_WORD = re.compile(rf"\s*(?:(\S+)\s|(\S{{24}})|([{_CJK}]))")
"""The word after a mark, once it is whole; Chinese and Japanese have no spaces, so there a character has to do."""
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
_WORDS = re.compile(r"\w")
_CLAUSE = re.compile(r"[,;:—]\s|[，；：、]")
_SPACE = re.compile(r"\s")
_LOOKAHEAD = 64
"""Characters after which every mark before them has been decided."""


class SentenceSplitter:
    """Takes text as it comes and gives out sentences.

    Args:
        longest: characters of a sentence at most; a longer one is cut after a clause, else at a space, else anywhere.
    """

    def __init__(self, *, longest: int) -> None:
        self._longest = longest
        self._text = ""
        """What is not given out yet; begins where a sentence begins."""
        self._decided = 0
        """Up to here no mark ends the sentence."""

    def push(self, text: str) -> list[str]:
        """Add text; return the sentences whose end is known by it, in order, as they are to be spoken."""
        self._text += text
        return list(self._take(whole=False))

    def flush(self) -> list[str]:
        """Return what is left, as if the text ended here."""
        found = list(self._take(whole=True))
        rest, self._text, self._decided = self._text, "", 0
        last = speakable(rest)
        return [*found, last] if last else found

    def _take(self, *, whole: bool) -> Iterator[str]:
        while (end := self._sentence_end(whole=whole)) is not None:
            raw, self._text, self._decided = self._text[:end], self._text[end:].lstrip(), 0
            if sentence := speakable(raw):
                yield sentence

    def _sentence_end(self, *, whole: bool) -> int | None:
        """Return where the first sentence ends, None when that is not known yet."""
        room = self._longest if whole else self._longest + _LOOKAHEAD
        for mark in _MARK.finditer(self._text, self._decided):
            if mark.end() > self._longest:
                break
            word = _NEXT_WORD.match(self._text, mark.end())
            if word is None and not whole:
                return None if len(self._text) <= room else self._cut()
            following = word.group().strip() if word else self._text[mark.end() :].strip()
            if self._ends(mark, following):
                return mark.end()
            self._decided = mark.end()
        return self._cut() if len(self._text.rstrip()) > room else None

    def _ends(self, mark: re.Match[str], following: str) -> bool:
        """Whether a mark ends the sentence, given the word after it."""
        before = self._text[: mark.start()]
        if not _WORDS.search(before) or not _WORDS.search(following):
            return False  # nothing to say on one side: "1.", "...", a smiley
        if mark.group()[0] == "\n":
            return True
        quoted = mark.group()[-1] in _CLOSING
        if quoted and (following[0].islower() or following[0] in {"と", "っ"}):
            return False  # "Stop!" he said: the sentence goes on after the quotation
        if mark.group()[0] not in ".…":
            return True
        if following[0].islower():
            return False
        word = (before.rsplit(maxsplit=1)[-1:] or [""])[0].lstrip("\"'“‘«(¿¡[").lower()
        initial = len(word) == 1 and word.isalpha()  # J. Smith
        ordinal = len(word) <= 2 and word.isdigit()  # am 3. Mai
        return not (mark.group() == "." and (word in _ABBREVIATIONS or initial or ordinal))

    def _cut(self) -> int:
        """Return where a sentence that is too long is cut."""
        for pattern in (_CLAUSE, _SPACE):
            # Not in the first half: a crumb at the front would sound worse than a cut at a later space.
            ends = [match.end() for match in pattern.finditer(self._text, 0, self._longest)]
            if ends and ends[-1] > self._longest // 2:
                return ends[-1]
        return self._longest


def split_sentences(text: str, *, longest: int) -> list[str]:
    """Return the sentences of a text in order, none blank and none longer than `longest` characters."""
    splitter = SentenceSplitter(longest=longest)
    return [*splitter.push(text), *splitter.flush()]
