"""What an operator sees of a running stage: status, logs, sessions, events, proof, all from a control plane."""

import contextlib
import json
import os
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.local.control_plane.conftest import voice_template, wait_for_stack
from voice_local.control_plane import ControlPlane
from voice_local.identity import LocalIdentity
from voice_local.isolation import connection_variables, leading_elsewhere
from voice_ops import cli_logs, cli_status
from voice_ops.kept import kept_weights
from voice_ops.logs import LogLine, NoLogError, in_words, log_lines, seconds_of
from voice_ops.session import AwsSession
from voice_ops.sessions_now import counted
from voice_ops.smoke_test import SENTENCE, heard_share
from voice_ops.stack_watch import StackWatch
from voice_ops.status import age, stage_status

NAME = "dev-voice-stt"
GROUP = f"/aws/sagemaker/Endpoints/{NAME}"
STREAM = "AllTraffic/i-0123"

ClientOf = Callable[[str], Any]


@pytest.fixture(scope="module")
def aws(plane: ControlPlane) -> Iterator[AwsSession]:
    """A session that can reach this control plane and nothing else, as `eval "$(voice local env)"` makes one."""
    with pytest.MonkeyPatch.context() as patch:
        for name in leading_elsewhere(os.environ):
            patch.delenv(name)
        for name, value in connection_variables(identity=LocalIdentity(), control_plane_url=plane.url).items():
            patch.setenv(name, value)
        yield AwsSession()


@pytest.fixture(scope="module")
def deployed(client: ClientOf, aws: AwsSession) -> StackWatch:
    watch = StackWatch("dev", [NAME, "dev-voice-tts"], aws)
    client("cloudformation").create_stack(StackName=NAME, TemplateBody=json.dumps(voice_template()))
    assert wait_for_stack(client("cloudformation"), NAME) == "CREATE_COMPLETE"
    return watch


def write(client: ClientOf, *messages: str) -> None:
    logs = client("logs")
    with contextlib.suppress(logs.exceptions.ResourceAlreadyExistsException):
        logs.create_log_stream(logGroupName=GROUP, logStreamName=STREAM)
    now = int(time.time() * 1000)
    events = [{"timestamp": now + number, "message": message} for number, message in enumerate(messages)]
    logs.put_log_events(logGroupName=GROUP, logStreamName=STREAM, logEvents=events)


def line(message: str, instance: str = STREAM) -> LogLine:
    return LogLine(datetime.now(UTC), instance, message, *in_words(message))


def event(name: str, **fields: Any) -> str:
    return json.dumps({"time": "2026-11-29T20:00:00.000+00:00", "level": "info", "event": name, **fields})


def test_status_tells_the_type_that_was_found_its_cost_and_what_is_not_there(
    aws: AwsSession, deployed: StackWatch
) -> None:
    ear, voice = stage_status("dev", aws)

    assert (ear.state, ear.problems) == ("InService", ())
    assert [(one.instance_type, one.count) for one in ear.instances] == [("ml.g6.xlarge", 1)]
    assert ear.usd_per_hour == pytest.approx(1.127)
    assert ear.age_seconds is not None
    assert ear.usd_so_far == pytest.approx(1.127 * ear.age_seconds / 3600)
    assert ear.config is not None
    assert (voice.state, voice.instances, voice.usd_per_hour) == ("NotDeployed", (), None)


def test_the_command_prints_a_table_or_json_and_says_that_prices_are_estimates(
    aws: AwsSession, deployed: StackWatch
) -> None:
    shown = CliRunner().invoke(cli_status.app, ["--stage", "dev"])
    told = CliRunner().invoke(cli_status.app, ["--stage", "dev", "--json"])
    wrong = CliRunner().invoke(cli_status.app, ["--stage", "nowhere"])
    narrow = CliRunner(env={"COLUMNS": "40"}).invoke(cli_status.app, ["--stage", "dev"])

    assert f"{NAME} InService" in narrow.output, "nothing is cut where a table does not fit"
    assert max(map(len, narrow.output.splitlines())) <= 40
    assert shown.exit_code == 0, shown.output
    assert "1 x ml.g6.xlarge" in shown.output
    assert "estimate" in shown.output
    assert {one["endpoint"] for one in json.loads(told.output)["endpoints"]} == {NAME, "dev-voice-tts"}
    assert wrong.exit_code == 2
    assert "nowhere" in wrong.output


def test_a_watch_tells_each_event_once_and_what_the_endpoint_is(deployed: StackWatch) -> None:
    events, views = deployed.look()

    mine = [one for one in events if one.stack == NAME]
    assert mine[-1].status == "CREATE_COMPLETE"
    assert {one.resource for one in mine} >= {"Endpoint", "Model", "Config"}
    assert views[0].endpoint_state == "InService"
    assert (views[1].status, views[1].endpoint_state) == ("", "")
    again, _ = deployed.look()
    assert again == []


def test_a_stack_that_is_gone_by_name_is_seen_to_its_end(client: ClientOf, aws: AwsSession) -> None:
    cloudformation, name = client("cloudformation"), "dev-voice-foundation"
    parameter = {"Type": "AWS::SSM::Parameter", "Properties": {"Type": "String", "Value": "x"}}
    cloudformation.create_stack(StackName=name, TemplateBody=json.dumps({"Resources": {"Parameter": parameter}}))
    assert wait_for_stack(cloudformation, name) == "CREATE_COMPLETE"
    watch = StackWatch("dev", [name], aws)
    assert watch.look()[1][0].status == ""

    cloudformation.delete_stack(StackName=name)
    assert wait_for_stack(cloudformation, name) == "GONE"

    _, (view,) = watch.look()
    assert view.status == "DELETE_COMPLETE"
    assert watch.look() == ([], [view])


def test_logs_come_in_plain_words_or_raw_and_a_missing_log_is_told(
    client: ClientOf, aws: AwsSession, deployed: StackWatch
) -> None:
    opened = event("session_opened", session="ab12cd34ef56ab12", path="/v1/realtime", sessions=3)
    write(client, "INFO loading weights", opened, event("gauges", sessions=3, kv_cache_use=0.25))

    found = list(log_lines("dev", "stt", aws, since_seconds=60, follow=False))
    assert [one.text for one in found][-3:] == [
        "INFO loading weights",
        "[ab12cd34] session opened on /v1/realtime, 3 open now",
        "3 sessions open, KV cache 25 %",
    ]
    raw = CliRunner().invoke(cli_logs.app, ["stt", "--raw", "--since", "1m"])
    assert opened in raw.output.splitlines()
    told = CliRunner().invoke(cli_logs.app, ["stt", "--json"])
    assert json.loads(told.output.splitlines()[-1])["level"] == "info"
    with pytest.raises(NoLogError, match="dev-voice-tts"):
        list(log_lines("dev", "tts", aws, since_seconds=60, follow=False))
    assert CliRunner().invoke(cli_logs.app, ["tts"]).exit_code == 2
    # What the log tells, status tells.
    assert stage_status("dev", aws)[0].sessions == 3


def test_following_gives_new_lines_and_none_twice(client: ClientOf, aws: AwsSession, deployed: StackWatch) -> None:
    write(client, "before")
    lines = log_lines("dev", "stt", aws, since_seconds=60, follow=True)
    seen = []
    while (one := next(lines)).message != "before":
        seen.append(one.message)
    write(client, "after")
    assert next(lines).message == "after"
    assert seen.count("after") == 0


def test_every_event_of_the_bridges_contract_has_words() -> None:
    schema = Path(__file__).parents[3] / "container_assets" / "voxtral_bridge" / "voxtral_bridge" / "log_events.json"
    for name, described in json.loads(schema.read_text())["$defs"].items():
        fields = {field: 1 for field in described["properties"] if field not in {"time", "level", "event"}}
        level, text = in_words(event(name, **fields))
        assert level == "info"
        assert text
        assert "{" not in text


def test_sessions_are_counted_over_instances_from_what_their_bridges_say() -> None:
    first, second = "AllTraffic/i-1", "AllTraffic/i-2"
    told = [
        line(event("gauges", sessions=2), first),
        line("not JSON", first),
        line(event("session_opened", session="a", path="/", sessions=3), first),
        line(event("gauges", sessions=1), second),
        line(event("session_closed", session="b"), first),
        line(event("starting", host="h", port=1, vllm_port=2), second),
    ]

    assert counted(told) == 2
    assert counted([line("INFO vLLM is up")]) is None


@pytest.mark.parametrize(
    ("seconds", "written"),
    [(None, ""), (45, "45 s"), (720, "12 min"), (12_000, "3 h 20 min"), (190_800, "2 d 5 h")],
)
def test_an_age_is_written_as_people_say_it(seconds: float | None, written: str) -> None:
    assert age(seconds) == written


def test_a_time_ago_is_read_or_refused() -> None:
    assert [seconds_of(one) for one in ("30s", "10m", "2h", "1d")] == [30, 600, 7200, 86_400]
    with pytest.raises(NoLogError, match="write 30s, 10m"):
        seconds_of("yesterday")


def test_a_smoke_test_knows_speech_from_noise() -> None:
    assert heard_share(SENTENCE, SENTENCE.upper()) == 1
    assert heard_share(SENTENCE, "") == 0
    assert heard_share(SENTENCE, "Good morning, this is a short text of the voice") > 0.5


def test_kept_weights_are_told_with_their_cost(client: ClientOf, aws: AwsSession) -> None:
    assert kept_weights("qa", aws) == ()
    client("s3").create_bucket(Bucket="qa-weights")
    client("s3").put_object(Bucket="qa-weights", Key="models/a/b/c/w", Body=b"x" * 2_000_000)
    for key, value in (("bucket", "qa-weights"), ("project", "staging")):
        client("ssm").put_parameter(Name=f"/sagemaker-voice-weights/qa/{key}", Value=value, Type="String")

    (kept,) = kept_weights("qa", aws)

    assert "qa-weights with 2 MB" in kept.what
    assert kept.usd_per_month == pytest.approx(0.002 * 0.023, rel=0.1)  # by binary gigabytes 7 % less
    assert "aws s3 rb s3://qa-weights" in kept.remove
