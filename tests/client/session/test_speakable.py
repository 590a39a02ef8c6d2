"""What of a text is read aloud."""

import pytest

from voice_client.session.speakable import speakable


@pytest.mark.parametrize(
    ("written", "spoken"),
    [
        ("Well 😀 done 👍🏽 👩‍👩‍👧 ❤️!", "Well done !"),
        ("Call 5️⃣ at 20 °C, № 5, ㎏.", "Call 5 at 20 °C, № 5, ㎏."),
        ("See https://www.example.com/a/b?c=d#e, or www.test.org.", "See example.com, or test.org."),
        ("<https://user:secret@example.com/x>!", "example.com!"),
        ("Mail me@example.com.", "Mail me@example.com."),
        ("**Bold**, *it*, __strong__, ~~gone~~ and `code`.", "Bold, it, strong, gone and code."),
        ("snake_case_name and 2*3*4 stay.", "snake_case_name and 2*3*4 stay."),
        ("# Title\n> quoted\n- item", "Title quoted item"),
        ("A [link](http://a.b/c) and ![picture](x.png).", "A link and picture."),
        ("A [reference][1], an [option] and a note [2].", "A reference, an [option] and a note [2]."),
        ("- [x] done\n- [ ] open\n~~~\ncode\n~~~", "done open code"),
        ("| a | b |\n|---|---|", "a , b"),
        ("Tom &amp; <b>Jerry</b><br/>3 < 4", "Tom & Jerry 3 < 4"),
        ('<speak>Hi <break time="1s"/>there</speak>', "Hi there"),
        ("soft\u00adhyphen, zero\u200bwidth, \u202eturned\u202c, nul\x00l", "softhyphen, zerowidth, turned, nul l"),
        ("cafe\u0301", "caf\u00e9"),
        ("1,234.56 € is 50 % of $2,469.12 (approx.)", "1,234.56 € is 50 % of $2,469.12 (approx.)"),
        ("Mixed 中文 и кириллица", "Mixed 中文 и кириллица"),
        ("a \u00a0 b\t\n c", "a b c"),
        ("😀🎉", ""),
        ("...!?", ""),
        ("```\n```", ""),
    ],
)
def test_marks_go_and_words_stay(written: str, spoken: str) -> None:
    assert speakable(written) == spoken
