"""The container's main process: runs vLLM and the bridge, and ends with a reason when one of them does."""

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from voxtral_bridge.event_log import configure, log_event
from voxtral_bridge.settings import BridgeSettings, ConfigurationError
from voxtral_bridge.vllm_command import PREFIX, vllm_command

VLLM_STOP_TIMEOUT = 2.0
"""Seconds vLLM gets after SIGTERM: its sessions are over by then, and SageMaker kills the container at 30 s."""

SECRETS = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", PREFIX + "API_KEY", PREFIX + "HF_TOKEN")
"""Variables that vLLM may need and the bridge does not."""

SOURCE_ROOT = str(Path(__file__).resolve().parent.parent)
"""Where this package lies, for the bridge's own process."""

_AWAITED = {signal.SIGTERM, signal.SIGINT, signal.SIGCHLD}
"""Blocked from the start, so that each is seen where it is waited for and nowhere else."""

_PR_SET_PDEATHSIG = 1


def _prepare_child() -> None:
    """Runs in the child: signals as usual, and SIGTERM should this process be killed (the latter on Linux only)."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _AWAITED)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _stop(part: subprocess.Popen[bytes], limit: float) -> None:
    """SIGTERM, SIGKILL after `limit` seconds; afterwards nothing of the part's process group is left."""
    part.terminate()
    with suppress(subprocess.TimeoutExpired):
        part.wait(limit)
    with suppress(ProcessLookupError, PermissionError):  # macOS says the latter of a group that has ended
        os.killpg(part.pid, signal.SIGKILL)
    part.wait()


def _wait_for_end(parts: Mapping[str, subprocess.Popen[bytes]]) -> int:
    """Return the exit code: 0 when asked to stop, else that of the part which ended, 128 + a signal's number."""
    while True:
        for name, part in parts.items():
            if (code := part.poll()) is not None:
                code = 128 - code if code < 0 else code
                reason = f"{name} ended by itself with exit code {code}; its own last lines above say why"
                log_event("container_failed", part=name, exit_code=code, reason=reason)
                return code or 1
        if signal.sigwait(_AWAITED) != signal.SIGCHLD:
            log_event("container_stopping", reason="asked to stop")
            return 0


def _supervise(vllm: Sequence[str], environment: Mapping[str, str], settings: BridgeSettings) -> int:
    bridge_environment = {name: value for name, value in environment.items() if name not in SECRETS}
    bridge_environment["PYTHONPATH"] = os.pathsep.join(filter(None, (SOURCE_ROOT, environment.get("PYTHONPATH"))))
    # VLLM_PORT is also vLLM's own name for the ports between its processes: it must not see ours.
    vllm_environment = {name: value for name, value in environment.items() if name != "VLLM_PORT"}
    # The bridge first: /ping must answer while vLLM loads, and at the end its sessions still need vLLM.
    bridge = [sys.executable, "-m", "voxtral_bridge"]
    parts: dict[str, subprocess.Popen[bytes]] = {}
    try:
        for name, command, env in (("bridge", bridge, bridge_environment), ("vllm", vllm, vllm_environment)):
            parts[name] = subprocess.Popen(
                command,
                env=env,
                process_group=0,
                preexec_fn=_prepare_child,  # noqa: PLW1509 - no other thread runs here
            )
            log_event("part_started", part=name, pid=parts[name].pid)
        return _wait_for_end(parts)
    except OSError as error:
        reason = f"{name} cannot be started: {error.strerror or error}"
        log_event("container_failed", part=name, exit_code=127, reason=reason)
        return 127
    finally:
        for name, part in parts.items():
            _stop(part, settings.shutdown_limit if name == "bridge" else VLLM_STOP_TIMEOUT)


def main(arguments: Sequence[str]) -> int:
    """Run the container until it is stopped (0), a part of it ends (that part's code) or it cannot start (2, 127)."""
    configure()
    signal.pthread_sigmask(signal.SIG_BLOCK, _AWAITED)
    problems: list[str] = []
    if list(arguments) not in ([], ["serve"]):
        problems.append(f"the only argument is `serve`, not {' '.join(arguments)!r}")
    settings, command = BridgeSettings(), list[str]()
    try:
        settings = BridgeSettings.from_environment(os.environ)
    except ConfigurationError as error:
        problems += error.problems
    try:
        command = vllm_command(os.environ, settings.vllm_port)
    except ConfigurationError as error:
        problems += error.problems
    if problems:
        log_event("container_failed", part="entrypoint", exit_code=2, reason="; ".join(problems))
        return 2
    # Flags only: a value may be a secret.
    log_event("container_starting", vllm_flags=[word for word in command if word.startswith("--")])
    return _supervise(command, os.environ, settings)
