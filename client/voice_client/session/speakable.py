"""What of a written text is spoken: without markup, pictures and addresses nobody would read aloud."""

import html
import re
import unicodedata

_LINK = re.compile(r"!?\[([^\]\n]*)\](?:\([^)\s]*(?:\s\"[^\"]*\")?\)|\[[^\]\n]*\])")
_TAG_NAMES = (
    "a|b|br|code|div|em|h[1-6]|hr|i|img|li|ol|p|pre|s|span|strong|sub|sup|table|td|th|tr|u|ul"
    "|speak|break|prosody|say-as|emphasis|voice|phoneme|audio"
)
_TAG = re.compile(rf"</?(?:{_TAG_NAMES})(?:\s[^<>\n]{{0,200}})?/?>|<!--.*?-->", re.DOTALL | re.IGNORECASE)
_ROW = re.compile(r"(?m)^\s*\|(.*)\|\s*$")
_ADDRESS = re.compile(
    r"<?\b(?:https?://|ftp://|www\.)(?:[^\s/@<>()\"']*@)?(?:www\.)?([^\s/?#:<>()\"']+)[^\s<>()\"']*>?", re.IGNORECASE
)
_LINE_START = re.compile(
    r"(?m)^\s*(?:#{1,6}\s+|>\s+|[-*•]\s+(?:\[[ xX]\]\s+)?|(?:```|~~~)\w*\s*$|\|?[-:| ]{3,}\|?\s*$)"
)
_EMPHASIS = re.compile(r"(?<![\w*])(\*{1,3}|_{1,3}|~~)(?=\S)(.+?)(?<=\S)\1(?![\w*])", re.DOTALL)
_CODE = re.compile(r"`{1,3}([^`\n]*)`{1,3}")
_ENCLOSED_CJK = range(0x3200, 0x3400)
_SAYABLE = re.compile(r"\w")
_HALF = re.compile("[\ud800-\udfff]")


def speakable(text: str) -> str:
    """Return a text as it is spoken; empty when there is nothing in it to say.

    - Web addresses become their host ("example.com").
    - Markdown and HTML lose their marks and keep their words; entities become characters.
    - Emoji, other pictures and invisible characters go; accents are composed.
    - Space of any kind becomes single spaces.

    Numbers, abbreviations, units and foreign words stay as they are: the model reads them in its language.
    """
    if not _SAYABLE.search(text):
        return ""
    text = html.unescape(_TAG.sub(" ", text)) if "<" in text or "&" in text else text
    if "[" in text:
        text = _LINK.sub(r"\1", text)
    if "://" in text or "www." in text.lower():
        text = _ADDRESS.sub(_host, text)
    text = _LINE_START.sub("", text)
    if "|" in text:
        text = _ROW.sub(lambda row: row[1].replace("|", ","), text)
    text = _CODE.sub(r"\1", text)
    text = _EMPHASIS.sub(r"\2", text)
    if not text.isascii():
        text = unicodedata.normalize("NFC", without_pictures(text))
    text = " ".join("".join(character if character >= " " else " " for character in text).split())
    return text if _SAYABLE.search(text) else ""


def without_pictures(text: str) -> str:
    """Return a text without the characters that have no sound: pictures, what is invisible, halves of characters.

    Each character is judged alone, so a text may be given in pieces; only the two halves of one (as `\\ud83d\\ude00` in
    JSON) have to come together.
    """
    if text.isascii():
        return text
    if _HALF.search(text):
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "ignore")
    return "".join(filter(_is_spoken, text))


def _host(address: re.Match[str]) -> str:
    whole, host = address.group().strip("<>"), address.group(1)
    return host.rstrip(_END_MARKS) + whole[len(whole.rstrip(_END_MARKS)) :]


def _is_spoken(character: str) -> bool:
    if character.isascii():
        return True
    kind = unicodedata.category(character)
    if kind == "So":  # pictures; but not degrees, numero, or enclosed Chinese and Japanese
        return ord(character) < 0x2300 or ord(character) in _ENCLOSED_CJK
    # Invisible: joiners, direction marks, variation selectors, soft hyphens; the frame of keycaps; skin tones.
    return kind not in {"Cf", "Cs", "Co", "Cn"} and not "\ufe00" <= character <= "\ufe0f" and character not in _FRAMES


_END_MARKS = ".,;:!?\u3002\uff0c\uff01\uff1f\u2026"
_FRAMES = {"\u20e3", *map(chr, range(0x1F3FB, 0x1F400))}
