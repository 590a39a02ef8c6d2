"""What a caller gets wrong ends at once, with a name for it, and harms neither the endpoint nor the next caller."""

import base64
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from stacks.names import Service
from tests.integration.speech import CONVERSATION_SECONDS, SHORTEST
from tests.integration.stage import DeployedStage, within
from voice_client import BadInputError, EndpointNotFoundError, Synthesizer, Transcriber, VoiceError
from voice_client.protocol import realtime, speech
from voice_client.transport import BidiStream, StreamTarget, VoiceTransport

pytestmark = pytest.mark.timeout(600)

FEW_MESSAGES = 20
"""Messages among which the answer to a wrong one must be."""


# What `voice` says and how it exits


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("transcribe", "no-such-file.wav"), 2, "no-such-file.wav"),
        (("speak", "   "), 2, "no text"),
        (("speak", "Hello.", "--voice", "Nobody"), 2, "Nobody"),
        (("speak", "Hello.", "--language", "Klingon"), 2, "Klingon"),
        (("speak", "Hello.", "-o", "hello.txt"), 2, "hello.txt"),
    ],
    ids=["no such file", "no text", "unknown voice", "unknown language", "no kind of audio file"],
)
def test_an_input_that_cannot_be_used_is_named(
    stage: DeployedStage, arguments: Sequence[str], code: int, said: str
) -> None:
    done = stage.voice_command(*arguments, "--stage", stage.stage)

    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    assert said.lower() in done.stderr.lower()
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("content", [b"this is no audio at all", b""], ids=["text", "empty"])
def test_a_file_that_is_no_audio_is_named(stage: DeployedStage, tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "note.wav"
    path.write_bytes(content)

    done = stage.voice_command("transcribe", path, "--stage", stage.stage)

    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert "note.wav" in done.stderr


def test_a_wrong_secret_key_is_named(stage: DeployedStage) -> None:
    """A key pair that does not fit: AWS's error type for it is one that the client knows."""
    key = {"AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7EXAMPLE", "AWS_SECRET_ACCESS_KEY": "wrong", "AWS_SESSION_TOKEN": ""}
    done = stage.voice_command("transcribe", SHORTEST, "--endpoint", stage.name("stt"), "--region", stage.region, **key)

    assert (done.returncode, done.stdout) == (3, ""), done.stderr
    assert "credentials" in done.stderr or "signature" in done.stderr


def test_a_stage_that_is_not_deployed_is_named(stage: DeployedStage) -> None:
    done = stage.voice_command("speak", "Hello.", "--stage", "nowhere")

    assert (done.returncode, done.stdout) == (3, ""), done.stderr
    assert "nowhere" in done.stderr


async def test_an_endpoint_that_does_not_exist_is_named(stage: DeployedStage) -> None:
    with pytest.raises(EndpointNotFoundError, match="no-such-voice"):
        async with Transcriber.connect(endpoint_name="no-such-voice", retry=None):
            pass


async def test_an_invocation_path_with_a_leading_slash_is_refused(stage: DeployedStage) -> None:
    async with VoiceTransport(StreamTarget(stage.name("tts"), stage.region)) as transport:
        with pytest.raises(BadInputError, match="leading slash"):
            await transport.open_stream("/v1/audio/speech/stream")


@pytest.mark.parametrize("service", ["stt", "tts"])
async def test_a_path_that_the_container_does_not_serve_is_refused(stage: DeployedStage, service: Service) -> None:
    async def ask() -> None:
        async with stage.stream(service, "v1/no-such-path") as stream:
            await stream.send_text("{}")
            await anext(stream)

    with pytest.raises(VoiceError) as refused:
        await within(CONVERSATION_SECONDS, ask())
    assert stage.name(service) in str(refused.value)


# What the containers answer to messages that a client of ours never sends


async def error_event(stream: BidiStream) -> dict[str, Any]:
    """Return the first error event; `VoiceError` when the stream ends before one."""
    for _ in range(FEW_MESSAGES):
        message = await anext(stream)
        event = json.loads(message) if isinstance(message, str) else {}
        if event.get("type") == "error":
            return dict(event)
    pytest.fail(f"no error event among {FEW_MESSAGES} messages")


ODD_AUDIO = json.dumps({"type": "input_audio_buffer.append", "audio": base64.b64encode(b"abc").decode()})


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ("no JSON {", "invalid_json"),
        (json.dumps({"type": "response.create"}), "unknown_event"),
        (realtime.session_update("somebody/else"), "model_not_found"),
        (ODD_AUDIO, "invalid_audio"),
    ],
    ids=["no JSON", "unknown event", "unknown model", "odd audio"],
)
async def test_the_ear_answers_a_wrong_message_with_its_code(stage: DeployedStage, message: str, code: str) -> None:
    async def ask() -> dict[str, Any]:
        async with stage.stream("stt", "v1/realtime") as stream:
            await anext(stream)  # session.created
            if code == "invalid_audio":
                await stream.send_text(realtime.session_update(stage.published("stt", "model")))
            await stream.send_text(message)
            return await error_event(stream)

    with stage.explained("stt"):
        event = await within(CONVERSATION_SECONDS, ask())

    assert event["code"] == code, event


@pytest.mark.parametrize(
    ("messages", "said"),
    [
        ((json.dumps({"type": "session.config", "response_format": "wav", "stream_audio": True}),), "pcm"),
        ((json.dumps({"type": "session.config", "speed": 9.0}),), "speed"),
        ((speech.input_text("Hello."),), "session.config"),
        ((json.dumps({"type": "session.config", "model": "somebody/else"}),), "somebody/else"),
    ],
    ids=["streamed WAV", "speed out of range", "text before config", "unknown model"],
)
async def test_the_voice_answers_a_wrong_message_with_its_reason(
    stage: DeployedStage, messages: Sequence[str], said: str
) -> None:
    async def ask() -> dict[str, Any]:
        async with stage.stream("tts", speech.INVOCATION_PATH) as stream:
            for message in messages:
                await stream.send_text(message)
            return await error_event(stream)

    with stage.explained("tts"):
        event = await within(CONVERSATION_SECONDS, ask())

    assert said in event["message"], event


async def test_a_voice_the_model_does_not_have_is_an_error_and_no_silence(stage: DeployedStage) -> None:
    """The model finds it out after its front-end took it: `session.done` alone is no success."""

    async def ask() -> dict[str, Any]:
        async with stage.stream("tts", speech.INVOCATION_PATH) as stream:
            config = {"type": "session.config", "voice": "Nobody", "response_format": "pcm", "stream_audio": True}
            for message in (json.dumps(config), speech.input_text("Hello."), speech.input_done()):
                await stream.send_text(message)
            return await error_event(stream)

    with stage.explained("tts"):
        event = await within(CONVERSATION_SECONDS, ask())

    assert "nobody" in event["message"].lower(), event


async def test_both_endpoints_serve_on_after_all_that(stage: DeployedStage) -> None:
    with stage.explained("stt", "tts"):
        async with Transcriber.connect(stage=stage.stage), Synthesizer.connect(stage=stage.stage):
            pass
