"""Speech faster or slower at the same pitch, while it streams.

vLLM-Omni refuses `speed` together with streamed audio, so the pace is changed here, by FFmpeg's `atempo`.
"""

from collections.abc import Iterator
from itertools import repeat
from typing import Protocol

import av
import numpy as np

SLOWEST, FASTEST = 0.25, 4.0
"""The range of the server's own `speed`."""

_SLOWEST_STEP = 0.5
_FASTEST_STEP = 2.0
"""What `atempo` does at once; more is several in a row. It takes no less than the one, and above the other it skips
samples instead of blending them."""


class Pace(Protocol):
    """Changes the pace of one stretch of PCM16, chunk by chunk."""

    def change(self, pcm: bytes) -> bytes:
        """Return what can be played by now."""
        ...

    def finish(self) -> bytes:
        """Return the rest."""
        ...


class Unchanged:
    """Leaves the pace as it is."""

    def change(self, pcm: bytes) -> bytes:
        """Return the chunk."""
        return pcm

    def finish(self) -> bytes:
        """Return nothing: nothing is held back."""
        return b""


class Tempo:
    """Changes the pace of one stretch of PCM16, mono; give it chunks in order, then `finish`.

    Args:
        speed: 2.0 is twice as fast; `SLOWEST` to `FASTEST`.
        rate: samples per second.
    """

    def __init__(self, speed: float, *, rate: int) -> None:
        self._rate = rate
        graph = av.filter.Graph()
        last = graph.add_abuffer(sample_rate=rate, format="s16", layout="mono")
        steps = [*_steps(speed)]
        filters = [graph.add("atempo", f"{step:.9f}") for step in steps]
        for following in (
            *filters,
            graph.add("aformat", "sample_fmts=s16:channel_layouts=mono"),
            graph.add("abuffersink"),
        ):
            last.link_to(following)
            last = following
        graph.configure()
        self._graph = graph
        self._samples = 0

    def change(self, pcm: bytes) -> bytes:
        """Return what can be played by now, often less than what went in; whole samples."""
        if not pcm:
            return b""
        frame = av.AudioFrame.from_ndarray(np.frombuffer(pcm, "<i2").reshape(1, -1), format="s16", layout="mono")
        frame.sample_rate = self._rate
        frame.pts = self._samples
        self._samples += frame.samples
        self._graph.push(frame)
        return b"".join(self._pull())

    def finish(self) -> bytes:
        """Return the rest."""
        if not self._samples:
            return b""
        self._graph.push(None)
        return b"".join(self._pull())

    def _pull(self) -> Iterator[bytes]:
        while True:
            try:
                frame = self._graph.pull()
            except (av.BlockingIOError, av.EOFError):
                return
            yield frame.to_ndarray().astype("<i2").tobytes()


def _steps(speed: float) -> Iterator[float]:
    """Return factors that `atempo` takes and whose product is the speed."""
    limit = _FASTEST_STEP if speed > 1 else _SLOWEST_STEP
    left = speed
    for step in repeat(limit):
        if (left <= limit) if speed > 1 else (left >= limit):
            break
        yield step
        left /= step
    yield left
