"""A whole utterance as a file, for the clients that do not stream."""

import io
import wave
from dataclasses import dataclass
from typing import Literal

import av
import numpy as np

from voice_local.engines.interfaces import TTS_SAMPLE_RATE

type ResponseFormat = Literal["wav", "pcm", "flac", "mp3", "opus"]


@dataclass(frozen=True, slots=True)
class _Container:
    name: str
    codec: Literal["libmp3lame", "flac", "libopus"]
    options: dict[str, str]


_CONTAINERS = {
    # Bare frames, as the real server sends: no ID3 tag, no Xing frame.
    "mp3": _Container("mp3", "libmp3lame", {"id3v2_version": "0", "write_xing": "0"}),
    "flac": _Container("flac", "flac", {}),
    "opus": _Container("ogg", "libopus", {}),
}


def encode(pcm: bytes, response_format: ResponseFormat) -> bytes:
    """Return PCM16 (24 kHz, mono) as a file of that format; `pcm` stays as it is."""
    if response_format == "pcm":
        return pcm
    target = io.BytesIO()
    if response_format == "wav":
        with wave.open(target, "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(2)
            file.setframerate(TTS_SAMPLE_RATE)
            file.writeframes(pcm)
        return target.getvalue()
    container = _CONTAINERS[response_format]
    with av.open(target, "w", format=container.name, options=container.options) as file:
        stream = file.add_stream(container.codec, rate=TTS_SAMPLE_RATE, layout="mono")
        if not isinstance(stream, av.AudioStream):
            raise TypeError(f"{container.codec} is no audio codec")
        # Text without a word, an emoji for one, gives no sound; that is an empty file and no failure.
        if pcm:
            samples = np.frombuffer(pcm, dtype="<i2")[np.newaxis]
            frame = av.AudioFrame.from_ndarray(samples, format="s16", layout="mono")
            frame.sample_rate = TTS_SAMPLE_RATE
            file.mux(stream.encode(frame))
        file.mux(stream.encode(None))
    return target.getvalue()
