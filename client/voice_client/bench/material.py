"""What callers say and have said: recordings with their texts, and texts to be spoken."""

from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from voice_client.audio import PcmReader
from voice_client.audio.decode import decode
from voice_client.audio.pcm import rechunk, to_pcm16
from voice_client.audio.resample import resample
from voice_client.errors import BadInputError
from voice_client.protocol.realtime import BYTES_PER_SECOND, SAMPLE_RATE_HZ

HERE = Path(__file__).parent
SHIPPED_RECORDINGS = HERE / "recordings"
"""Five clips of *Sense and Sensibility*, read for LibriVox (public domain): 22 s, 76 words, one reader."""
SHIPPED_TEXTS = HERE / "texts.txt"


@dataclass(frozen=True, slots=True)
class Recording:
    """Speech and what is said in it."""

    name: str
    pcm: bytes = field(repr=False)
    """PCM16 little-endian, mono, 16 kHz."""
    text: str = field(repr=False)

    @property
    def seconds(self) -> float:
        """Its length."""
        return len(self.pcm) / BYTES_PER_SECOND


class PcmSource:
    """A recording as a source of audio: it is in memory, so that reading it costs a measurement nothing."""

    def __init__(self, recording: Recording) -> None:
        self._pcm = recording.pcm

    @property
    def live(self) -> bool:
        """It is there all at once and wants to be paced."""
        return False

    @asynccontextmanager
    async def open(self, *, rate: int, chunk_bytes: int) -> AsyncGenerator[PcmReader]:
        """See `AudioSource.open`; only 16 kHz can be asked for."""
        if rate != SAMPLE_RATE_HZ:
            raise BadInputError(f"recordings are held at {SAMPLE_RATE_HZ} Hz, not at {rate} Hz")
        yield _Chunks(rechunk([self._pcm], chunk_bytes))


class _Chunks:
    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        if (chunk := next(self._chunks, None)) is None:
            raise StopAsyncIteration
        return chunk


def load_recordings(folder: Path | None) -> tuple[Recording, ...]:
    """Read all recordings of a folder, in order of their names: NAME.wav (or FLAC, MP3, ...) beside NAME.txt.

    Args:
        folder: where they are; None takes those of the package.

    Raises:
        BadInputError: no folder, nothing in it, a file without its other half, no words, no audio; all together.
    """
    folder = folder or SHIPPED_RECORDINGS
    if not folder.is_dir():
        raise BadInputError(f"there is no folder {folder} with recordings")
    texts = {path.stem: path for path in sorted(folder.glob("*.txt"))}
    sounds = {path.stem: path for path in sorted(folder.iterdir()) if path.is_file() and _may_be_sound(path)}
    problems = [f"{sounds[name].name} has no {name}.txt" for name in sounds.keys() - texts.keys()]
    problems += [f"{texts[name].name} has no recording" for name in texts.keys() - sounds.keys()]
    found = []
    for name in sorted(sounds.keys() & texts.keys()):
        try:
            found.append(_recording(name, sounds[name], texts[name]))
        except BadInputError as error:
            problems.append(error.message)
    if not problems and not found:
        problems.append(f"the folder {folder} has no recordings")
    if problems:
        raise BadInputError(
            "; ".join(sorted(problems)), advice="A folder of recordings has NAME.wav and NAME.txt for each of them"
        )
    return tuple(found)


def load_texts(path: Path | None) -> tuple[str, ...]:
    """Read texts to be spoken, one a line; empty lines count for nothing.

    Raises:
        BadInputError: no such file, not UTF-8, or no text in it.
    """
    path = path or SHIPPED_TEXTS
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise BadInputError(f"{path} cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise BadInputError(f"{path} is no UTF-8 text") from error
    texts = tuple(line.strip() for line in lines if line.strip())
    if not texts:
        raise BadInputError(f"{path} has no text in it")
    return texts


def mean_seconds(recordings: Sequence[Recording]) -> float:
    """Return the mean length of recordings."""
    return sum(recording.seconds for recording in recordings) / len(recordings)


def _may_be_sound(path: Path) -> bool:
    return path.suffix.lower() not in {".txt", ".md", ".json"} and not path.name.startswith(".")


def _recording(name: str, sound: Path, text_file: Path) -> Recording:
    try:
        text = text_file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise BadInputError(f"{text_file.name} cannot be read as UTF-8") from error
    if not text:
        raise BadInputError(f"{text_file.name} is empty")
    with sound.open("rb") as file:
        pcm = b"".join(map(to_pcm16, resample(decode(file, sound.name, None), SAMPLE_RATE_HZ)))
    return Recording(name, pcm, text)
