"""Where the text for `voice speak` comes from: the command line, a file, or standard input as it grows."""

import asyncio
import codecs
import contextlib
import os
import sys
import threading
from pathlib import Path

from voice_client.errors import BadInputError
from voice_client.session import Speech

STDIN = "-"

PAUSE_SECONDS = 0.4
"""When a text that is written meanwhile pauses for so long behind an end mark, the sentence is taken to be over. The
words of a language model come every few hundredths of a second."""

_READ_BYTES = 4096
_END_MARKS = tuple(".!?:;\u2026\u3002\uff01\uff1f\"'\u201d\u2019\u00bb)")


def text_of(text: str | None, file: Path | None) -> str | None:
    """Return the text that is known from the start; None when it comes from standard input.

    Raises:
        BadInputError: none or both are given, or the file cannot be read.
    """
    if (text is None) == (file is None):
        raise BadInputError(
            "give a TEXT, -f FILE, or - for standard input" if text is None else "TEXT and -f exclude each other"
        )
    if text == STDIN or str(file) == STDIN:
        return None
    if file is None:
        return text
    try:
        return file.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise BadInputError(f"{file} cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise BadInputError(f"{file} is no UTF-8 text (at byte {error.start})") from error


async def push_stdin(speech: Speech) -> None:
    """Push standard input into a speech as it comes, and end the speech with it.

    Raises:
        BadInputError: it is no UTF-8 text.
    """
    pieces = _read_stdin()
    decoder = codecs.getincrementaldecoder("utf-8")()
    whole_lines = sys.stdin.isatty()  # what is typed is meant when Enter is pressed
    behind_mark = False
    try:
        while True:
            piece: bytes | None = b""
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(PAUSE_SECONDS if behind_mark else None):
                    piece = await pieces.get()
            if piece is None:
                speech.push_text(decoder.decode(b"", final=True))
                return
            text = decoder.decode(piece)
            if not piece or (whole_lines and text.endswith("\n")):
                speech.push_text(text)
                speech.flush()
                behind_mark = False
                continue
            speech.push_text(text)
            if text.strip():
                behind_mark = text.rstrip().endswith(_END_MARKS)
    except UnicodeDecodeError as error:
        speech.interrupt()
        raise BadInputError("standard input is no UTF-8 text") from error
    finally:
        speech.end()


def _read_stdin() -> "asyncio.Queue[bytes | None]":
    """Return a queue that a thread fills; None is the end.

    The thread is a daemon that reads the descriptor: a read that never comes back holds up neither Ctrl-C nor the end.
    """
    loop = asyncio.get_running_loop()
    pieces: asyncio.Queue[bytes | None] = asyncio.Queue()

    def read() -> None:
        piece: bytes | None = b"-"
        while piece:
            try:
                piece = os.read(sys.stdin.fileno(), _READ_BYTES)
            except OSError:
                piece = b""
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody listens any more
                loop.call_soon_threadsafe(pieces.put_nowait, piece or None)

    threading.Thread(target=read, name="voice: standard input", daemon=True).start()
    return pieces
