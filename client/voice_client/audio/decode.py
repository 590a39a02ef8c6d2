"""Decodes any audio file, or the sound track of a video, to mono float samples, block by block."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, Protocol

import av
import numpy as np
from av.audio.frame import AudioFrame
from av.audio.stream import AudioStream
from av.container import InputContainer
from av.error import FFmpegError, InvalidDataError
from numpy.typing import NDArray

from voice_client.audio.pcm import Float32Samples
from voice_client.audio.raw import ENCODINGS, RawFormat
from voice_client.errors import BadInputError

ALLOWED_FORMATS = (
    "wav,w64,flac,mp3,aac,mov,mp4,ogg,matroska,webm,aiff,au,caf,asf,avi,flv,mpegts,mpeg,amr,ac3,eac3,dts,ape,tta,wv,mpc,"
    "nistsphere,voc"
)
"""FFmpeg's names of the containers that are opened. Playlists and text formats are left out: they make FFmpeg open
other files and addresses, or draw text as a picture."""

LOWEST_RATE_HZ = 1_000
"""Below this a header is damaged: at a rate of 1 Hz a file of some kilobytes would be hours of audio."""

DAMAGED_PACKETS_ALLOWED = 100
"""Damaged packets that are skipped before a file is given up. A few are usual at the cut edges of MP3 and AAC."""


class Readable(Protocol):
    """A stream of bytes; unlike a file it need not be seekable."""

    def read(self, size: int, /) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Block:
    """Decoded sound: mono samples, full scale 1.0, shape (samples,)."""

    samples: Float32Samples
    rate: int
    """In Hz. A chained stream can change it from one block to the next."""


def decode(source: BinaryIO | Readable, name: str, raw: RawFormat | None = None) -> Iterator[Block]:
    """Decode the first sound track of a file.

    Args:
        source: the file's bytes; not closed here.
        name: what error messages call it.
        raw: what the bytes mean when there is no header; None finds the format out.

    Raises:
        BadInputError: not audio, no sound track, damaged, or without a single sample.
    """
    with _open(source, name, raw) as container:
        stream = _sound_track(container, name)
        empty = True
        for frame in _frames(container, stream, name):
            samples = _mono(frame, name)
            if samples.size:
                empty = False
                yield Block(samples, frame.sample_rate)
        if empty and not hasattr(source, "seek") and container.format.name.startswith("mov"):
            raise BadInputError(
                f"{name} is an MP4 or M4A with its index at the end, and a pipe cannot go back",
                advice="Give the file itself, or put the index in front: ffmpeg -i IN -c copy -movflags +faststart OUT",
            )
        if empty:
            raise BadInputError(f"{name} has a sound track without a single sample")


def duration(source: BinaryIO | Readable, name: str) -> float | None:
    """Return how long a file says it is, in seconds; None when it does not say.

    Raises:
        BadInputError: not audio, or no sound track.
    """
    with _open(source, name, None) as container:
        _sound_track(container, name)
        return container.duration / av.time_base if container.duration is not None and container.duration > 0 else None


def _open(source: BinaryIO | Readable, name: str, raw: RawFormat | None) -> InputContainer:
    options = {"format_whitelist": ALLOWED_FORMATS}
    if raw is not None:
        layout = {1: "mono", 2: "stereo"}.get(raw.channels, f"{raw.channels}C")
        options = {"format_whitelist": ",".join(ENCODINGS), "sample_rate": str(raw.rate), "ch_layout": layout}
    try:
        return av.open(source, mode="r", format=None if raw is None else raw.encoding, options=options)
    except (FFmpegError, ValueError) as error:
        raise BadInputError(
            f"{name} is not audio that can be read: {_reason(error)}",
            advice="Give a file with sound in it: WAV, FLAC, MP3, M4A, OGG, Opus, WebM, AIFF, or a video",
        ) from error


def _sound_track(container: InputContainer, name: str) -> AudioStream:
    if not container.streams.audio:
        raise BadInputError(f"{name} is a {container.format.name} file without a sound track")
    track = container.streams.audio[0]
    if track.rate and track.rate < LOWEST_RATE_HZ:
        raise BadInputError(f"{name} claims {track.rate} samples a second, which no recording has")
    return track


def _frames(container: InputContainer, stream: AudioStream, name: str) -> Iterator[AudioFrame]:
    damaged = 0
    packets = container.demux(stream)
    while True:
        try:
            packet = next(packets, None)
            if packet is None:
                return
            frames = stream.decode(packet)
        except InvalidDataError as error:
            damaged += 1
            if damaged > DAMAGED_PACKETS_ALLOWED:
                raise BadInputError(f"{name} is damaged: {damaged} packets cannot be decoded") from error
            continue
        except FFmpegError as error:
            raise BadInputError(f"{name} cannot be decoded: {_reason(error)}") from error
        yield from frames


def _mono(frame: AudioFrame, name: str) -> Float32Samples:
    """Return a frame as mono float samples.

    The mix is done here, as the mean of the channels without the subwoofer: FFmpeg's own mix of float channels adds
    3 dB to what is the same on both sides and clips it.
    """
    channels = _full_scale_one(_by_channel(frame), name)
    kept = [index for index, channel in enumerate(frame.layout.channels) if channel.name != "LFE"]
    mixed: Float32Samples = channels[kept or slice(None)].mean(axis=0, dtype=np.float32)
    return mixed


def _by_channel(frame: AudioFrame) -> NDArray[np.generic]:
    array = frame.to_ndarray()
    return array if frame.format.is_planar else array.reshape(-1, frame.layout.nb_channels).T


def _full_scale_one(samples: NDArray[np.generic], name: str) -> Float32Samples:
    """Scale samples of any type so that full scale is 1.0."""
    kind, bits = samples.dtype.kind, samples.dtype.itemsize * 8
    if kind == "f":
        floats: Float32Samples = samples.astype(np.float32)
        return floats
    if kind == "i":
        return (samples.astype(np.float64) / 2.0 ** (bits - 1)).astype(np.float32)
    if kind == "u":
        middle = 2.0 ** (bits - 1)
        return ((samples.astype(np.float64) - middle) / middle).astype(np.float32)
    raise BadInputError(f"{name} has samples of the unknown type {samples.dtype}")


def _reason(error: Exception) -> str:
    reason = getattr(error, "strerror", None) or str(error)
    return str(reason)[:1].lower() + str(reason)[1:]
