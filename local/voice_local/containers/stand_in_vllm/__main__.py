"""`python -m voice_local.containers.stand_in_vllm serve MODEL --port N ...`, in the place of `vllm serve`.

Environment:
    VOICE_LOCAL_STT_ENGINE: `whisper` (default), `whisper-tiny` (quicker, English only) or `deterministic`.
    VOICE_LOCAL_VLLM_RELEASE: `0.27` (default) or `0.17`.
    VOICE_LOCAL_WHISPER_MODEL: folder of a CTranslate2 Whisper model of one's own.
    VOICE_LOCAL_STT_LANGUAGE: code of the spoken language, `en` by default.
"""

import logging
import os
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from voice_local.containers.serving import log_to_stderr, server_for
from voice_local.containers.stand_in_vllm.command_line import CommandLineError, parse_serve_command
from voice_local.containers.stand_in_vllm.releases import DEFAULT_RELEASE, RELEASES
from voice_local.containers.stand_in_vllm.server import vllm_app
from voice_local.containers.stand_in_vllm.session import RealtimeService
from voice_local.engines.deterministic import AudioLengthTranscriber
from voice_local.engines.interfaces import EngineUnavailableError, Transcriber

_SESSIONS_AT_ONCE = 8
"""Threads for the engine; the engine itself decides how much of them runs in parallel."""

_log = logging.getLogger("voice_local.containers.stand_in_vllm")


def main(arguments: list[str], environment: Mapping[str, str]) -> int:
    """Serve until SIGTERM; return the exit code."""
    log_to_stderr()
    release = RELEASES.get(environment.get("VOICE_LOCAL_VLLM_RELEASE", DEFAULT_RELEASE))
    if release is None:
        _log.error("VOICE_LOCAL_VLLM_RELEASE must be one of %s", ", ".join(RELEASES))
        return 2
    try:
        command = parse_serve_command(arguments)
        _log.info(
            "In the place of vLLM %s: %s as %s, max_model_len %d, flags without effect here: %s",
            release.name,
            command.model,
            ", ".join(command.served_model_names),
            command.max_model_len,
            command.other_flags,
        )
        transcriber = load_transcriber(environment)
    except CommandLineError as problem:
        _log.error("%s", problem)
        return 2
    except EngineUnavailableError as problem:
        _log.error("%s", problem)
        return 1
    engine_died = False

    def stop_serving() -> None:
        nonlocal engine_died
        engine_died = True
        server.should_exit = True

    with ThreadPoolExecutor(_SESSIONS_AT_ONCE, thread_name_prefix="engine") as executor:
        service = RealtimeService(
            release=release,
            served_model_names=command.served_model_names,
            max_model_len=command.max_model_len,
            transcriber=transcriber,
            executor=executor,
            on_engine_death=stop_serving,
        )
        server = server_for(vllm_app(service), command.port)
        server.run()
    return 1 if engine_died or not server.started else 0


def load_transcriber(environment: Mapping[str, str]) -> Transcriber:
    """Load and warm the engine that the environment names.

    Raises:
        EngineUnavailableError: no such engine, or it cannot start here.
    """
    name = environment.get("VOICE_LOCAL_STT_ENGINE", "whisper")
    if name == "deterministic":
        return AudioLengthTranscriber()
    if name in {"whisper", "whisper-tiny"}:
        # Imported late: the deterministic engine works without the speech packages.
        try:
            from voice_local.engines.whisper_live import WhisperLive  # noqa: PLC0415
            from voice_local.engines.whisper_weights import WHISPER_BASE, WHISPER_TINY  # noqa: PLC0415
        except ModuleNotFoundError as problem:
            raise EngineUnavailableError(
                f"The Whisper engine needs the package {problem.name}: install sagemaker-voice with the extra `local`"
            ) from problem

        packaged = WHISPER_TINY if name == "whisper-tiny" else WHISPER_BASE
        folder = environment.get("VOICE_LOCAL_WHISPER_MODEL")
        return WhisperLive.load(
            Path(folder) if folder else packaged,
            language=environment.get("VOICE_LOCAL_STT_LANGUAGE", "en"),
        )
    raise EngineUnavailableError(f"VOICE_LOCAL_STT_ENGINE must be whisper, whisper-tiny or deterministic, not {name!r}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
