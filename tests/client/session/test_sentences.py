"""Sentences of the ten languages, however their text comes."""

# ruff: noqa: RUF001
import random
from typing import Any

import pytest

from voice_client.session.sentences import SentenceSplitter, split_sentences

HARD = [
    ("en", "One. Two! Three? Four", ["One.", "Two!", "Three?", "Four"]),
    ("en", "Dr. Smith paid 3.14 dollars. Then he left.", ["Dr. Smith paid 3.14 dollars.", "Then he left."]),
    ("en", "J. R. Smith came. He saw.", ["J. R. Smith came.", "He saw."]),
    ("en", "At 5 p.m. Mr. Jones of Acme Inc. left. Good.", ["At 5 p.m. Mr. Jones of Acme Inc. left.", "Good."]),
    ("en", "We live in the U.S. It is big.", ["We live in the U.S.", "It is big."]),
    ("en", "Look at https://example.com/?a=b. Well?", ["Look at example.com.", "Well?"]),
    ("en", '"Stop!" he said. "Why?"', ['"Stop!" he said.', '"Why?"']),
    ("en", "Wait... what? No way...", ["Wait... what?", "No way..."]),
    ("en", "What?! Really?? Yes!!! OK.", ["What?!", "Really??", "Yes!!!", "OK."]),
    ("en", "Version 2.0.1 is out! See p. 5.", ["Version 2.0.1 is out!", "See p. 5."]),
    ("en", "I like Yahoo! very much. Do you?", ["I like Yahoo! very much.", "Do you?"]),
    ("en", "1. First\n2. Second\n- third", ["1. First", "2. Second", "third"]),
    ("en", "**Bold words.** And more.", ["Bold words.", "And more."]),
    ("de", "Am 3. Mai kam z.B. Herr Dr. Kraus. Er blieb.", ["Am 3. Mai kam z.B. Herr Dr. Kraus.", "Er blieb."]),
    ("de", "Der 2. Weltkrieg endete 1945. Danach war Ruhe.", ["Der 2. Weltkrieg endete 1945.", "Danach war Ruhe."]),
    ("de", "Das kostet ca. 3,50 Euro bzw. 4 Euro. Gut so.", ["Das kostet ca. 3,50 Euro bzw. 4 Euro.", "Gut so."]),
    ("fr", "«Bonjour !» dit M. Dupont. Puis il partit.", ["«Bonjour !» dit M. Dupont.", "Puis il partit."]),
    ("fr", "Mme Petit et Mlle. Roux arrivent. Bien !", ["Mme Petit et Mlle. Roux arrivent.", "Bien !"]),
    ("es", "¿Qué tal? ¡Muy bien! La Sra. Gil llegó.", ["¿Qué tal?", "¡Muy bien!", "La Sra. Gil llegó."]),
    ("es", "Vive en EE.UU. con la Dra. Paz. ¡Olé!", ["Vive en EE.UU. con la Dra. Paz.", "¡Olé!"]),
    ("pt", "Olá. O Dr. Sousa chegou. Tudo bem?", ["Olá.", "O Dr. Sousa chegou.", "Tudo bem?"]),
    ("pt", "A Exma. Sra. D. Maria chegou. Que bom!", ["A Exma. Sra. D. Maria chegou.", "Que bom!"]),
    ("it", "Il Sig. Rossi è qui. Entri!", ["Il Sig. Rossi è qui.", "Entri!"]),
    ("it", "La dott.ssa Neri, pag. 3. Bene.", ["La dott.ssa Neri, pag. 3. Bene."]),
    ("ru", "В 1999 г. он уехал. А потом вернулся.", ["В 1999 г. он уехал.", "А потом вернулся."]),
    ("ru", "Т.е. это стоит 5 млн. Рублей нет.", ["Т.е. это стоит 5 млн. Рублей нет."]),
    ("zh", "你好。你好吗？很好！", ["你好。", "你好吗？", "很好！"]),
    ("zh", "价格是3.5元。“好！”他说。", ["价格是3.5元。", "“好！”", "他说。"]),
    ("ja", "今日は晴れです。「行こう！」と言った。", ["今日は晴れです。", "「行こう！」と言った。"]),
    ("ko", "안녕하세요. 잘 지내세요? 네!", ["안녕하세요.", "잘 지내세요?", "네!"]),
    ("ko", '그는 "가자!"라고 말했다. 그리고 떠났다.', ['그는 "가자!"라고 말했다.', "그리고 떠났다."]),
    (None, "A heading\n\nAnd a text.", ["A heading", "And a text."]),
    (None, "Good. ... Morning.", ["Good. ...", "Morning."]),
    (None, "😀", []),
    (None, "  spaced \t out\ntext ", ["spaced out text"]),
]


@pytest.mark.parametrize(("language", "text", "sentences"), HARD)
def test_each_sentence_once_and_in_order(language: str | None, text: str, sentences: list[str]) -> None:
    assert split_sentences(text, longest=500, language=language) == sentences


@pytest.mark.parametrize("text", [text for _, text, _ in HARD if "U.S." not in text])
def test_the_language_need_not_be_known(text: str) -> None:
    language = next(language for language, each, _ in HARD if each == text)
    assert split_sentences(text, longest=500) == split_sentences(text, longest=500, language=language)


def test_the_sentences_are_the_same_however_the_text_comes() -> None:
    text = " ".join(text for _, text, _ in HARD) + " word" * 300
    at_once = split_sentences(text, longest=120)
    for seed in range(20):
        random_ = random.Random(seed)  # noqa: S311 - places in a test
        splitter, found, at = SentenceSplitter(longest=120), [], 0
        while at < len(text):
            size = 1 if seed == 0 else random_.randint(1, 40)
            found += splitter.push(text[at : at + size])
            at += size
        assert found + splitter.flush() == at_once


def test_a_sentence_is_known_when_the_next_word_is() -> None:
    splitter = SentenceSplitter(longest=500)
    assert splitter.push("Good morning. ") == []
    assert splitter.push("How ") == ["Good morning."]
    assert splitter.push("are you") == []
    assert splitter.flush() == ["How are you"]
    assert splitter.flush() == []
    assert splitter.push("你好。你") == ["你好。"]


def test_text_without_an_end_is_given_out_before_it_grows_too_long() -> None:
    splitter = SentenceSplitter(longest=100)
    found = [sentence for _ in range(100) for sentence in splitter.push("word ")]
    assert sum(map(len, found)) > 350
    assert max(map(len, found)) <= 100


@pytest.mark.parametrize("text", ["word " * 400, "很" * 1300, "one, two; " * 130, "x" * 1201])
def test_nothing_is_too_long_and_nothing_is_lost(text: str) -> None:
    pieces = split_sentences(text, longest=500)
    assert all(0 < len(piece) <= 500 for piece in pieces)
    assert "".join("".join(pieces).split()) == "".join(text.split())


def test_a_long_sentence_is_cut_after_a_clause() -> None:
    text = "a" * 60 + ", " + "b " * 30
    assert split_sentences(text, longest=100)[0] == "a" * 60 + ","


@pytest.mark.parametrize("gap", [" ", "\n", "\u00a0", "\t"])
@pytest.mark.parametrize("text", ["{}Hello there. World.", "Hello{}there. World.", "Hello there.{}World."])
def test_a_long_gap_holds_up_no_sentence(text: str, gap: str) -> None:
    text = text.format(gap * 1000) + " The end is near." * 50
    sentences = split_sentences(text, longest=500)
    assert len(sentences) >= 52
    splitter = SentenceSplitter(longest=500)
    assert [*(sentence for letter in text for sentence in splitter.push(letter)), *splitter.flush()] == sentences


@pytest.mark.parametrize("text", ["好。", "word ", "."])
def test_a_long_text_takes_time_in_proportion(text: str) -> None:
    class Counting(str):
        """Counts the characters that are copied out of it."""

        copied = 0

        def __getitem__(self, key: Any) -> str:
            part = super().__getitem__(key)
            Counting.copied += len(part)
            return part

        def lstrip(self, chars: str | None = None) -> str:
            return self

    whole = Counting("A" + text * (20_000 // len(text)))
    SentenceSplitter(longest=100).push(whole)
    assert len(whole) <= Counting.copied < 200 * len(whole)
