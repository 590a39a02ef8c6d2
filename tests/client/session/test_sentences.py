"""Sentences of the ten languages, however their text comes."""

# ruff: noqa: RUF001
import random

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
    ("en", "See fig. 3 and eq. 4. Then stop.", ["See fig. 3 and eq. 4. Then stop."]),
    ("en", "Great! 😀 How are you? 👨‍👩‍👧🇩🇪 Fine.", ["Great!", "How are you?", "Fine."]),
    ("en", "Intro.\n# Title\nText.", ["Intro.", "Title Text."]),
    ("en", "Mail j.doe@x.io. Pay $3.50 at 5:30. Done.", ["Mail j.doe@x.io.", "Pay $3.50 at 5:30.", "Done."]),
    ("de", "Siehe Kap. 5 und Nr. 6 usw. Das war es.", ["Siehe Kap. 5 und Nr. 6 usw. Das war es."]),
    ("es", "—¡Alto! —gritó él. Y se fue.", ["—¡Alto! —gritó él.", "Y se fue."]),
    ("pt", "A Profª. Ana e a Srª. Lia. Fim.", ["A Profª. Ana e a Srª. Lia.", "Fim."]),
    ("ru", "См. рис. 3 и табл. 2. Потом конец.", ["См. рис. 3 и табл. 2. Потом конец."]),
    ("zh", "他走了。AI很好，2024年。", ["他走了。", "AI很好，2024年。"]),
    ("ja", "東京（日本。）です。えっ！？本当？", ["東京（日本。）です。", "えっ！？", "本当？"]),
    (None, "שלום עולם. מה שלומך? טוב!", ["שלום עולם.", "מה שלומך?", "טוב!"]),
    (None, "Hello. 你好。How are you? Привет. Ok.", ["Hello.", "你好。", "How are you?", "Привет.", "Ok."]),
    (None, "e\u0301te\u0301. C\u0327a alors. Bon.", ["été.", "Ça alors.", "Bon."]),
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
    looked_at = 0

    class Counting(SentenceSplitter):
        def _sentence_end(self, text: str, *, whole: bool) -> int | None:
            nonlocal looked_at
            looked_at += len(text)
            return super()._sentence_end(text, whole=whole)

    whole = "A" + text * (20_000 // len(text))
    Counting(longest=100).push(whole)
    assert 200 < looked_at < 200 * len(whole)


WRITTEN = """Word a 3.14 3. Dr. U.S. - . ! ? … 。 ！ ， , — “ ” " 「 」 ( ) ** ` www.x.y me@x.io 😀 👨‍👩‍👧 🇩🇪 e\u0301
שלום 你 の 가 Привет т.е. <b> &amp; \x00 2024年 \u00ad \u200b \ud83d \ude00"""
NASTY = [*WRITTEN.split(), "\n", "\n\n", "\u2028", "x" * 30]


def test_nothing_depends_on_how_a_text_comes_and_no_sentence_is_too_long() -> None:
    for seed in range(150):
        random_ = random.Random(seed)  # noqa: S311 - texts of a test
        some = random_.sample(NASTY, random_.randint(3, 12))
        text = "".join(random_.choice(some) + random_.choice(["", " "]) for _ in range(60))
        longest, language = random_.choice([20, 100, 500]), random_.choice([None, "en", "de", "ru", "zh", "ja"])
        at_once = split_sentences(text, longest=longest, language=language)
        assert all(0 < len(sentence) <= longest for sentence in at_once)
        splitter = SentenceSplitter(longest=longest, language=language)
        letters = [*(found for letter in text for found in splitter.push(letter)), *splitter.flush()]
        assert letters == at_once, f"seed {seed}"


def test_a_character_that_comes_in_halves_is_one() -> None:
    # JSON writes it as two escapes, which a stream of tokens may part.
    splitter = SentenceSplitter(longest=500)
    pieces = ("A fish: \ud867", "\ude3d魚. Half: \ud83d, ", "\ude00. Well")
    found = [sentence for piece in pieces for sentence in splitter.push(piece)]
    assert found + splitter.flush() == ["A fish: 𩸽魚.", "Half: , .", "Well"]
