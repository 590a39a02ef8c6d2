"""The `vllm serve` command line, from the environment of a SageMaker model.

The rules are those of AWS's own vLLM containers, so that settings move between them unchanged.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from voxtral_bridge.settings import ConfigurationError

PREFIX = "SM_VLLM_"

MODEL_DIRECTORY = Path("/opt/ml/model")
"""Where SageMaker mounts a model's weights, read-only."""

_OWNED = {
    "": "it names no flag",
    "host": "vLLM listens on loopback behind the bridge",
    "port": "set VLLM_PORT",
}
_TELLS_WORDS = ("enable-log-requests", "enable-log-outputs")
_QUIET = ("no-enable-log-requests", "disable-uvicorn-access-log")
"""Given unless the model sets them: requests hold what was said, and /health is asked every second."""


def vllm_command(environment: Mapping[str, str], port: int, model_directory: Path = MODEL_DIRECTORY) -> list[str]:
    """Return the command that serves the model on loopback `port`.

    `SM_VLLM_FOO_BAR=x` becomes `--foo-bar x`; `true` or nothing gives the bare flag, `false` leaves it out, a JSON
    list several values; a value is passed as it is, spaces and quotes included. The model is `SM_VLLM_MODEL`,
    else `model_directory` when it holds anything, else `HF_MODEL_ID`.

    Raises:
        ConfigurationError: with all that stands in the way; values are not shown, they may be secrets.
    """
    problems: list[str] = []
    flags: dict[str, list[str] | None] = {}
    for name in sorted(name for name in environment if name.startswith(PREFIX) and name != PREFIX + "MODEL"):
        flag = name.removeprefix(PREFIX).lower().replace("_", "-")
        values = _values(environment[name])
        if flag in _OWNED:
            problems.append(f"{name} cannot be set: {_OWNED[flag]}")
        elif flag in _TELLS_WORDS and values is not None:
            problems.append(f"{name} would write what was said into the log: remove it")
        else:
            flags[flag] = values
    model = environment.get(PREFIX + "MODEL", "")
    if not model and model_directory.is_dir() and any(model_directory.iterdir()):
        model = str(model_directory)
    model = model or environment.get("HF_MODEL_ID", "")
    if not model:
        problems.append(f"no model: set {PREFIX}MODEL or HF_MODEL_ID, or give the model weights in {model_directory}")
    if problems:
        raise ConfigurationError(problems)
    for flag in _QUIET:
        flags.setdefault(flag, [])
    command = ["vllm", "serve", model, "--host", "127.0.0.1", "--port", str(port)]
    for flag, values in flags.items():
        if values is not None:
            command += [f"--{flag}", *values]
    return command


def _values(text: str) -> list[str] | None:
    """Return the values behind a flag, None to leave the flag out."""
    if text.lower() == "false":
        return None
    if text.lower() in ("", "true"):
        return []
    items = [text]
    if text.startswith("["):
        with suppress(ValueError):
            items = json.loads(text)
    return [item if isinstance(item, str) else json.dumps(item) for item in items]
