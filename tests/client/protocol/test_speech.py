"""The text-to-speech protocol, against messages as vLLM-Omni 0.26 sends them."""

import json

import pytest

from voice_client.errors import ProtocolError
from voice_client.protocol import speech
from voice_client.protocol.json_message import Unknown


@pytest.mark.parametrize(
    ("message", "event"),
    [
        (
            '{"type": "audio.start", "utterance_index": 1, "sentence_index": 0, "sentence_text": "Two.", '
            '"format": "pcm", "sample_rate": 24000}',
            speech.AudioStart(1, 0, 24000),
        ),
        (
            '{"type": "audio.start", "utterance_index": 0, "sentence_index": 0, "format": "wav"}',
            speech.AudioStart(0, 0, None),
        ),
        (b"\x01\x02\x03", speech.Audio(b"\x01\x02\x03")),
        (
            '{"type": "audio.done", "utterance_index": 0, "sentence_index": 0, "total_bytes": 24000, "error": true}',
            speech.AudioDone(0, 24000, error=True),
        ),
        (
            '{"type": "session.done", "utterance_index": 0, "total_sentences": 1}',
            speech.SessionDone(0, 1),
        ),
        ('{"type": "error", "message": "no"}', speech.ErrorEvent("no")),
    ],
)
def test_every_event_is_read(message: str | bytes, event: speech.ServerEvent) -> None:
    assert speech.parse(message) == event


def test_an_event_of_a_later_release_is_kept() -> None:
    event = speech.parse('{"type": "audio.level", "db": -3}')
    assert isinstance(event, Unknown)
    assert event.type == "audio.level"


def test_an_event_without_its_fields_is_named() -> None:
    with pytest.raises(ProtocolError, match=r"audio\.done: field total_bytes"):
        speech.parse('{"type": "audio.done"}')
    with pytest.raises(ProtocolError, match="field error should be true or false but is str"):
        speech.parse('{"type": "audio.done", "total_bytes": 1, "error": "no"}')


def test_streamed_pcm_is_always_asked_for() -> None:
    config = json.loads(speech.session_config(model="m", voice="Vivian", language=None))
    assert config == {
        "type": "session.config",
        "model": "m",
        "voice": "Vivian",
        "response_format": "pcm",
        "stream_audio": True,
    }


def test_text_goes_as_it_is() -> None:
    assert json.loads(speech.input_text('Grüß "Gott" 😀')) == {"type": "input.text", "text": 'Grüß "Gott" 😀'}
    assert json.loads(speech.input_done()) == {"type": "input.done"}


def test_a_message_over_the_servers_limit_is_not_sent() -> None:
    speech.input_text("ü" * 60_000)
    with pytest.raises(ProtocolError, match="longer than 131072 bytes"):
        speech.input_text("ü" * 70_000)
