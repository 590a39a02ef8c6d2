"""The container host with real processes: the bridge image's own entrypoint, the stand-ins, and ends of every kind."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from voice_local.containers.host import ProcessContainerHost
from voice_local.containers.known_images import BIDIRECTIONAL_LABEL
from voice_local.containers.process_container import ProcessContainer
from voice_local.containers.settings import ContainerHostSettings
from voice_local.image_store import ImageStore, StoredImage
from voice_local.interfaces import ContainerSpec, ImageNotFoundError

ROOT = Path(__file__).parents[3]
BRIDGE = ROOT / "container_assets" / "voxtral_bridge"
BRIDGE_IMAGE = "123456789012.dkr.ecr.us-east-1.amazonaws.com/assets:bridge"
OMNI_IMAGE = "763104351884.dkr.ecr.us-east-1.amazonaws.com/vllm:omni-sagemaker-cuda-v1.5"
VOXTRAL = "mistralai/Voxtral-Mini-4B-Realtime-2602"
READY_SECONDS = 30.0
STT = {"SM_VLLM_SERVED_MODEL_NAME": VOXTRAL, "VOICE_LOCAL_STT_ENGINE": "deterministic"}
TTS = {"SM_VLLM_MODEL": "Qwen/Qwen3-TTS-12Hz-1.7B-CustomVoice", "VOICE_LOCAL_TTS_ENGINE": "deterministic"}

Start = Callable[[ContainerSpec], ProcessContainer]


def recorded(store: ImageStore, uri: str, context: Path, label: str = "true") -> None:
    store.save(
        StoredImage(
            uri=uri,
            context=context,
            dockerfile=context / "Dockerfile",
            build_args={},
            platform="linux/amd64",
            labels={BIDIRECTIONAL_LABEL: label},
        )
    )


@pytest.fixture
def store(tmp_path: Path) -> ImageStore:
    return ImageStore(tmp_path / "images")


@pytest.fixture
def host(store: ImageStore, tmp_path: Path) -> ProcessContainerHost:
    environment = {**os.environ, "AWS_SECRET_ACCESS_KEY": "planted", "AWS_PROFILE": "planted", "EDITOR": "planted"}
    settings = ContainerHostSettings(grace_seconds=3.0)
    return ProcessContainerHost(store, tmp_path / "run", environment=environment, settings=settings)


@pytest.fixture
def start(host: ProcessContainerHost) -> Iterator[Start]:
    started: list[ProcessContainer] = []

    def one(spec: ContainerSpec) -> ProcessContainer:
        started.append(host.start(spec))
        return started[-1]

    yield one
    for container in started:
        container.stop()


def wait_until(true: Callable[[], bool], seconds: float, what: str) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, f"{what}: not within {seconds} s"
        time.sleep(0.05)


def ready(container: ProcessContainer) -> ProcessContainer:
    def healthy() -> bool:
        assert container.exit_code() is None, container.output_tail()
        return container.ping()

    wait_until(healthy, READY_SECONDS, "healthy")
    return container


def tree(container: ProcessContainer) -> list[psutil.Process]:
    leash = psutil.Process(container.pid)
    return [leash, *leash.children(recursive=True)]


def gone(processes: list[psutil.Process]) -> bool:
    return not any(process.is_running() and process.status() != psutil.STATUS_ZOMBIE for process in processes)


def test_the_bridge_image_runs_its_own_entrypoint(store: ImageStore, start: Start) -> None:
    recorded(store, BRIDGE_IMAGE, BRIDGE)
    container = start(ContainerSpec("dev-voice-stt-main-1", BRIDGE_IMAGE, STT, model_data="s3://bucket/weights/"))
    assert not container.ping(), "healthy before the engine can be"
    ready(container)
    assert container.bidirectional
    processes = tree(container)
    assert any("voxtral_bridge" in " ".join(process.cmdline()) for process in processes)
    assert any("stand_in_vllm" in " ".join(process.cmdline()) for process in processes)
    with connect(f"ws://127.0.0.1:{container.port}/invocations-bidirectional-stream") as stream:
        assert json.loads(stream.recv(5))["type"] == "session.created"
        stream.send(json.dumps({"type": "session.update", "model": VOXTRAL}))
        stream.send(json.dumps({"type": "input_audio_buffer.commit"}))
        stream.send(json.dumps({"type": "input_audio_buffer.append", "audio": "A" * 10240 * 4}))
        stream.send(json.dumps({"type": "input_audio_buffer.commit", "final": True}))
        event = json.loads(stream.recv(5))
        while event["type"] == "transcription.delta":
            event = json.loads(stream.recv(5))
        assert event["type"] == "transcription.done"
        assert event["text"] == "w0 w1 w2 w3 "
    container.stop()
    assert gone(processes)
    assert container.exit_code() == 0
    assert not container.ping()
    container.stop()


def test_the_container_sees_nothing_of_the_user(start: Start) -> None:
    container = ready(start(ContainerSpec("tts-1", OMNI_IMAGE, TTS)))
    for process in tree(container):
        environment = process.environ()
        assert "planted" not in environment.values()
        assert environment["SM_VLLM_MODEL"] == TTS["SM_VLLM_MODEL"]
    listening = [
        connection.laddr
        for process in tree(container)
        for connection in process.net_connections(kind="tcp")
        if connection.status == psutil.CONN_LISTEN
    ]
    assert listening == [("127.0.0.1", container.port)]


def test_omni_routes_as_the_container_does(start: Start) -> None:
    container = ready(start(ContainerSpec("tts-1", OMNI_IMAGE, TTS)))
    with connect(f"ws://127.0.0.1:{container.port}/v1/audio/speech/stream"):
        pass
    with (
        pytest.raises(InvalidStatus) as refused,
        connect(f"ws://127.0.0.1:{container.port}/invocations-bidirectional-stream"),
    ):
        pass
    assert refused.value.response.status_code in {403, 404}


def test_no_spoken_word_is_in_the_log(start: Start) -> None:
    container = ready(start(ContainerSpec("tts-1", OMNI_IMAGE, TTS)))
    config = {"type": "session.config", "response_format": "pcm", "stream_audio": True}
    for voice in ("Vivian", "Nobody"):
        with connect(f"ws://127.0.0.1:{container.port}/v1/audio/speech/stream") as stream:
            stream.send(json.dumps({**config, "voice": voice}))
            for text in ("Confidential words", " of a patient."):
                stream.send(json.dumps({"type": "input.text", "text": text}))
            stream.send(json.dumps({"type": "input.done"}))
            while isinstance(received := stream.recv(5), bytes) or json.loads(received)["type"] != "session.done":
                pass
            stream.send(b"Confidential bytes")
    container.stop()
    log = container.log_file.read_text(encoding="utf-8")
    assert "stand_in_omni" in log
    assert "onfidential" not in log
    assert "patient" not in log


@pytest.mark.parametrize(
    ("version", "bidirectional"), [("v1.4", False), ("v1.5", True), ("v1.10", True), ("v2.0", True)]
)
def test_only_omni_1_5_and_later_carry_the_label(start: Start, version: str, bidirectional: bool) -> None:
    image = OMNI_IMAGE.replace("v1.5", version)
    assert start(ContainerSpec("tts-1", image, TTS)).bidirectional is bidirectional


def test_an_image_without_the_label_is_not_bidirectional(store: ImageStore, start: Start) -> None:
    recorded(store, BRIDGE_IMAGE, BRIDGE, label="false")
    assert not start(ContainerSpec("stt-1", BRIDGE_IMAGE, STT)).bidirectional


def test_an_unknown_image_is_named(host: ProcessContainerHost) -> None:
    with pytest.raises(ImageNotFoundError, match=r"example\.com/other:1"):
        host.start(ContainerSpec("x-1", "example.com/other:1", {}))


def test_an_image_that_says_nothing_to_start_is_named(
    store: ImageStore, host: ProcessContainerHost, tmp_path: Path
) -> None:
    context = tmp_path / "context"
    context.mkdir()
    (context / "Dockerfile").write_text("FROM base\nENTRYPOINT python3 serve.py\n", encoding="utf-8")
    recorded(store, "example.com/shell:1", context)
    with pytest.raises(ImageNotFoundError, match="exec form"):
        host.start(ContainerSpec("x-1", "example.com/shell:1", {}))


def test_a_container_that_cannot_start_says_why(start: Start) -> None:
    container = start(ContainerSpec("tts-1", OMNI_IMAGE, {"VOICE_LOCAL_TTS_ENGINE": "deterministic"}))
    wait_until(lambda: container.exit_code() is not None, READY_SECONDS, "ended")
    assert container.exit_code() == 2
    assert "SM_VLLM_MODEL" in container.output_tail()


STUBBORN = """
import http.server, os, signal, subprocess, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
subprocess.Popen(["sleep", "600"], start_new_session=True)
print("started", sys.argv[1:], flush=True)
class Slow(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        import time; time.sleep(float(os.environ["DELAY"])); self.send_response(200); self.end_headers()
http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ["SAGEMAKER_BIND_TO_PORT"])), Slow).serve_forever()
"""


@pytest.fixture
def stubborn(store: ImageStore, tmp_path: Path) -> str:
    """An image whose main process ignores SIGTERM and leaves a child in a session of its own."""
    context = tmp_path / "stubborn"
    context.mkdir()
    (context / "serve.py").write_text(STUBBORN, encoding="utf-8")
    (context / "Dockerfile").write_text(
        "FROM base\nARG WAIT=0\nENV DELAY=${WAIT}\nWORKDIR /app\nCOPY serve.py ./\n"
        'ENTRYPOINT ["python3", "/app/serve.py"]\nCMD ["--help"]\n',
        encoding="utf-8",
    )
    uri = "example.com/stubborn:1"
    recorded(store, uri, context)
    return uri


def test_a_container_that_ignores_sigterm_is_killed_with_all_its_children(stubborn: str, start: Start) -> None:
    container = ready(start(ContainerSpec("stubborn-1", stubborn, {})))
    assert container.output_tail().splitlines()[0] == "started ['serve']"
    processes = tree(container)
    assert len(processes) == 3
    began = time.monotonic()
    container.stop()
    assert 3.0 <= time.monotonic() - began < 8.0
    assert gone(processes)


def test_a_slow_ping_counts_as_none(stubborn: str, start: Start) -> None:
    container = start(ContainerSpec("stubborn-1", stubborn, {"DELAY": "5"}))
    wait_until(lambda: "started" in container.output_tail(), READY_SECONDS, "started")
    time.sleep(0.3)
    began = time.monotonic()
    assert not container.ping()
    assert 1.9 <= time.monotonic() - began < 2.5


def test_what_the_main_process_leaves_behind_is_killed_when_it_dies(stubborn: str, start: Start) -> None:
    container = ready(start(ContainerSpec("stubborn-1", stubborn, {})))
    processes = tree(container)
    processes[1].send_signal(signal.SIGKILL)
    wait_until(lambda: gone(processes), 5, "gone")
    assert container.exit_code() == 128 + signal.SIGKILL


HOST_THAT_IS_KILLED = """
import sys, time
from pathlib import Path
from voice_local.containers.host import ProcessContainerHost
from voice_local.containers.settings import ContainerHostSettings
from voice_local.image_store import ImageStore
from voice_local.interfaces import ContainerSpec
run = Path(sys.argv[1])
host = ProcessContainerHost(ImageStore(run / "images"), run / "run", settings=ContainerHostSettings(grace_seconds=1.0))
container = host.start(ContainerSpec("orphan-1", sys.argv[2], {}))
while not container.ping():
    time.sleep(0.05)
print("ready", flush=True)
time.sleep(600)
"""


def test_no_container_outlives_a_host_that_is_killed(stubborn: str, tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOST_THAT_IS_KILLED, str(tmp_path), stubborn], stdout=subprocess.PIPE
    ) as host:
        assert host.stdout is not None
        assert host.stdout.readline() == b"ready\n"
        processes = psutil.Process(host.pid).children(recursive=True)
        assert len(processes) == 3
        host.kill()
    wait_until(lambda: gone(processes), 10, "gone")


@pytest.mark.skipif(sys.platform != "linux", reason="PR_SET_PDEATHSIG is Linux's")
def test_the_container_ends_when_its_leash_is_killed(stubborn: str, start: Start) -> None:
    container = ready(start(ContainerSpec("stubborn-1", stubborn, {})))
    leash, main, orphan = tree(container)
    leash.kill()
    wait_until(lambda: gone([main]), 5, "gone")
    container.stop()
    assert gone([orphan])
