"""The container's main process: runs vLLM and the bridge, and ends with a reason when one of them does."""

import asyncio
import ctypes
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from voxtral_bridge.errors import BridgeError, ConfigurationError
from voxtral_bridge.event_log import configure, log_event
from voxtral_bridge.settings import BridgeSettings
from voxtral_bridge.vllm_command import PREFIX, vllm_command

VLLM_STOP_TIMEOUT = 2.0
"""Seconds vLLM gets after SIGTERM: its sessions are over by then, and SageMaker kills the container at 30 s."""

SECRETS = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", PREFIX + "API_KEY", PREFIX + "HF_TOKEN")
"""Variables that vLLM may need and the bridge does not."""

SOURCE_ROOT = str(Path(__file__).resolve().parent.parent)
"""Where this package lies, for the bridge's own process."""

_PR_SET_PDEATHSIG = 1


class _StartError(BridgeError):
    def __init__(self, part: str, error: OSError) -> None:
        self.part = part
        super().__init__(f"{part} cannot be started: {error.strerror or error}")


class Part:
    """One child process, the leader of a process group that ends with it."""

    def __init__(self, name: str, process: asyncio.subprocess.Process) -> None:
        self.name = name
        self._process = process

    @classmethod
    async def start(cls, name: str, command: Sequence[str], environment: Mapping[str, str]) -> "Part":
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                env=environment,
                process_group=0,
                preexec_fn=_end_with_parent,
            )
        except OSError as error:
            raise _StartError(name, error) from error
        log_event("part_started", part=name, pid=process.pid)
        return cls(name, process)

    async def wait(self) -> int:
        """Return the exit code; 128 + the signal's number when a signal ended the part."""
        code = await self._process.wait()
        return 128 - code if code < 0 else code

    async def stop(self, limit: float) -> None:
        """SIGTERM, SIGKILL after `limit` seconds; afterwards nothing of the part's group is left."""
        if self._process.returncode is None:
            with suppress(TimeoutError):
                self._process.send_signal(signal.SIGTERM)
                async with asyncio.timeout(limit):
                    await self._process.wait()
        with suppress(ProcessLookupError, PermissionError):  # macOS says the latter of a group that has ended
            os.killpg(self._process.pid, signal.SIGKILL)
        await self._process.wait()


def _end_with_parent() -> None:
    """Runs in the child: SIGTERM for it should this process be killed (Linux; elsewhere only orderly ends count)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


async def _supervise(vllm: Sequence[str], environment: Mapping[str, str], settings: BridgeSettings) -> int:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    # VLLM_PORT is also vLLM's own name for the ports between its processes: it must not see ours.
    vllm_environment = {name: value for name, value in environment.items() if name != "VLLM_PORT"}
    bridge_environment = {name: value for name, value in environment.items() if name not in SECRETS}
    bridge_environment["PYTHONPATH"] = os.pathsep.join(filter(None, (SOURCE_ROOT, environment.get("PYTHONPATH"))))
    parts: list[Part] = []
    try:
        # The bridge first: /ping must answer while vLLM loads.
        parts.append(await Part.start("bridge", [sys.executable, "-m", "voxtral_bridge"], bridge_environment))
        parts.append(await Part.start("vllm", vllm, vllm_environment))
        return await _wait_for_end(parts, stop)
    except _StartError as error:
        log_event("container_failed", part=error.part, exit_code=127, reason=str(error))
        return 127
    finally:
        # The bridge first again: its sessions still need vLLM.
        for part in parts:
            await part.stop(settings.shutdown_limit if part.name == "bridge" else VLLM_STOP_TIMEOUT)


async def _wait_for_end(parts: Sequence[Part], stop: asyncio.Event) -> int:
    stopping = asyncio.create_task(stop.wait())
    waiting = {asyncio.create_task(part.wait()): part for part in parts}
    done, pending = await asyncio.wait({stopping, *waiting}, return_when=asyncio.FIRST_COMPLETED)
    for task in pending:
        task.cancel()
    if stopping in done:
        log_event("container_stopping", reason="asked to stop")
        return 0
    ended = next(task for task in waiting if task in done)
    part, code = waiting[ended], ended.result()
    reason = f"{part.name} ended by itself with exit code {code}; its own last lines above say why"
    log_event("container_failed", part=part.name, exit_code=code, reason=reason)
    return code or 1


def main(arguments: Sequence[str]) -> int:
    """Run the container until it is stopped (0), a part of it ends (that part's code) or it cannot start (2, 127)."""
    configure()
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
    return asyncio.run(_supervise(command, os.environ, settings))
