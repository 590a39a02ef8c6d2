"""Sessions as long as real ones (`--slow`): minutes of speech in real time, none of it lost."""

import asyncio
import datetime
from pathlib import Path

import pytest

from tests.e2e.deployed_cloud import RECORDINGS
from tests.integration.measuring import Measuring
from tests.integration.speech import TRANSCRIPTS, join
from tests.integration.stage import DeployedStage
from voice_client import AudioFile, Final, Notice, SessionStarted, Transcriber, TranscriberSettings, Turns
from voice_local.word_error_rate import word_error_rate

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]

ALL_TURNS = 0.15
"""Share of misheard words over a long session; a lost turn alone costs several per cent."""

METRIC_SECONDS = 600
"""CloudWatch shows a minute some minutes later."""


@pytest.mark.parametrize(
    ("minutes", "streams"),
    [
        pytest.param(10, 1, id="10 minutes"),
        # Beyond the platform's 30 minutes: a second stream is opened, and nothing is lost between the two.
        pytest.param(40, 2, id="40 minutes", marks=pytest.mark.aws_only),
    ],
)
async def test_a_paced_session_loses_no_turn(
    stage: DeployedStage, measuring: Measuring, tmp_path: Path, minutes: int, streams: int
) -> None:
    names = sorted(TRANSCRIPTS)
    path = tmp_path / "session.wav"
    count = join([RECORDINGS / name for name in names], path, seconds=60 * minutes, pause_seconds=1.5)
    spoken = " ".join(TRANSCRIPTS[names[number % len(names)]] for number in range(count))
    settings = TranscriberSettings(turns=Turns(pause=0.7))
    heard, opened, retries = [], 0, 0

    with stage.explained("stt"):
        async with (
            asyncio.timeout(60 * minutes + 300),
            Transcriber.connect(stage=stage.stage, settings=settings) as ear,
        ):
            async for event in ear.transcribe(AudioFile(path)):
                match event:
                    case Final(text=text, metrics=metrics):
                        heard.append(text)
                        measuring.heard(metrics, paced=True)
                    case SessionStarted():
                        opened += 1
                    case Notice():
                        retries += 1

    error_rate = word_error_rate(spoken, " ".join(heard))
    measuring.add(f"wer.session_{minutes}_minutes", "ratio", error_rate)
    assert error_rate <= ALL_TURNS, f"{count} recordings were spoken, {len(heard)} turns heard"
    assert opened == streams, f"{opened} streams were opened"
    assert retries == 0, f"the stream was lost {retries} times"


@pytest.mark.aws_only
async def test_streams_are_counted_in_the_metrics_that_scaling_and_alarms_read(stage: DeployedStage) -> None:
    """Runs after the sessions above."""
    cloudwatch = stage.client("cloudwatch")
    now = datetime.datetime.now(datetime.UTC)
    wanted = {"Invocations", "ConcurrentRequestsPerModel"}
    found: set[str] = set()
    for _ in range(METRIC_SECONDS // 30):
        for name in wanted - found:
            answer = cloudwatch.get_metric_statistics(
                Namespace="AWS/SageMaker",
                MetricName=name,
                Dimensions=[
                    {"Name": "EndpointName", "Value": stage.name("stt")},
                    {"Name": "VariantName", "Value": stage.variants("stt")[0]["VariantName"]},
                ],
                StartTime=now - datetime.timedelta(hours=1),
                EndTime=now + datetime.timedelta(hours=1),
                Period=60,
                Statistics=["Maximum", "Sum"],
            )
            if any(point["Sum"] > 0 for point in answer["Datapoints"]):
                found.add(name)
        if found == wanted:
            return
        await asyncio.sleep(30)
    pytest.fail(f"after {METRIC_SECONDS} s no stream is counted in {', '.join(sorted(wanted - found))}", pytrace=False)
