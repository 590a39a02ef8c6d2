"""What is wrong is said before anything is measured; what the endpoint runs on, and its price."""

import json
from pathlib import Path
from typing import Any

import pytest

from voice_client.bench.endpoint_facts import Instances, hourly_price, instances_of
from voice_client.bench.local_cloud import environment
from voice_client.bench.material import load_recordings, load_texts
from voice_client.bench.plan import BenchPlan, Place, parse_concurrency
from voice_client.errors import BadInputError


def test_the_clips_of_the_package_have_their_texts() -> None:
    recordings = load_recordings(None)
    assert len(recordings) == 5
    assert 20 < sum(recording.seconds for recording in recordings) < 30
    assert sum(len(recording.text.split()) for recording in recordings) == 70
    assert len(load_texts(None)) == 8


def test_all_that_is_wrong_with_a_folder_of_recordings_is_said_at_once(tmp_path: Path, recordings: Path) -> None:
    (tmp_path / "a.wav").write_bytes(b"no sound at all")
    (tmp_path / "a.txt").write_text("words")
    (tmp_path / "b.wav").write_bytes((recordings / "clip-0.8.wav").read_bytes())
    (tmp_path / "c.txt").write_text("words")
    (tmp_path / "d.wav").write_bytes((recordings / "clip-0.8.wav").read_bytes())
    (tmp_path / "d.txt").write_text(" \n")
    with pytest.raises(BadInputError) as error:
        load_recordings(tmp_path)
    for part in ("a.wav is not audio", "b.wav has no b.txt", "c.txt has no recording", "d.txt is empty"):
        assert part in error.value.message
    with pytest.raises(BadInputError, match="no folder"):
        load_recordings(tmp_path / "nowhere")


def test_all_that_is_wrong_with_a_plan_is_said_at_once() -> None:
    with pytest.raises(BadInputError) as error:
        BenchPlan(
            "talk", Place(stage="dev", endpoint="ear"), concurrency=(0, 2, 2), duration=0.0, ramp=-1.0, processes=0
        )
    for part in (
        "1 to 2000, not 0",
        "given twice",
        "--duration",
        "--ramp",
        "--processes",
        "exclude",
        "--speaking-endpoint",
    ):
        assert part in error.value.message
    with pytest.raises(BadInputError, match="commas"):
        parse_concurrency("1,two")


def test_a_plan_survives_the_way_to_another_process() -> None:
    plan = BenchPlan("tts", Place(stage="prod", region="eu-west-1"), concurrency=(8, 1), voice="Ryan", arrivals="open")
    assert plan.concurrency == (1, 8)
    assert BenchPlan.from_json(json.loads(json.dumps(plan.as_json()))) == plan


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("stt", "--concurrency", "none"), "no list of numbers"),
        (("stt", "--stage", "dev", "--endpoint", "ear"), "exclude each other"),
        (("stt", "--local", "--endpoint", "ear"), "--local excludes"),
        (("stt", "--recordings", "nowhere"), "no folder"),
        (("tts", "--texts", "nowhere"), "cannot be read"),
        (("tts", "--price-per-hour", "-1"), "a price is"),
        (("stt", "--local"), "there is no cdk.json"),
        (("compare", "a.json", "b.json"), "a.json cannot be read"),
    ],
)
def test_wrong_usage_is_told_before_anything_starts(voice_here: Any, arguments: tuple[str, ...], message: str) -> None:
    result = voice_here("bench", *arguments, expect=2)
    assert message in result.stderr


def test_every_command_shows_examples(voice_here: Any) -> None:
    for command in ("stt", "tts", "talk", "compare"):
        assert f"voice bench {command} " in voice_here("bench", command, "--help", expect=0).stdout


def test_an_endpoint_that_is_not_there_is_told_before_the_run(bench: Any, stand_in: Any) -> None:
    target = stand_in()
    done = bench("stt", "--endpoint", "nobody", *target.options, expect=3, environment=target.environment)
    assert "nobody" in done.stderr
    assert not list((bench.home / "bench-results").iterdir())


def test_pools_say_which_types_run() -> None:
    pools = [
        {"InstanceType": "ml.g6.xlarge", "CurrentInstanceCount": 0},
        {"InstanceType": "ml.g5.xlarge", "CurrentInstanceCount": 2},
    ]
    assert instances_of([{"VariantName": "v", "InstancePools": pools}], []) == Instances(("ml.g5.xlarge",), 2)
    silent = [
        {"VariantName": "v", "InstancePools": [{"InstanceType": "ml.g6.xlarge"}, {"InstanceType": "ml.g5.xlarge"}]}
    ]
    found = instances_of(silent, [])
    assert found.types == ("ml.g6.xlarge", "ml.g5.xlarge")
    assert found.running is None
    assert found.unknown_because is not None
    without_pools = [{"VariantName": "v", "CurrentInstanceCount": 1}]
    config = [{"VariantName": "v", "InstanceType": "ml.g6e.xlarge"}]
    assert instances_of(without_pools, config) == Instances(("ml.g6e.xlarge",), 1)


def test_a_price_is_the_users_else_the_tables_and_never_guessed() -> None:
    running = Instances(("ml.g6.xlarge",), 2)
    assert hourly_price(running, 9.0, region="us-east-1", local=True).usd == 9.0
    assert hourly_price(running, None, region="us-east-1", local=True).usd is None
    known = hourly_price(running, None, region="us-east-1", local=False)
    assert known.usd == pytest.approx(2 * 1.127)
    assert "AWS's pricing page" in known.source
    assert "eu-west-1 costs other" in hourly_price(running, None, region="eu-west-1", local=False).source
    assert hourly_price(Instances(("ml.p9.huge",), 1), None, region="us-east-1", local=False).usd is None
    unknown = hourly_price(Instances(unknown_because="AccessDenied"), None, region="us-east-1", local=False)
    assert unknown.usd is None
    assert "AccessDenied" in unknown.source


def test_nothing_of_the_users_shell_leads_a_local_run_elsewhere() -> None:
    cloud = {
        "access_key": "a",
        "secret_key": "s",
        "region": "r",
        "control_plane": "http://127.0.0.1:1",
        "data_plane": "https://127.0.0.1:2",
        "ca_bundle": "/ca.pem",
    }
    hostile = {
        "AWS_PROFILE": "work",
        "AWS_SESSION_TOKEN": "t",
        "AWS_ENDPOINT_URL_SSM": "https://elsewhere",
        "HTTPS_PROXY": "http://proxy",
        "SSL_CERT_DIR": "/certs",
        "BOTO_CONFIG": "/boto",
        "PATH": "/bin",
    }
    found = environment(cloud, hostile)
    assert found["PATH"] == "/bin"
    assert not {name for name in hostile if name != "PATH"} & found.keys()
    assert found["AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"] == "false"
