"""Models of the user's own in the place of those that come with the extras."""

from collections.abc import Callable
from pathlib import Path

from voice_local.engines.interfaces import EngineUnavailableError
from voice_local.engines.piper.voice_file import check_voice_file
from voice_local.engines.whisper_weights import whisper_weights

WHISPER_MODEL = "VOICE_LOCAL_WHISPER_MODEL"
"""Variable by which the stand-in for vLLM is told of a CTranslate2 Whisper model: a folder."""

PIPER_VOICE = "VOICE_LOCAL_PIPER_VOICE"
"""Variable by which the stand-in for vLLM-Omni is told of a Piper voice: its `.onnx` file."""


def own_models(whisper_model: Path | None, piper_voice: Path | None) -> dict[str, str]:
    """Return the variables that make the containers use models of one's own, absolute paths in them.

    Raises:
        EngineUnavailableError: one of them is no model; all that is wrong is in the message.
    """
    checks: list[tuple[str, Path | None, Callable[[Path], object]]] = [
        (WHISPER_MODEL, whisper_model, whisper_weights),
        (PIPER_VOICE, piper_voice, check_voice_file),
    ]
    variables: dict[str, str] = {}
    problems: list[str] = []
    for variable, path, check in checks:
        if path is None:
            continue
        try:
            check(path)
        except EngineUnavailableError as problem:
            problems.append(str(problem))
        variables[variable] = str(path.resolve())
    if problems:
        raise EngineUnavailableError("; ".join(problems))
    return variables
