"""Where the text for `voice speak` comes from: the command line, a file, or standard input as it grows."""

import asyncio
import codecs
import contextlib
import os
import sys
import threading
from pathlib import Path

from voice_client.errors import BadInputError
from voice_client.session import Speech, SynthesizerSettings

STDIN = "-"

PAUSE_SECONDS = 0.4
"""When a text that is written meanwhile pauses for so long behind an end mark, the sentence is taken to be over. The
words of a language model come every few hundredths of a second."""

_READ_BYTES = 4096
_READ_AHEAD = 4
_END_MARKS = tuple(".!?:;\u2026\u3002\uff01\uff1f\"'\u201d\u2019\u00bb)")


def text_of(text: str | None, file: Path | None) -> str | None:
    """Return the text that is known from the start; None when it comes from standard input.

    Raises:
        BadInputError: none or both are given, the file cannot be read, or it is no text.
    """
    if (text is None) == (file is None):
        raise BadInputError(
            "give a TEXT, -f FILE, or - for standard input" if text is None else "TEXT and -f exclude each other"
        )
    if text == STDIN or str(file) == STDIN:
        return None
    if file is None:
        if text is not None and any("\ud800" <= character <= "\udfff" for character in text):
            raise BadInputError("the TEXT holds bytes that are no UTF-8 text")
        return text
    longest = SynthesizerSettings().longest_text
    try:
        with file.open(encoding="utf-8-sig") as opened:
            known = opened.read(longest + 1)  # what never ends, such as /dev/zero, would fill the memory
    except OSError as error:
        raise BadInputError(f"{file} cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise BadInputError(f"{file} is no UTF-8 text (at byte {error.start})") from error
    if len(known) > longest:
        raise BadInputError(
            f"{file} has more than {longest} characters, which are spoken at once at most",
            advice="Speak it in parts, or through standard input",
        )
    return known


async def push_stdin(speech: Speech) -> None:
    """Push standard input into a speech as it comes, and end the speech with it.

    Raises:
        BadInputError: it is no UTF-8 text, or too much.
    """
    if sys.stdin is None:
        speech.interrupt()
        raise BadInputError("there is no standard input to read from")
    pieces = _Pieces(sys.stdin.fileno())
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
    except BadInputError:
        speech.interrupt()
        raise
    finally:
        speech.end()


class _Pieces:
    """What a descriptor brings, read by a thread; a few pieces are read ahead.

    The thread is a daemon: a read that never comes back holds up neither Ctrl-C nor the end.
    """

    def __init__(self, descriptor: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._pieces: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._room = threading.Semaphore(_READ_AHEAD)
        threading.Thread(target=self._read, args=(descriptor,), name="voice: standard input", daemon=True).start()

    async def get(self) -> bytes | None:
        """Return the next piece, None at the end; may be cancelled."""
        piece = await self._pieces.get()
        self._room.release()
        return piece

    def _read(self, descriptor: int) -> None:
        piece: bytes | None = b"-"
        while piece:
            self._room.acquire()
            try:
                piece = os.read(descriptor, _READ_BYTES)
            except OSError:
                piece = b""
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody listens any more
                self._loop.call_soon_threadsafe(self._pieces.put_nowait, piece or None)
