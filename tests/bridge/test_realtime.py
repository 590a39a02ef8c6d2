"""Whether a generation runs, as told by the messages of both sides."""

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from voxtral_bridge.realtime import FINAL_COMMIT, GenerationTracker, error_event

COMMIT = {"type": "input_audio_buffer.commit"}
FINAL = {"type": "input_audio_buffer.commit", "final": True}
DELTA = {"type": "transcription.delta", "delta": ""}
DONE = {"type": "transcription.done", "text": "", "usage": {}}
REFUSED = {"type": "error", "error": "Model not validated.", "code": "model_not_validated"}


def follow(*conversation: tuple[str, dict[str, Any]]) -> GenerationTracker:
    tracker = GenerationTracker()
    for side, event in conversation:
        if side == ">":
            tracker.observe_input(json.dumps(event).encode())
        else:
            tracker.observe_output(json.dumps(event).encode())
    return tracker


@pytest.mark.parametrize(
    ("conversation", "generating", "final_commit_due"),
    [
        ([], False, False),
        ([(">", COMMIT)], True, True),
        ([(">", COMMIT), (">", FINAL)], True, False),
        ([(">", COMMIT), (">", {**FINAL, "final": "yes"})], True, False),  # vLLM takes any true value
        ([(">", COMMIT), (">", FINAL), ("<", DELTA), ("<", DONE)], False, False),
        ([(">", FINAL)], False, False),  # without a start it starts nothing
        ([(">", COMMIT), (">", FINAL), (">", COMMIT)], True, False),  # a second commit is ignored while one runs
        ([(">", COMMIT), ("<", REFUSED)], False, True),  # vLLM 0.27 starts nothing
        ([(">", COMMIT), ("<", REFUSED), ("<", DELTA)], True, True),  # vLLM 0.17 starts all the same
        ([(">", COMMIT), ("<", {"type": "error", "error": "x", "code": "invalid_audio"})], True, True),
    ],
)
def test_generation_is_followed(
    conversation: list[tuple[str, dict[str, Any]]], generating: bool, final_commit_due: bool
) -> None:
    tracker = follow(*conversation)
    assert (tracker.generating, tracker.final_commit_due) == (generating, final_commit_due)


@given(st.lists(st.binary(max_size=99)))
def test_audio_is_counted_in_bytes_of_pcm(pieces: list[bytes]) -> None:
    tracker = GenerationTracker()
    for piece in pieces:
        event = {"audio": base64.b64encode(piece).decode(), "type": "input_audio_buffer.append"}
        tracker.observe_input(json.dumps(event).encode())
    total = sum(map(len, pieces))
    assert tracker.pending_audio_bytes == total
    assert tracker.take_audio() == total / 32_000
    assert tracker.pending_audio_bytes == 0


@given(
    st.binary(max_size=9).map(lambda pcm: base64.b64encode(pcm).decode()) | st.text(alphabet='A="\\ ,:}', max_size=9),
    st.sampled_from(["", " ", "  "]),
    st.sampled_from([",", ', "final": true,', ', "audio": "AAAA",']),
    st.sampled_from(["}", "} ", ' , "audio": "" }', ""]),
)
def test_audio_is_counted_as_json_would_have_it(audio: str, space: str, between: str, end: str) -> None:
    """The usual spelling of `append` is not parsed as JSON; whatever comes near it must count the same."""
    message = f'{{"type":{space}"input_audio_buffer.append"{between}{space}"audio":{space}"{audio}"{end}'
    try:
        said = json.loads(message)["audio"]
    except ValueError:
        said = ""
    tracker = GenerationTracker()
    tracker.observe_input(message.encode())
    assert tracker.pending_audio_bytes == max(len(said) * 3 // 4 - said[-2:].count("="), 0)


@given(
    st.text()
    | st.sampled_from(["[]", "null", '{"type":5}', '{"type":"input_audio_buffer.append","audio":7}', "[" * 5000])
)
def test_anything_else_is_left_to_vllm(text: str) -> None:
    tracker = GenerationTracker()
    tracker.observe_input(text.encode())
    tracker.observe_output(text.encode())
    assert not tracker.generating
    assert tracker.pending_audio_bytes == 0


def test_events_the_bridge_makes_have_vllms_shape() -> None:
    assert json.loads(FINAL_COMMIT) == FINAL
    assert json.loads(error_event("a_code", 'said "no"')) == {"type": "error", "error": 'said "no"', "code": "a_code"}
