"""Server-sent events as they come over HTTP: the data of each; no I/O of its own."""

import re
from collections.abc import AsyncGenerator, AsyncIterator

_LINE_END = re.compile(rb"\r\n|\n|\r")
"""Just these: `str.splitlines` also cuts at U+2028 and U+0085, which a model's words may hold."""


async def event_data(body: AsyncIterator[bytes], *, longest: int) -> AsyncGenerator[str]:
    """Yield the data of each event; comments and all other fields are left out.

    An event ends with an empty line, or with the body, and may have several lines of data.

    Args:
        body: the answer's body in pieces of any length.
        longest: bytes of one event at most.

    Raises:
        ValueError: an event that is longer.
    """
    data: list[bytes] = []
    async for line in _lines(body, longest):
        if line.startswith(b"data:"):
            data.append(line[5:].removeprefix(b" "))
            if sum(map(len, data)) > longest:
                raise ValueError(f"an event of more than {longest} bytes")
        elif not line and data:
            yield b"\n".join(data).decode("utf-8", "replace")
            data = []
    if data:
        yield b"\n".join(data).decode("utf-8", "replace")


async def _lines(body: AsyncIterator[bytes], longest: int) -> AsyncGenerator[bytes]:
    held = b""
    async for piece in body:
        held += piece
        whole = held[:-1] if held.endswith(b"\r") else held  # its \n may be in the next piece
        *lines, rest = _LINE_END.split(whole)
        held = rest + held[len(whole) :]
        for line in lines:
            yield line
        if len(held) > longest:
            raise ValueError(f"a line of more than {longest} bytes")
    if held:
        yield held.removesuffix(b"\r")
