"""Comparing two transcripts of the same speech, word by word, letters only."""

import re
from collections.abc import Sequence

_NOT_A_LETTER = re.compile(r"\W")
_WORD = re.compile(r"[\s-]*[^\s-]+")


def split_words(text: str) -> list[str]:
    """Split at spaces and hyphens: `a cold-hearted man` into ` a`, ` cold`, `-hearted`, ` man`.

    Hyphenated words come apart because a run that ends within one hears only its first half. The parts joined again
    are the text, with one space before.
    """
    return _WORD.findall(" " + " ".join(text.split()))


def _key(word: str) -> str:
    return _NOT_A_LETTER.sub("", word.lower())


def agreed_prefix(earlier: Sequence[str], later: Sequence[str]) -> list[str]:
    """Return the first words of `later`, as far as `earlier` has the same."""
    for position, (old, new) in enumerate(zip(earlier, later, strict=False)):
        if _key(old) != _key(new):
            return list(later[:position])
    return list(later[: len(earlier)])


def words_after(given: Sequence[str], words: Sequence[str]) -> list[str]:
    """Return what `words` adds to `given`, when `given` is an earlier guess at the first of them.

    The cut is where the words before it are nearest to `given` (edit distance), so a guess that had one word more or
    less than the better transcript neither repeats a word nor swallows one. Of equally near cuts the one that keeps
    the count of words is taken.
    """
    keys = [_key(word) for word in words]
    distances = list(range(len(keys) + 1))
    for row, old in enumerate(map(_key, given), start=1):
        diagonal, distances[0] = distances[0], row
        for column, new in enumerate(keys, start=1):
            substituted = diagonal + (old != new)
            diagonal = distances[column]
            distances[column] = min(substituted, diagonal + 1, distances[column - 1] + 1)
    cut = min(range(len(keys) + 1), key=lambda position: (distances[position], abs(position - len(given))))
    return list(words[cut:])
