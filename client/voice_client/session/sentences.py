# ruff: noqa: RUF001 - marks and words of ten languages
"""Cuts a growing text into sentences, so that the first is spoken while the others wait or are yet to come.

It prefers too few cuts to wrong ones: a sentence cut in two has a wrong melody, whereas two sentences in one only start
later. The sentences are the same however the text comes, at once or letter by letter: whether a mark ends a sentence is
decided from the sentence up to it and the word after it, never from more. That decision is sentencex's (Wikimedia's
splitter, made to rather not split than split wrongly); what it misses for speech is vetoed here.
"""

import re

import sentencex

from voice_client.session.speakable import speakable, without_pictures

_CLOSING = "\"'”’»›」』）)\\]】*_"
_CJK = "\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
_MARK = re.compile(
    # Chinese and Japanese end marks need no space after them; neither does an empty line or an item of a list.
    rf"(?:[。！？]+[{_CLOSING}]*)|(?:(?<![.!?…])[.!?…]++[{_CLOSING}]*+(?=\s))|(?:(?<![!?…])[!?…]++[{_CLOSING}]*+(?=[{_CJK}]))"
    r"|(?:\n[^\S\n]*\n\s*)|(?:\n(?=\s*(?:[-*•]|#{1,6}|\d{1,3}[.)])\s))"
)
_NEXT_WORD = re.compile(rf"\s*(?:[{_CJK}]|\S{{24}}|\S+(?=\s))")
"""The word after a mark, once it is whole; where a word has no end to be seen, its first character has to do."""
_NEXT_LETTER = re.compile(r"\s*\w")
"""What has to do after a Chinese or Japanese mark, which ends a sentence whatever the next word is."""
_ABBREVIATION_WORDS = """
ms approx est tel vol ed abs inkl max bsp jh mme mlle dr pr exma profª srª drª pág etc av núm pag dott.ssa т.е им млн др
"""
"""What sentencex takes for a sentence's end although it is an abbreviation; small letters, without the full stop."""
_ABBREVIATIONS = frozenset(_ABBREVIATION_WORDS.split())
_SCRIPTS = (
    ("ja", re.compile("[\u3040-\u30ff]")),
    ("ko", re.compile("[\uac00-\ud7af]")),
    ("zh", re.compile("[\u3400-\u9fff]")),
    ("ru", re.compile("[\u0400-\u04ff]")),
)
_LATIN = ("en", "de", "fr", "es", "pt", "it")
"""Asked all together when no language is given: what is an abbreviation in one of them ends no sentence."""
_WORDS = re.compile(r"\w")
_CLAUSE = re.compile(r"[,;:—]\s|[，；：、]")
_SPACE = re.compile(r"\s")
_SPACES = re.compile(r"\s*")
_LOOKAHEAD = 64
"""Characters after which every mark before them has been decided."""


class SentenceSplitter:
    """Takes text as it comes and gives out sentences.

    Args:
        longest: characters of a sentence at most; a longer one is cut after a clause, else at a space, else anywhere.
        language: ISO 639-1 code; None finds it out from the letters of each sentence.
    """

    def __init__(self, *, longest: int, language: str | None = None) -> None:
        self._longest = longest
        self._language = language
        self._text = ""
        """What is not given out yet; begins where a sentence begins."""
        self._half = ""
        """A character's first half, when a writer cut it in two (JSON writes an emoji as two escapes)."""
        self._decided = 0
        """Up to here no mark ends the sentence."""

    def push(self, text: str) -> list[str]:
        """Add text; return the sentences whose end is known by it, in order, as they are to be spoken."""
        text = self._half + text
        self._half = text[-1] if "\ud800" <= text[-1:] <= "\udbff" else ""
        text = without_pictures(text.removesuffix(self._half))
        self._text = self._text + text if self._text else text.lstrip()
        return self._take(whole=False)

    def flush(self) -> list[str]:
        """Return what is left, as if the text ended here."""
        found = self._take(whole=True)
        rest, self._text, self._half, self._decided = self._text, "", "", 0
        last = speakable(rest)
        return [*found, last] if last else found

    def _take(self, *, whole: bool) -> list[str]:
        found, begin = [], 0
        # Marks beyond the window are not looked at, so that a long text takes time in proportion to its length.
        window = self._longest + 2 * _LOOKAHEAD
        while (end := self._sentence_end(self._text[begin : begin + window], whole=whole)) is not None:
            if sentence := speakable(self._text[begin : begin + end]):
                found.append(sentence)
            begin, self._decided = _SPACES.match(self._text, begin + end).end(), 0  # type: ignore[union-attr]
        self._text = self._text[begin:]
        return found

    def _sentence_end(self, text: str, *, whole: bool) -> int | None:
        """Return where the first sentence ends, None when that is not known yet."""
        too_long = len(text) > self._longest + _LOOKAHEAD or (whole and len(text.rstrip()) > self._longest)
        for mark in _MARK.finditer(text, self._decided):
            if mark.end() > self._longest:
                break
            word = _word_after(text, mark)
            if word is None and not whole:
                return self._cut(text) if too_long else None
            if self._ends(text[: word.end() if word is not None else None], mark):
                return mark.end()
            self._decided = mark.end()
        return self._cut(text) if too_long else None

    def _ends(self, text: str, mark: re.Match[str]) -> bool:
        """Whether a mark ends the sentence, given the text up to the word after it."""
        before, following = text[: mark.start()], text[mark.end() :].strip()
        if not _WORDS.search(before):
            return False  # nothing to say yet: "1.", "...", a smiley
        if mark.group()[0] == "\n":
            return True
        return (
            _WORDS.search(following) is not None
            and not _goes_on(before, mark.group(), following)
            and all(_agrees(language, text, mark) for language in self._languages(before))
        )

    def _languages(self, sentence: str) -> tuple[str, ...]:
        if self._language is not None:
            return (self._language,)
        return next(((code,) for code, letters in _SCRIPTS if letters.search(sentence)), _LATIN)

    def _cut(self, text: str) -> int:
        """Return where a sentence that is too long is cut."""
        if len(before_gap := text[: self._longest + _LOOKAHEAD].rstrip()) <= self._longest:
            return len(before_gap)  # nothing but space makes it long
        for pattern in (_CLAUSE, _SPACE):
            # Not in the first half: a crumb at the front would sound worse than a cut at a later space.
            ends = [match.end() for match in pattern.finditer(text, 0, self._longest)]
            if ends and ends[-1] > self._longest // 2:
                return ends[-1]
        return self._longest


def _word_after(text: str, mark: re.Match[str]) -> re.Match[str] | None:
    """Return the word after a mark, None while it is not known. The same one, however the text came."""
    letter = _NEXT_LETTER.match(text, mark.end()) if mark.group()[0] in "。！？" else None
    return letter or _NEXT_WORD.match(text, mark.end())


def _goes_on(before: str, mark: str, following: str) -> bool:
    """Whether a sentence goes on after a mark, whatever sentencex says."""
    said = following.lstrip("—–-")
    if said[:1].islower() and (mark[0] in ".…" or mark[-1] in _CLOSING or said != following):
        return True  # "Stop!" he said. / — ¡Alto! —gritó él.
    if mark[-1] in _CLOSING and following[0] in {"と", "っ"}:
        return True
    if mark != ".":
        return False
    word = (before.rsplit(maxsplit=1)[-1:] or [""])[0].lstrip("\"'“‘«(¿¡[").lower()
    initial = len(word) == 1 and word.isalpha()  # J. Smith, M. Dupont
    ordinal = len(word) <= 2 and word.isdigit()  # am 3. Mai
    numbered = len(word) <= 4 and word.isalpha() and following[0].isdigit()  # fig. 3, Kap. 5, рис. 2
    return word in _ABBREVIATIONS or initial or ordinal or numbered


def _agrees(language: str, text: str, mark: re.Match[str]) -> bool:
    """Whether sentencex ends a sentence at a mark, be it before what closes there (it knows no Markdown)."""
    next_word = len(text) - len(text[mark.end() :].lstrip())
    return any(
        mark.start() < found["end_index"] <= next_word for found in sentencex.get_sentence_boundaries(language, text)
    )


def split_sentences(text: str, *, longest: int, language: str | None = None) -> list[str]:
    """Return the sentences of a text in order, none blank and none longer than `longest` characters."""
    splitter = SentenceSplitter(longest=longest, language=language)
    return [*splitter.push(text), *splitter.flush()]
