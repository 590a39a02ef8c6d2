"""The log: a contract for the stack's metric filters, and never a word of what was said (docs/bridge-log.md)."""

import ast
import json
from collections.abc import Iterator

import pytest

from tests.bridge.staging import (
    APPEND,
    COMMIT,
    CONTEXT,
    FINAL,
    UPDATE,
    Process,
    Stage,
    Vllm,
    assert_in_contract,
    client,
    eventually,
    hear,
    hear_until,
    log_contract,
    say,
    wait_until,
)
from voxtral_bridge.health import read_gauges


def logged_in_the_source() -> Iterator[tuple[str, set[str]]]:
    """Event and fields of every `log_event(...)` of the package."""
    for module in CONTEXT.rglob("*.py"):
        for node in ast.walk(ast.parse(module.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "log_event":
                [name] = node.args
                assert isinstance(name, ast.Constant), ast.unparse(node)
                yield str(name.value), {keyword.arg for keyword in node.keywords if keyword.arg not in (None, "level")}


def test_the_contract_holds_what_the_source_writes_and_nothing_else() -> None:
    contract = log_contract()
    written = dict(logged_in_the_source())
    assert set(written) == set(contract) - {"log"}, "`log` lines come from libraries"
    for event, fields in logged_in_the_source():
        assert fields <= set(contract[event]["properties"]), event


def test_a_line_outside_the_contract_is_found() -> None:
    good = {"time": "t", "level": "info", "event": "session_first_delta", "session": "", "seconds": 0.1}
    assert_in_contract(good)
    for wrong in ({"event": "other"}, {"seconds": "0.1"}, {"text": "a word"}, {"level": "loud"}):
        with pytest.raises(Exception, match=r"not in log_events|is not of type|Additional|is not one of"):
            assert_in_contract(good | wrong)


async def test_gauges_of_vllm_are_logged_again_and_again(stage: Stage) -> None:
    vllm, bridge = stage.vllm(), stage.bridge(BRIDGE_GAUGES_INTERVAL="0.2")
    async with client(bridge) as ear:
        await hear(ear)
        await eventually(lambda: any(line["sessions"] == 1 for line in bridge.log("gauges")), "a session is counted")
    await eventually(lambda: bridge.log("gauges")[-1]["sessions"] == 0, "and no longer")
    line = bridge.log("gauges")[-1]
    assert (line["requests_running"], line["requests_waiting"], line["kv_cache_use"]) == (3, 1, 0.4375)
    vllm.popen.kill()
    vllm.wait()
    line = await eventually(lambda: bridge.log("health")[-1]["healthy"] is False and bridge.log()[-1], "vLLM is gone")
    await eventually(lambda: "kv_cache_use" not in bridge.log("gauges")[-1], "what is not known is left out")


def test_gauges_of_several_engines_and_other_releases() -> None:
    both = 'vllm:num_requests_running{engine="0"} 2.0\nvllm:num_requests_running{engine="1"} 3.0\n'
    caches = 'vllm:kv_cache_usage_perc{engine="0"} 0.25\nvllm:kv_cache_usage_perc{engine="1"} 0.5\n'
    assert read_gauges(both + caches) == {"requests_running": 5, "kv_cache_use": 0.5}
    assert read_gauges("vllm:num_requests_waiting 1\nvllm:num_requests_waiting_total 9\n") == {"requests_waiting": 1}
    assert read_gauges("vllm:num_requests_running NaN\nvllm:num_requests_waiting many\n<html>") == {}


async def test_log_tells_the_course_of_a_session_but_no_word_of_it(running: tuple[Vllm, Process]) -> None:
    _, bridge = running
    text = "Der Kanarienvogel singt um Mitternacht"
    async with client(bridge) as ear:
        await hear(ear)
        await say(ear, UPDATE, COMMIT, APPEND, {"type": "note", "text": text}, FINAL)
        await hear_until(ear, "transcription.done")
        await ear.send(text)
        await ear.send(b"\xff" + text.encode())
        await hear_until(ear, "error")
    await eventually(lambda: bridge.log("session_closed"), "closed")
    output = bridge.output.read_text()
    assert text not in output
    assert "w w" not in output, "the transcript"
    assert "AAAA" not in output, "the audio"
    session = [line for line in bridge.log() if line["event"].startswith("session_")]
    assert [line["event"] for line in session] == [
        "session_opened",
        "session_first_delta",
        "session_done",
        "session_closed",
    ]
    assert len({line["session"] for line in session}) == 1


async def test_an_error_of_the_bridge_itself_is_logged_without_its_text(stage: Stage) -> None:
    """An exception may quote what was being handled."""
    stage.vllm()
    fault = "import voxtral_bridge.session as s\ndef fail(self, *_): raise ValueError('canary ' + repr(_))\n"
    (stage.folder / "sitecustomize.py").write_text(fault + "s.Session._take_output = fail\n")
    bridge = stage.bridge(PYTHONPATH=f"{stage.folder}:{CONTEXT}")
    async with client(bridge):  # vLLM's greeting is the output that fails
        [line] = await eventually(lambda: bridge.log("log"), "the error is logged")
    assert line["exception"] == "ValueError"
    assert "sitecustomize" in line["where"]
    assert "canary" not in bridge.output.read_text()
    assert "session.created" not in bridge.output.read_text()
    wait_until(lambda: bridge.log("session_closed"), "the session ends all the same")
    assert all(json.loads(line) for line in bridge.output.read_text().splitlines())
