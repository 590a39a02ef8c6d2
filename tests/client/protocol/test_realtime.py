"""The speech-to-text protocol, against messages as vLLM 0.27 sends them."""

import base64
import json

import pytest

from voice_client.errors import ProtocolError
from voice_client.protocol import realtime
from voice_client.protocol.json_message import Unknown


@pytest.mark.parametrize(
    ("message", "event"),
    [
        ('{"type": "session.created", "id": "sess-1", "created": 1764000000}', realtime.SessionCreated("sess-1")),
        ('{"type": "transcription.delta", "delta": ""}', realtime.TranscriptionDelta("")),
        ('{"type": "transcription.delta", "delta": " olá"}', realtime.TranscriptionDelta(" olá")),
        (
            '{"type": "transcription.done", "text": "w0 ", "usage": '
            '{"prompt_tokens": 1, "total_tokens": 4, "completion_tokens": 3}}',
            realtime.TranscriptionDone("w0 ", realtime.Usage(1, 3, 4)),
        ),
        ('{"type": "transcription.done", "text": ""}', realtime.TranscriptionDone("", None)),
        (
            '{"type": "error", "error": "no such model", "code": "model_not_found"}',
            realtime.ErrorEvent("no such model", "model_not_found"),
        ),
        ('{"type": "error", "error": {"message": "m", "code": "c"}}', realtime.ErrorEvent("m", "c")),
        ('{"type": "error"}', realtime.ErrorEvent("the server gave no reason", None)),
    ],
)
def test_every_event_is_read(message: str, event: realtime.ServerEvent) -> None:
    assert realtime.parse(message) == event


@pytest.mark.parametrize(
    ("code", "passing"),
    [
        ("processing_error", True),
        ("session_limit", True),
        ("shutting_down", True),
        ("upstream_died", True),
        ("model_not_found", False),
        ("invalid_audio", False),
        ("session_length_limit", False),
        (None, False),
    ],
)
def test_which_errors_a_new_session_can_cure(code: str | None, passing: bool) -> None:
    assert realtime.ErrorEvent("m", code).passing is passing


def test_an_event_of_a_later_release_is_kept() -> None:
    event = realtime.parse('{"type": "transcription.words", "words": []}')
    assert isinstance(event, Unknown)
    assert event.type == "transcription.words"
    assert event.fields["words"] == []


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ("hello", "not JSON"),
        ("[1]", "no type"),
        ('{"delta": "x"}', "no type"),
        ('{"type": "transcription.delta"}', "transcription.delta: field delta should be a string but is missing"),
        ('{"type": "transcription.delta", "delta": 3}', "but is int"),
        ('{"type": "session.created"}', "field id"),
        (b"\x00\x01", "binary message of 2 bytes"),
    ],
)
def test_what_breaks_the_protocol_is_named(message: str | bytes, reason: str) -> None:
    with pytest.raises(ProtocolError, match=reason):
        realtime.parse(message)


def test_commands_are_as_the_server_wants_them() -> None:
    assert json.loads(realtime.session_update("m")) == {"type": "session.update", "model": "m"}
    assert json.loads(realtime.start()) == {"type": "input_audio_buffer.commit"}
    assert json.loads(realtime.finish()) == {"type": "input_audio_buffer.commit", "final": True}
    append = json.loads(realtime.append(b"\x01\x02"))
    assert append["type"] == "input_audio_buffer.append"
    assert base64.b64decode(append["audio"]) == b"\x01\x02"


@pytest.mark.parametrize("pcm", [b"", b"\x00\x01\x02"])
def test_half_a_sample_is_never_sent(pcm: bytes) -> None:
    with pytest.raises(ProtocolError, match="no PCM16"):
        realtime.append(pcm)


def test_spoken_words_are_not_in_what_a_log_shows() -> None:
    events = [
        realtime.parse('{"type": "transcription.delta", "delta": "secret"}'),
        realtime.parse('{"type": "transcription.done", "text": "secret"}'),
        realtime.parse('{"type": "new.event", "text": "secret"}'),
    ]
    assert "secret" not in repr(events)
    with pytest.raises(ProtocolError) as error:
        realtime.parse("secret words that are no JSON")
    assert "secret" not in str(error.value)
