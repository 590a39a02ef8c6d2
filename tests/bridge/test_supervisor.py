"""The entrypoint: both parts run, an end of either ends the container with a reason, and no child is left."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.bridge.staging import (
    APPEND,
    COMMIT,
    CONTEXT,
    FINAL,
    UPDATE,
    Stage,
    Vllm,
    client,
    hear_until,
    hear_until_close,
    listens,
    say,
    wait_until,
)
from voxtral_bridge.settings import BridgeSettings, ConfigurationError
from voxtral_bridge.vllm_command import vllm_command


def child_pids(container: Vllm) -> dict[str, int]:
    return {line["part"]: line["pid"] for line in container.log("part_started")}


def runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def assert_nothing_left(pids: dict[str, int]) -> None:
    wait_until(lambda: not any(map(runs, pids.values())), "no child is left")


async def test_container_serves_and_stops_in_order(stage: Stage) -> None:
    container = stage.entrypoint("serve", SM_VLLM_MAX_MODEL_LEN="45000", SM_VLLM_ENFORCE_EAGER="true")
    async with client(container, "/v1/realtime?tail=0.5") as ear:
        await say(ear, UPDATE, COMMIT, APPEND, FINAL)
        await hear_until(ear, "transcription.delta")
        container.signal(signal.SIGTERM)
        events = await hear_until_close(ear)
    assert "transcription.done" in [event["type"] for event in events]
    assert container.wait() == 0
    assert_nothing_left(child_pids(container))
    [listening] = container.notes("listening")
    assert listening["arguments"][:6] == [
        "serve",
        "some/model",
        "--host",
        "127.0.0.1",
        "--port",
        str(stage.vllm_port),
    ]
    assert listening["arguments"][6:] == [
        "--enforce-eager",
        "--max-model-len",
        "45000",
        "--no-enable-log-requests",
        "--disable-uvicorn-access-log",
    ]
    assert listening["vllm_port"] == "", "vLLM takes VLLM_PORT for something else"


@pytest.mark.parametrize("part", ["vllm", "bridge"])
def test_end_of_either_part_ends_the_container_with_its_code(stage: Stage, part: str) -> None:
    container = stage.entrypoint("serve", SCRIPTED_VLLM_CHILD="1")
    pids = child_pids(container)
    engine = container.notes("child")[0]["pid"]
    assert runs(engine)
    os.kill(pids[part], signal.SIGKILL)
    assert container.wait() == 128 + signal.SIGKILL
    assert_nothing_left(pids | {"engine": engine})
    [failed] = container.log("container_failed")
    assert (failed["part"], failed["exit_code"]) == (part, 137)
    assert not listens(container.port)


def test_vllm_failing_at_start_ends_the_container_at_once(stage: Stage) -> None:
    """SageMaker would otherwise keep the endpoint Creating until its time-out (sagemaker-examples #3432)."""
    container = stage.entrypoint("serve", wait=False, SCRIPTED_VLLM_EXIT="7")
    assert container.wait() == 7
    assert_nothing_left(child_pids(container))
    assert "exit code 7" in container.log("container_failed")[0]["reason"]


def test_no_vllm_on_path(stage: Stage, tmp_path: Path) -> None:
    container = stage.entrypoint("serve", wait=False, PATH=str(tmp_path))
    assert container.wait() == 127
    assert "vllm" in container.log("container_failed")[0]["reason"]
    assert_nothing_left(child_pids(container))


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel signals orphans on Linux only")
def test_killed_entrypoint_leaves_no_child(stage: Stage) -> None:
    container = stage.entrypoint("serve")
    pids = child_pids(container)
    container.signal(signal.SIGKILL)
    container.wait()
    assert_nothing_left(pids)


def test_all_problems_of_the_configuration_are_told_together(stage: Stage) -> None:
    container = stage.entrypoint(
        "serve", "more", wait=False, BRIDGE_IDLE_TIMEOUT="soon", SM_VLLM_PORT="1", SM_VLLM_MODEL=""
    )
    assert container.wait() == 2
    reason = container.log("container_failed")[0]["reason"]
    for name in ("serve", "BRIDGE_IDLE_TIMEOUT", "SM_VLLM_PORT", "no model"):
        assert name in reason


def test_secrets_stay_out_of_the_log_and_the_bridge(stage: Stage) -> None:
    container = stage.entrypoint("serve", SM_VLLM_API_KEY="sk-canary", HF_TOKEN="hf-canary")
    pids = child_pids(container)
    bridge = psutil.Process(pids["bridge"]).environ()
    assert not {"HF_TOKEN", "SM_VLLM_API_KEY"} & set(bridge)
    assert psutil.Process(pids["vllm"]).environ().get("HF_TOKEN") == "hf-canary"
    assert "canary" not in container.output.read_text()


def test_health_check_of_the_image(stage: Stage) -> None:
    def check(port: int) -> int:
        environment = os.environ | {"BRIDGE_PORT": str(port)}
        command = [sys.executable, str(CONTEXT / "healthcheck.py")]
        return subprocess.run(command, env=environment, timeout=10, check=False, capture_output=True).returncode

    container = stage.entrypoint("serve")
    assert check(container.port) == 0
    os.kill(child_pids(container)["vllm"], signal.SIGKILL)
    container.wait()
    assert check(container.port) == 1


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("x", ["--foo-bar", "x"]),
        ("true", ["--foo-bar"]),
        ("True", ["--foo-bar"]),
        ("", ["--foo-bar"]),
        ("false", []),
        ('["a b", "c"]', ["--foo-bar", "a b", "c"]),
        ("[1, {}]", ["--foo-bar", "1", "{}"]),
        ("[not json", ["--foo-bar", "[not json"]),
        ('{"cudagraph_mode": "PIECEWISE"}', ["--foo-bar", '{"cudagraph_mode": "PIECEWISE"}']),
        (" two  words 'quoted' \"twice\" $HOME", ["--foo-bar", " two  words 'quoted' \"twice\" $HOME"]),
    ],
)
def test_flags_follow_the_containers_rules(value: str, words: list[str], tmp_path: Path) -> None:
    command = vllm_command({"SM_VLLM_FOO_BAR": value, "SM_VLLM_MODEL": "m", "OTHER": "1"}, 8081, tmp_path)
    assert command[:7] == ["vllm", "serve", "m", "--host", "127.0.0.1", "--port", "8081"]
    assert command[7:-2] == words


def test_what_names_no_flag_or_is_the_bridges_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as caught:
        vllm_command({"SM_VLLM_": "x", "SM_VLLM_HOST": "0.0.0.0", "SM_VLLM_PORT": "1"}, 1, tmp_path)  # noqa: S104
    assert [problem.split()[0] for problem in caught.value.problems] == [
        "SM_VLLM_",
        "SM_VLLM_HOST",
        "SM_VLLM_PORT",
        "no",
    ]


def test_model_comes_from_the_setting_then_the_weights_then_the_hub(tmp_path: Path) -> None:
    hub = {"HF_MODEL_ID": "hub/model"}
    assert vllm_command(hub, 1, tmp_path)[2] == "hub/model"
    assert vllm_command(hub, 1, tmp_path / "missing")[2] == "hub/model"
    (tmp_path / "weights").touch()
    assert vllm_command(hub, 1, tmp_path)[2] == str(tmp_path)
    assert vllm_command(hub | {"SM_VLLM_MODEL": "named"}, 1, tmp_path)[2] == "named"


def test_request_logging_cannot_be_switched_on(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="SM_VLLM_ENABLE_LOG_REQUESTS"):
        vllm_command({"SM_VLLM_ENABLE_LOG_REQUESTS": "true", "SM_VLLM_MODEL": "m"}, 1, tmp_path)
    assert "--enable-log-requests" not in vllm_command(
        {"SM_VLLM_ENABLE_LOG_REQUESTS": "false", "SM_VLLM_MODEL": "m"}, 1, tmp_path
    )


def test_settings() -> None:
    assert BridgeSettings.from_environment({}) == BridgeSettings()
    assert BridgeSettings.from_environment({"SAGEMAKER_BIND_TO_PORT": "9000"}).port == 9000
    assert BridgeSettings.from_environment({"SAGEMAKER_BIND_TO_PORT": "9000", "BRIDGE_PORT": "9001"}).port == 9001
    assert BridgeSettings.from_environment({"BRIDGE_MAX_SESSIONS": "3", "SM_VLLM_MAX_NUM_SEQS": "9"}).max_sessions == 3
    assert BridgeSettings.from_environment({"SM_VLLM_MAX_MODEL_LEN": "45000"}).max_audio == pytest.approx(
        3594.9, abs=0.1
    )
    for text, tokens in (("45k", 45_000), ("25.6k", 25_600), ("44K", 45_056), ("auto", 0), ("-1", 0), ("", 0)):
        assert BridgeSettings.from_environment({"SM_VLLM_MAX_MODEL_LEN": text}).max_model_len == tokens, (
            "as vLLM reads it"
        )
    assert BridgeSettings().shutdown_limit < 30 - 3, "SageMaker kills 30 s after SIGTERM"
    wrong = {
        "BRIDGE_PORT": "0",
        "VLLM_PORT": "x",
        "BRIDGE_UNRESPONSIVE_TIMEOUT": "-1",
        "BRIDGE_MAX_SESSIONS": "1.5",
        "SM_VLLM_MAX_MODEL_LEN": "nan",
        "BRIDGE_INVOCATION_TIMEOUT": "inf",
        "BRIDGE_MAX_MESSAGE_BYTES": "infk",
    }
    with pytest.raises(ConfigurationError) as caught:
        BridgeSettings.from_environment(wrong)
    assert len(caught.value.problems) == len(wrong)
    with pytest.raises(ConfigurationError, match="both have port 8081"):
        BridgeSettings.from_environment({"BRIDGE_PORT": "8081"})


def test_dockerfile_carries_what_sagemaker_needs() -> None:
    dockerfile = (CONTEXT / "Dockerfile").read_text()
    assert 'LABEL com.amazonaws.sagemaker.capabilities.bidirectional-streaming="true"' in dockerfile
    assert json.loads(dockerfile.partition("ENTRYPOINT ")[2].partition("\n")[0])[0] == "python3"
    assert "HEALTHCHECK" in dockerfile
    assert "ARG BASE_IMAGE=" in dockerfile
    assert "RUN" not in dockerfile.split(), "nothing is installed"
