"""The ear: human recordings with bounds on the errors, both invocation paths, and a plain request."""

import json

import pytest
from botocore.exceptions import ClientError

from tests.e2e.deployed_cloud import RECORDINGS
from tests.integration.measuring import Measuring
from tests.integration.speech import CONVERSATION_SECONDS, SHORTEST, TRANSCRIPTS, hear, unpaced
from tests.integration.stage import DeployedStage, within
from voice_client import AudioFile, Transcriber
from voice_client.protocol import realtime
from voice_client.transport import StreamTarget, VoiceTransport
from voice_local.word_error_rate import word_error_rate

pytestmark = pytest.mark.timeout(600)

WORST_RECORDING = 0.35
"""Of seven words two may be misheard; of twenty, seven."""

ALL_RECORDINGS = 0.12


async def test_human_recordings_are_understood_while_they_are_spoken(
    stage: DeployedStage, measuring: Measuring
) -> None:
    heard: dict[str, str] = {}
    with stage.explained("stt"):
        async with Transcriber.connect(stage=stage.stage) as ear:
            for name in TRANSCRIPTS:
                result = await within(CONVERSATION_SECONDS, hear(ear, RECORDINGS / name, measuring, paced=True))
                assert result.retries == 0, f"{name} needed {result.retries} new streams"
                heard[name] = result.text

    rates = {name: word_error_rate(TRANSCRIPTS[name], text) for name, text in heard.items()}
    together = word_error_rate(" ".join(TRANSCRIPTS.values()), " ".join(heard.values()))
    for rate in rates.values():
        measuring.add("wer.recording", "ratio", rate)
    measuring.add("wer.recordings_together", "ratio", together)
    assert together <= ALL_RECORDINGS, heard
    assert max(rates.values()) <= WORST_RECORDING, heard


@pytest.mark.parametrize("path", [None, "v1/realtime"], ids=["default path", "v1/realtime"])
async def test_both_invocation_paths_lead_to_the_model(
    stage: DeployedStage, measuring: Measuring, path: str | None
) -> None:
    with stage.explained("stt"):
        async with VoiceTransport(StreamTarget(stage.name("stt"), stage.region)) as transport:
            ear = Transcriber(
                lambda: transport.open_stream(path), model=stage.published("stt", "model"), settings=unpaced()
            )
            async with ear:
                result = await within(CONVERSATION_SECONDS, hear(ear, SHORTEST, measuring, paced=False))

    assert word_error_rate(TRANSCRIPTS[SHORTEST.name], result.text) <= WORST_RECORDING, result.text


async def test_a_client_that_ends_its_input_gets_the_rest_of_the_output(stage: DeployedStage) -> None:
    """How the platform passes the end on is its own; no word may be lost by it."""

    async def ask() -> str:
        async with stage.stream("stt", "v1/realtime") as stream:
            await stream.send_text(realtime.session_update(stage.published("stt", "model")))
            await stream.send_text(realtime.start())
            async with AudioFile(SHORTEST).open(rate=realtime.SAMPLE_RATE_HZ, chunk_bytes=4096) as chunks:
                async for chunk in chunks:
                    await stream.send_text(realtime.append(chunk))
            await stream.send_text(realtime.finish())
            await stream.end_input()
            async for message in stream:
                event = realtime.parse(message)
                if isinstance(event, realtime.TranscriptionDone):
                    return event.text
        pytest.fail("the stream ended before transcription.done: words were lost", pytrace=False)

    with stage.explained("stt"):
        text = await within(CONVERSATION_SECONDS, ask())

    assert word_error_rate(TRANSCRIPTS[SHORTEST.name], text) <= WORST_RECORDING, text


def test_a_plain_request_is_transcribed_or_told_where_to_go(stage: DeployedStage) -> None:
    """The bridge offers InvokeEndpoint where the model does; a model that streams only must say so at once."""
    refusal: ClientError | None = None
    try:
        answer = stage.client("sagemaker-runtime").invoke_endpoint(
            EndpointName=stage.name("stt"), ContentType="audio/wav", Body=SHORTEST.read_bytes()
        )
    except ClientError as error:
        refusal = error
    if refusal is not None:
        assert refusal.response["Error"]["Code"] == "ModelError", refusal
        assert "open a bidirectional stream instead" in str(refusal)
        return
    text = json.loads(answer["Body"].read())["text"]
    assert word_error_rate(TRANSCRIPTS[SHORTEST.name], text) <= WORST_RECORDING, text
