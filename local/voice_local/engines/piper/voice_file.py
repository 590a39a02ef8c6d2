"""A Piper voice of one's own: the model and the description beside it."""

import json
from pathlib import Path

from voice_local.engines.interfaces import EngineUnavailableError


def check_voice_file(model: Path) -> None:
    """Look whether a path names a Piper voice, without loading it.

    Raises:
        EngineUnavailableError: a file is missing, or the description is none; the message says what to do.
    """
    if not model.is_file():
        raise EngineUnavailableError(f"There is no Piper voice at {model} (VOICE_LOCAL_PIPER_VOICE)")
    description = model.with_name(model.name + ".json")
    try:
        audio = json.loads(description.read_text(encoding="utf-8"))["audio"]
        sample_rate = int(audio["sample_rate"])
    except OSError as problem:
        raise EngineUnavailableError(
            f"{model} has no description {description.name} beside it: a Piper voice is both files"
        ) from problem
    except (ValueError, KeyError, TypeError) as problem:
        raise EngineUnavailableError(f"{description} is no description of a Piper voice ({problem!r})") from problem
    if sample_rate <= 0:
        raise EngineUnavailableError(f"{description} gives the sample rate {sample_rate}, which is none")
