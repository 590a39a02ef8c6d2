"""Two endpoints that run without a deploy: the real bridge with a stand-in vLLM, a stand-in vLLM-Omni, a data plane.

`python -m tests.soak.browser.stage` keeps them running for a look at the page by hand.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.server_process import announced, answers, free_port, start_server, wait_until

STT_MODEL = "mistralai/Voxtral-Mini-4B-Realtime-2602"
TTS_MODEL = "Qwen/Qwen3-TTS-12Hz-1.7B-CustomVoice"
EAR, VOICE = "page-voice-stt", "page-voice-tts"


@dataclass
class Stage:
    """Processes that together are a stage of two endpoints."""

    folder: Path
    stt_engine: str = "whisper"
    tts_engine: str = "deterministic"
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    ready: dict[str, Any] = field(default_factory=dict)
    _ports: dict[str, int] = field(default_factory=lambda: {name: free_port() for name in ("vllm", "bridge", "omni")})

    def start(self) -> None:
        self.start_engine()
        self._run("bridge", "-m", "voxtral_bridge", BRIDGE_PORT=self._port("bridge"), VLLM_PORT=self._port("vllm"))
        self.start_voice()
        self.wait_for_engine()
        self.wait_for_voice()
        self._run(
            "plane",
            str(Path(__file__).with_name("two_endpoints.py")),
            self._port("bridge"),
            self._port("omni"),
            str(self.folder),
        )
        self._wait("plane", lambda: announced(self._log("plane")))
        self.ready = announced(self._log("plane")) or {}

    def start_engine(self) -> None:
        """Start the speech-to-text model's server; also after `kill("vllm")`."""
        self._run(
            "vllm",
            *("-m", "voice_local.containers.stand_in_vllm", "serve", STT_MODEL, "--port", self._port("vllm")),
            VOICE_LOCAL_STT_ENGINE=self.stt_engine,
        )

    def start_voice(self) -> None:
        """Start the text-to-speech container; also after `kill("omni")`."""
        self._run(
            "omni",
            *("-m", "voice_local.containers.stand_in_omni", "serve"),
            VOICE_LOCAL_TTS_ENGINE=self.tts_engine,
            SM_VLLM_MODEL=TTS_MODEL,
            SAGEMAKER_BIND_TO_PORT=self._port("omni"),
        )

    def wait_for_engine(self) -> None:
        self._wait("vllm", answers(self._ports["vllm"], "/health"))
        self._wait("bridge", answers(self._ports["bridge"], "/ping"))

    def wait_for_voice(self) -> None:
        self._wait("omni", answers(self._ports["omni"], "/ping"))

    def kill(self, name: str) -> None:
        self.processes[name].send_signal(signal.SIGKILL)
        self.processes[name].wait(10)

    def revive(self) -> None:
        """Start again what was killed, and wait until it answers."""
        if self.processes["vllm"].poll() is not None:
            self.start_engine()
        if self.processes["omni"].poll() is not None:
            self.start_voice()
        self.wait_for_engine()
        self.wait_for_voice()

    def stop(self) -> None:
        for process in self.processes.values():
            process.kill()
        for process in self.processes.values():
            process.wait(10)

    def log(self, name: str) -> str:
        return self._log(name).read_text(errors="replace")

    @property
    def options(self) -> tuple[str, ...]:
        """Options of `voice ui` and `voice talk` that lead here."""
        return (
            *("--stt-endpoint", EAR, "--tts-endpoint", VOICE, "--stt-model", STT_MODEL, "--tts-model", TTS_MODEL),
            *("--endpoint-url", self.ready["url"], "--ca-bundle", self.ready["ca_bundle"]),
        )

    def environment(self, home: Path, **changes: str) -> dict[str, str]:
        """An environment in which nothing leads to AWS."""
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "TERM", "PYTHONPATH") if name in os.environ}
        return {
            **kept,
            "HOME": str(home),
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_ENDPOINT_URL": "https://127.0.0.1:9",
            "AWS_ACCESS_KEY_ID": self.ready["access_key"],
            "AWS_SECRET_ACCESS_KEY": self.ready["secret_key"],
            "AWS_REGION": self.ready["region"],
            **changes,
        }

    def _port(self, name: str) -> str:
        return str(self._ports[name])

    def _log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def _run(self, name: str, *arguments: str, **environment: str) -> None:
        self.processes[name] = start_server(*arguments, log=self._log(name), **environment)

    def _wait(self, name: str, ready: Callable[[], object]) -> None:
        wait_until(ready, self.processes[name], self._log(name))


@contextmanager
def running_stage(*, stt_engine: str = "whisper", tts_engine: str = "deterministic") -> Iterator[Stage]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        stage = Stage(folder, stt_engine, tts_engine)
        stack.callback(stage.stop)
        stage.start()
        yield stage


if __name__ == "__main__":
    with running_stage(tts_engine=sys.argv[1] if len(sys.argv) > 1 else "piper") as by_hand:
        print(json.dumps({"options": by_hand.options, "environment": by_hand.environment(Path.home())}), flush=True)
        signal.sigwait({signal.SIGINT, signal.SIGTERM})
