"""`python -m voice_local.containers.stand_in_omni [serve]`, in the place of the vLLM-Omni container's entrypoint.

Environment:
    SM_VLLM_MODEL: the model, as for the real container; else HF_MODEL_ID.
    SAGEMAKER_BIND_TO_PORT: port, 8080 by default.
    VOICE_LOCAL_TTS_ENGINE: `piper` (default) or `deterministic`.
    VOICE_LOCAL_PIPER_VOICE: path of a Piper voice (`.onnx` with its `.onnx.json` beside it) of one's own.
"""

import asyncio
import logging
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from voice_local.containers.serving import log_to_stderr, server_for
from voice_local.containers.stand_in_omni.limits import SpeechLimits
from voice_local.containers.stand_in_omni.server import omni_app
from voice_local.containers.stand_in_omni.session import SpeechService
from voice_local.engines.deterministic import ToneVoice
from voice_local.engines.interfaces import EngineUnavailableError, Voice

_log = logging.getLogger("voice_local.containers.stand_in_omni")


def main(environment: Mapping[str, str]) -> int:
    """Serve until SIGTERM; return the exit code."""
    log_to_stderr()
    problems = []
    model = environment.get("SM_VLLM_MODEL") or environment.get("HF_MODEL_ID")
    if not model:
        problems.append("no model is named: set SM_VLLM_MODEL in the model's environment")
    port = environment.get("SAGEMAKER_BIND_TO_PORT", "8080")
    if not port.isdecimal():
        problems.append(f"SAGEMAKER_BIND_TO_PORT must be a port number, not {port!r}")
    try:
        voice = choose_voice(environment)
    except EngineUnavailableError as problem:
        problems.append(str(problem))
    if problems:
        _log.error("Cannot start: %s", "; ".join(problems))
        return 2
    assert model  # noqa: S101 - checked above
    _log.info("In the place of vLLM-Omni 0.26: %s", model)
    return asyncio.run(serve(SpeechService(model=model, voice=voice, limits=SpeechLimits()), int(port)))


async def serve(service: SpeechService, port: int) -> int:
    """Warm the voice, then listen: who gets an answer on the port gets speech without waiting."""
    try:
        await service.voice.start()
    except EngineUnavailableError as problem:
        _log.error("Cannot start: %s", problem)
        return 1
    server = server_for(omni_app(service), port)
    await server.serve()
    return 0 if server.started else 1


def choose_voice(environment: Mapping[str, str]) -> Voice:
    """Return the engine that the environment names, not yet started.

    Raises:
        EngineUnavailableError: there is no such engine, or its extra is not installed.
    """
    name = environment.get("VOICE_LOCAL_TTS_ENGINE", "piper")
    if name == "deterministic":
        return ToneVoice()
    if name == "piper":
        from voice_local.engines.piper.client import PiperVoice  # noqa: PLC0415 - needs soxr, only here

        model = environment.get("VOICE_LOCAL_PIPER_VOICE")
        return PiperVoice(voice_model=Path(model) if model else None)
    raise EngineUnavailableError(f"VOICE_LOCAL_TTS_ENGINE must be piper or deterministic, not {name!r}")


if __name__ == "__main__":
    sys.exit(main(os.environ))
