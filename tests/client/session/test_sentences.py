"""Sentences of the ten languages."""

# ruff: noqa: RUF001
import pytest

from voice_client.session.sentences import split_sentences


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("One. Two! Three? Four", ["One.", "Two!", "Three?", "Four"]),
        ("Dr. Smith paid 3.14 dollars. Then he left.", ["Dr. Smith paid 3.14 dollars.", "Then he left."]),
        ("J. R. Smith came. He saw.", ["J. R. Smith came.", "He saw."]),
        ("Look at https://example.com/?a=b. Well?", ["Look at example.com.", "Well?"]),
        ('"Stop!" he said. "Why?"', ['"Stop!" he said.', '"Why?"']),
        ("Wait... what? No way...", ["Wait... what?", "No way..."]),
        ("Am 3. Mai kam z.B. Herr Dr. Kraus. Er blieb.", ["Am 3. Mai kam z.B. Herr Dr. Kraus.", "Er blieb."]),
        ("«Bonjour !» dit M. Dupont. Puis il partit.", ["«Bonjour !» dit M. Dupont.", "Puis il partit."]),
        ("¿Qué tal? ¡Muy bien! La Sra. Gil llegó.", ["¿Qué tal?", "¡Muy bien!", "La Sra. Gil llegó."]),
        ("Olá. O Dr. Sousa chegou. Tudo bem?", ["Olá.", "O Dr. Sousa chegou.", "Tudo bem?"]),
        ("Il Sig. Rossi è qui. Entri!", ["Il Sig. Rossi è qui.", "Entri!"]),
        ("В 1999 г. он уехал. А потом вернулся.", ["В 1999 г. он уехал.", "А потом вернулся."]),
        ("你好。你好吗？很好！", ["你好。", "你好吗？", "很好！"]),
        ("今日は晴れです。「行こう！」と言った。", ["今日は晴れです。", "「行こう！」と言った。"]),
        ("안녕하세요. 잘 지내세요? 네!", ["안녕하세요.", "잘 지내세요?", "네!"]),
        ("A heading\n\nAnd a text.", ["A heading", "And a text."]),
        ("Good. ... Morning.", ["Good. ...", "Morning."]),
        ("😀", []),
        ("  spaced \t out\ntext ", ["spaced out text"]),
    ],
)
def test_each_sentence_once_and_in_order(text: str, sentences: list[str]) -> None:
    assert split_sentences(text, longest=500) == sentences


@pytest.mark.parametrize("text", ["word " * 400, "很" * 1300, "one, two; " * 130, "x" * 1201])
def test_nothing_is_too_long_and_nothing_is_lost(text: str) -> None:
    pieces = split_sentences(text, longest=500)
    assert all(0 < len(piece) <= 500 for piece in pieces)
    assert "".join("".join(pieces).split()) == "".join(text.split())


def test_a_long_sentence_is_cut_after_a_clause() -> None:
    text = "a" * 60 + ", " + "b " * 30
    assert split_sentences(text, longest=100)[0] == "a" * 60 + ","
