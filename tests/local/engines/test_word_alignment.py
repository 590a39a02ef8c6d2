"""Cutting a better transcript after what an earlier guess has already given out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from voice_local.engines.word_alignment import agreed_prefix, split_words, words_after

WORDS = st.lists(st.text("abcXYZ'.", min_size=1, max_size=4), max_size=12)


@pytest.mark.parametrize(
    ("given_out", "better", "rest"),
    [
        ("", "he was not", " he was not"),
        ("He was", "he was not.", " not."),
        ("He was not.", "he was not", ""),
        ("How do you marry", "Had he married a more", " more"),
        ("unless to be rather cold", "Unless to be rather cold-hearted man", "-hearted man"),
        ("one two two", "one two three", ""),
        ("and then and", "and then left", ""),
        ("the the cat", "the cat sat", " sat"),
        ("a long wrong guess", "b", ""),
    ],
)
def test_the_rest_continues_where_the_guess_ended(given_out: str, better: str, rest: str) -> None:
    assert "".join(words_after(split_words(given_out), split_words(better))) == rest


@given(WORDS, WORDS)
def test_a_right_guess_never_loses_or_repeats_a_word(first: list[str], second: list[str]) -> None:
    words = split_words(" ".join(first + second))
    cut = len(split_words(" ".join(first)))
    assert words[:cut] + words_after(words[:cut], words) == words


@given(WORDS, WORDS)
def test_the_rest_is_the_end_of_the_better_transcript(guess: list[str], better: list[str]) -> None:
    rest = words_after(guess, better)
    assert better[len(better) - len(rest) :] == rest


@given(st.text("ab- \n", max_size=30))
def test_parts_joined_are_the_text(text: str) -> None:
    joined = "".join(split_words(text))
    assert joined.replace("-", "").split() == text.replace("-", "").split() or "-" in text


def test_agreement_ignores_case_and_punctuation_and_gives_the_later_form() -> None:
    assert agreed_prefix([" He", " was."], [" he", " was", " not"]) == [" he", " was"]
    assert agreed_prefix([" He", " is"], [" he", " was"]) == [" he"]
    assert agreed_prefix([], [" he"]) == []
