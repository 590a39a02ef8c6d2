"""Subtitles: a turn's text in pieces that can be read, with the times they are spoken at (SubRip and WebVTT)."""

import textwrap
from collections.abc import Iterable
from dataclasses import dataclass

LINE_CHARACTERS = 42
"""Longest line, as broadcasters have it."""
LINES = 2


@dataclass(frozen=True, slots=True)
class Caption:
    """One piece of text and when it is shown, in seconds."""

    start: float
    end: float
    text: str
    """One or two lines."""


def captions(text: str, *, start: float, end: float) -> list[Caption]:
    """Cut what was said between two moments into captions of two lines.

    The model tells no times of words, so inside a turn time is given out by characters, which is right to about a
    second; where a turn begins and ends is measured.
    """
    lines = textwrap.wrap(" ".join(text.split()), LINE_CHARACTERS)
    blocks = [lines[at : at + LINES] for at in range(0, len(lines), LINES)]
    characters = sum(len(line) for line in lines)
    found = []
    at = 0
    for block in blocks:
        begin = start + (end - start) * at / characters
        at += sum(len(line) for line in block)
        found.append(Caption(begin, start + (end - start) * at / characters, "\n".join(block)))
    return found


def srt(pieces: Iterable[Caption]) -> str:
    """Write captions as SubRip."""
    return "".join(
        f"{number}\n{_time(piece.start, ',')} --> {_time(piece.end, ',')}\n{piece.text}\n\n"
        for number, piece in enumerate(pieces, 1)
    )


def vtt(pieces: Iterable[Caption]) -> str:
    """Write captions as WebVTT, in which `&` and `<` have a meaning of their own and are escaped."""
    cues = "".join(
        f"{_time(piece.start, '.')} --> {_time(piece.end, '.')}\n{_escaped(piece.text)}\n\n" for piece in pieces
    )
    return f"WEBVTT\n\n{cues}"


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _time(seconds: float, mark: str) -> str:
    milliseconds = round(seconds * 1000)
    hours, rest = divmod(milliseconds, 3_600_000)
    minutes, rest = divmod(rest, 60_000)
    return f"{hours:02}:{minutes:02}:{rest // 1000:02}{mark}{rest % 1000:03}"
