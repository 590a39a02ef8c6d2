"""A wrong setting of each kind is one clear message that names the key; all of them come at once."""

import re
from pathlib import Path
from typing import Any, get_args

import pytest

from stacks.endpoint_settings import S3Location
from stacks.names import Service, endpoint_name, parameter_name
from stacks.settings import LOG_RETENTION_DAYS, SettingsError, StageSettings, load_settings, read_context, setting_keys
from voice_constructs.inference_ami import CudaVersion

CDK_JSON = Path(__file__).resolve().parents[2] / "cdk.json"


def load(stage: dict[str, Any] | None = None, /, **overrides: Any) -> StageSettings:
    """Load stage `dev` from an object as in cdk.json, and overrides with `__` for the dot."""
    context = {key.replace("__", "."): value for key, value in overrides.items()}
    return load_settings({"voice": {"dev": stage or {}}, **context})


def problems_of(stage: dict[str, Any] | None = None, /, **overrides: Any) -> dict[str, str]:
    """Return key -> whole message of every problem."""
    with pytest.raises(SettingsError) as caught:
        load(stage, **overrides)
    return {problem.key: str(problem) for problem in caught.value.problems}


class TestReading:
    def test_defaults_are_the_walkthroughs(self) -> None:
        settings = load()
        assert settings.stt.model == "mistralai/Voxtral-Mini-4B-Realtime-2602"
        assert settings.tts.model == "Qwen/Qwen3-TTS-12Hz-1.7B-CustomVoice"
        for endpoint in (settings.stt, settings.tts):
            assert endpoint.instance_types == ("ml.g6.xlarge", "ml.g6e.xlarge", "ml.g5.xlarge", "ml.g4dn.xlarge")
        assert settings.stt.max_model_len == 45_000
        assert (settings.account, settings.region) == (None, None)

    def test_the_stages_of_cdk_json_can_be_used(self) -> None:
        context = read_context(CDK_JSON)
        dev, prod = load_settings(context), load_settings(context, "prod")
        assert dev.stage == "dev"
        assert not dev.termination_protection
        assert not dev.retain_logs
        assert prod.termination_protection
        assert prod.retain_logs
        assert load_settings({**context, "stage": "prod"}) == prod

    def test_the_command_line_overrides_a_stage(self) -> None:
        settings = load(
            {"stt": {"model": "a/b", "instance_count": 2}, "log_retention_days": 7},
            stt__model="mistralai/Other",
            tts__instance_types="ml.g6.xlarge, ml.g5.xlarge",
            log_retention_days="90",
            termination_protection="true",
        )
        assert settings.stt.model == "mistralai/Other"
        assert settings.stt.instance_count == 2
        assert settings.tts.instance_types == ("ml.g6.xlarge", "ml.g5.xlarge")
        assert settings.log_retention_days == 90
        assert settings.termination_protection is True

    def test_reading_leaves_the_context_as_it_was(self) -> None:
        context = {"voice": {"dev": {"stt": {"model": "a/b"}}}, "stt.model": "c/d"}
        load_settings(context)
        assert context == {"voice": {"dev": {"stt": {"model": "a/b"}}}, "stt.model": "c/d"}

    def test_the_cdks_own_context_is_no_setting_of_ours(self) -> None:
        load_settings(
            {
                "voice": {"dev": {}},
                "@aws-cdk/aws-iam:minimizePolicies": True,
                "aws:cdk:enable-path-metadata": True,
                "cli-telemetry": False,
                "availability-zones:account=111122223333:region=us-east-1": ["us-east-1a"],
            }
        )

    def test_server_arguments_join_the_defaults_and_null_takes_one_away(self) -> None:
        settings = load(
            {"stt": {"server_arguments": {"tokenizer_mode": None, "max_num_seqs": 8, "enforce_eager": True}}},
            stt__server_arguments__gpu_memory_utilization="0.85",
            stt__server_arguments__load_format="",
        )
        assert settings.stt.environment == {
            "SM_VLLM_COMPILATION_CONFIG": '{"cudagraph_mode": "PIECEWISE"}',
            "SM_VLLM_CONFIG_FORMAT": "mistral",
            "SM_VLLM_ENFORCE_EAGER": "true",
            "SM_VLLM_GPU_MEMORY_UTILIZATION": "0.85",
            "SM_VLLM_MAX_MODEL_LEN": "45000",
            "SM_VLLM_MAX_NUM_SEQS": "8",
        }

    def test_an_option_without_a_setting_of_its_own_is_passed_on(self) -> None:
        assert load(tts__server_arguments__max_model_len="4096").tts.environment["SM_VLLM_MAX_MODEL_LEN"] == "4096"

    def test_an_s3_folder_is_split(self) -> None:
        assert load(stt__weights="s3://my-bucket/voxtral/v1/").stt.weights_location == S3Location(
            "my-bucket", "voxtral/v1/"
        )
        assert load().stt.weights_location is None

    def test_the_published_length_holds_on_every_pool(self) -> None:
        assert load().stt.shortest_max_model_len == 16_384
        assert load(stt__instance_types="ml.g6.xlarge").stt.shortest_max_model_len == 45_000
        short = load(stt__max_model_len="8192").stt
        assert short.shortest_max_model_len == 8_192
        assert short.half_precision_environment == {"SM_VLLM_DTYPE": "half", "SM_VLLM_MAX_MODEL_LEN": "8192"}
        assert load(stt__half_precision_max_model_len="").stt.shortest_max_model_len == 45_000

    def test_cuda_is_stated_only_where_the_tag_does_not_tell(self) -> None:
        assert load().stt.cuda is None
        assert load(stt__base_image="example.com/vllm:mine", stt__base_image_cuda="12.8").stt.cuda == CudaVersion(12, 8)

    def test_names_are_literal(self) -> None:
        assert [endpoint_name("dev", service) for service in get_args(Service)] == ["dev-voice-stt", "dev-voice-tts"]
        assert load().endpoint_name("tts") == "dev-voice-tts"
        assert parameter_name("prod", "stt", "max-model-len") == "/sagemaker-voice/prod/stt/max-model-len"


class TestMistakes:
    @pytest.mark.parametrize(
        ("key", "value", "says"),
        [
            ("stt.instance_types", "ml.p9.xlarge", "'ml.p9.xlarge' is no known GPU instance type"),
            ("stt.instance_types", "g6.xlarge", "'g6.xlarge' is no known"),
            ("tts.instance_types", "ml.g6.xlarge,ml.g5.xlarge,ml.g6.xlarge", "ml.g6.xlarge given more than once"),
            (
                "tts.instance_types",
                "ml.g6.xlarge,ml.g6.2xlarge,ml.g6.4xlarge,ml.g5.xlarge,ml.g5.2xlarge,ml.g5.4xlarge",
                "6 instance types given; SageMaker takes 1 to 5",
            ),
            ("tts.instance_types", "", "no known GPU instance type"),
            ("stt.instance_count", "0", "greater than or equal to 1"),
            ("stt.instance_count", "many", "valid integer"),
            ("stt.model", "voxtral", "should match pattern"),
            ("stt.weights", "s3://bucket/model.tar.gz", "write s3://bucket/prefix/"),
            ("stt.weights", "s3://bucket", "write s3://bucket/prefix/"),
            ("stt.weights", "staged", "need a commit as revision"),
            ("staging.hub", "http://hub.example.com", "should match pattern"),
            ("staging.timeout_minutes", "90", "less than or equal to 55"),
            ("stt.max_model_len", "10", "greater than or equal to 1024"),
            ("stt.base_image", "public.ecr.aws/vllm", "should match pattern"),
            ("stt.base_image_cuda", "12.9", "has CUDA 13.0, not 12.9"),
            ("stt.base_image_cuda", "thirteen", "'thirteen' is no CUDA version"),
            ("tts.container_version", "latest", "should match pattern"),
            ("tts.container_cuda", "12.4", "has CUDA 13.0, not 12.4"),
            ("tts.stage_init_timeout_seconds", "2000", "more than startup_timeout_seconds (1800 s)"),
            ("tts.provision_timeout_seconds", "60", "greater than or equal to 300"),
            ("tts.startup_timeout_seconds", "7200", "less than or equal to 3600"),
            ("log_retention_days", "8", "CloudWatch Logs takes 1, 3, 5"),
            ("region", "us-esat-1", "did you mean us-west-1 or us-east-1?"),
            ("account", "1234", "should match pattern"),
            ("termination_protection", "perhaps", "valid boolean"),
            ("stt.server_arguments.hf_token", "hf_x", "is a secret"),
            ("stt.server_arguments.max_model_len", "1", "setting of its own, max_model_len"),
            ("tts.server_arguments.port", "80", "fixed by SageMaker"),
            ("paused", "maybe", "valid boolean"),
            ("owner", "me<script>", "should match pattern"),
            ("stt.scaling.min_instances", "0", "greater than or equal to 1"),
            ("tts.scaling.streams_per_instance", "0", "greater than 0"),
            ("tts.scaling.scale_in_cooldown_seconds", "-1", "greater than or equal to 0"),
            ("tts.update.termination_wait_seconds", "60", "greater than or equal to 1800"),
            ("tts.update.canary_percent", "90", "less than or equal to 50"),
            ("monitoring.alarms_email", "nobody", "is no e-mail address"),
            ("monitoring.alarms_topic_arn", "my-topic", "is no ARN of an SNS topic"),
            ("vpc.id", "default", "should match pattern"),
            ("vpc.cidr", "10.0.0.0", "should match pattern"),
            ("vpc.route_table_ids", "main", "no id of the form rtb-"),
            ("vpc.subnet_ids", "subnet-0123456789abcdef0", "vpc.id is not"),
            ("vpc.create_endpoints", "true", "no vpc.id"),
        ],
    )
    def test_one_wrong_value_is_one_message_that_names_its_key(self, key: str, value: str, says: str) -> None:
        ((reported, message),) = problems_of(**{key.replace(".", "__"): value}).items()
        assert key.startswith(reported)
        assert says in message
        assert f"(-c {key}=...)" in message

    def test_memory_too_small_for_the_model(self) -> None:
        message = problems_of({"stt": {"min_gpu_memory_gb": 24}})["stt.instance_types"]
        assert "ml.g4dn.xlarge has 16 GB on its T4; the model needs 24 GB on one GPU" in message
        assert "ml.g5" not in message

    def test_a_container_whose_cuda_is_unknown_must_say_it(self) -> None:
        assert "give it as MAJOR.MINOR" in problems_of(tts__container_version="v2.7")["tts.container_cuda"]
        assert load(tts__container_version="v2.7", tts__container_cuda="13.1").tts.cuda == CudaVersion(13, 1)

    def test_a_cuda_version_without_inference_ami(self) -> None:
        message = problems_of(stt__base_image="example.com/vllm:mine", stt__base_image_cuda="11.8")[
            "stt.base_image_cuda"
        ]
        assert "no inference AMI is known for CUDA 11.8" in message

    def test_weights_in_s3_have_no_revision(self) -> None:
        assert "leave out" in problems_of(stt__weights="s3://my-bucket/v/", stt__revision="main")["stt.weights"]

    def test_staged_weights_pin_a_commit_and_say_which_files(self) -> None:
        commit = "0a1b2c3d4e5f60718293a4b5c6d7e8f901234567"
        staged = load(stt__weights="staged", stt__revision=commit)
        assert staged.weights_staged
        assert staged.stt.weights_location is None
        assert "params.json" in staged.stt.weights_files
        assert "not main" in problems_of(stt__weights="staged", stt__revision="main")["stt.weights"]
        empty = problems_of(stt__weights="staged", stt__revision=commit, stt__weights_files="")
        assert "at least one pattern" in empty["stt.weights_files"]

    @pytest.mark.parametrize(
        ("wrong", "right"),
        [("stt.modle", "stt.model"), ("sst.model", "stt.model"), ("log_retention", "log_retention_days")],
    )
    def test_a_misspelt_key_gets_a_suggestion_from_either_place(self, wrong: str, right: str) -> None:
        assert f"did you mean {right}?" in problems_of(**{wrong.replace(".", "__"): "x"})[wrong]
        section, _, name = wrong.rpartition(".")
        in_file = {section: {name: "x"}} if section in {"stt", "tts"} else {name: "x"} if not section else None
        if in_file is not None:
            message = problems_of(in_file)[wrong]
            assert f"did you mean {right}?" in message
            assert f"cdk.json, voice.dev.{wrong}" in message

    def test_all_mistakes_of_both_places_come_at_once(self) -> None:
        found = problems_of(
            {"region": "moon-1", "stt": {"instance_count": 0, "instance_types": ["ml.x.y"]}, "tts": {"modell": "a/b"}},
            tts__startup_timeout_seconds="5",
            log_retention_days="2",
            stt__nonsense="1",
        )
        assert set(found) == {
            "region",
            "stt.instance_count",
            "stt.instance_types",
            "tts.modell",
            "tts.startup_timeout_seconds",
            "log_retention_days",
            "stt.nonsense",
        }

    def test_the_whole_error_reads_as_a_list(self) -> None:
        with pytest.raises(SettingsError) as caught:
            load(log_retention_days="2", stt__instance_count="0")
        first, *lines = str(caught.value).splitlines()
        assert first == "2 problems in the settings:"
        assert len(lines) == 2

    @pytest.mark.parametrize("stage", ["staging", "Dev", "", "dev_1"])
    def test_an_unknown_stage_names_the_known_ones(self, stage: str) -> None:
        with pytest.raises(SettingsError, match="known: dev, prod"):
            load_settings({"voice": {"dev": {}, "prod": {}}, "stage": stage or "none"})

    @pytest.mark.parametrize("context", [{}, {"voice": {}}, {"voice": "dev"}, {"voice": {"dev": "x"}}])
    def test_settings_of_the_wrong_shape_are_no_traceback(self, context: dict[str, Any]) -> None:
        with pytest.raises(SettingsError):
            load_settings(context)

    @pytest.mark.parametrize("stt", ["x", 3, ["model"]])
    def test_a_section_of_the_wrong_shape_is_named_even_under_an_override(self, stt: object) -> None:
        assert "stt" in problems_of({"stt": stt}, stt__model="a/b")


class TestTogether:
    """Values that are right by themselves and wrong with one another."""

    def test_min_above_max(self) -> None:
        message = problems_of(stt__scaling__min_instances="3", stt__scaling__max_instances="2")
        assert "2 is less than min_instances (3)" in message["stt.scaling.max_instances"]

    def test_a_count_outside_of_the_scaling_limits(self) -> None:
        message = problems_of(tts__instance_count="5", tts__scaling__max_instances="2")["tts.scaling"]
        assert "instance_count (5) is not between min_instances (1) and max_instances (2)" in message
        assert "-c tts.scaling.max_instances=..." in message

    def test_a_count_without_scaling_is_free(self) -> None:
        assert load(tts__instance_count="5").tts.certain_instance_count == 5
        assert load(tts__instance_count="2", tts__scaling__max_instances="4").tts.certain_instance_count == 1

    @pytest.mark.parametrize(
        ("key", "value"),
        [
            ("alarms_email", "a@example.com"),
            ("alarms_topic_arn", "arn:aws:sns:us-east-1:111122223333:on-call"),
        ],
    )
    def test_somebody_to_tell_and_nothing_to_tell(self, key: str, value: str) -> None:
        message = problems_of({"monitoring": {"alarms": False, key: value}})[f"monitoring.{key}"]
        assert "monitoring.alarms is false" in message

    def test_mail_and_a_topic_of_ones_own(self) -> None:
        message = problems_of(
            monitoring__alarms_email="a@example.com",
            monitoring__alarms_topic_arn="arn:aws:sns:us-east-1:111122223333:on-call",
        )
        assert "give alarms_email or alarms_topic_arn" in message["monitoring.alarms_topic_arn"]

    def test_a_vpc_without_subnets(self) -> None:
        vpc = {"id": "vpc-0123abcd", "internet_egress": True}
        assert "at least one subnet" in problems_of({"vpc": vpc})["vpc.subnet_ids"]

    def test_vpc_endpoints_need_to_know_where(self) -> None:
        vpc = {
            "id": "vpc-0123abcd",
            "subnet_ids": ["subnet-0123abcd"],
            "internet_egress": True,
            "create_endpoints": True,
        }
        found = problems_of({"vpc": vpc})
        assert "10.0.0.0/16" in found["vpc.cidr"]
        assert "lead to S3" in found["vpc.route_table_ids"]

    def test_weights_from_the_hub_in_a_vpc_without_a_way_out(self) -> None:
        vpc = {"id": "vpc-0123abcd", "subnet_ids": ["subnet-0123abcd"]}
        message = problems_of({"vpc": vpc, "tts": {"weights": "s3://my-bucket/qwen/"}})["vpc"]
        assert "vpc.internet_egress is false" in message
        assert "stt.weights" in message
        assert "tts.weights" not in message
        assert load({"vpc": {**vpc, "internet_egress": True}}).vpc.subnet_ids == ("subnet-0123abcd",)

    def test_tags_hold_what_was_given(self) -> None:
        assert load().tags == {"project": "sagemaker-voice", "stage": "dev"}
        assert load(owner="me", cost_center="42").tags == {
            "project": "sagemaker-voice",
            "stage": "dev",
            "owner": "me",
            "cost-center": "42",
        }


def test_the_settings_page_has_a_row_for_every_setting_and_for_no_other() -> None:
    page = (CDK_JSON.parent / "docs" / "settings.md").read_text()
    rows = re.findall(r"^\| `([a-z_.]+)` \|", page, re.MULTILINE)
    assert len(rows) == len(set(rows))
    # What both endpoints have is written once, without the endpoint's name.
    written = {key.removeprefix("stt.").removeprefix("tts.") for key in setting_keys()}
    assert {row.removeprefix("stt.").removeprefix("tts.") for row in rows} == written
    only_one = {key for key in rows if key.startswith(("stt.", "tts."))}
    assert only_one <= set(setting_keys())


def test_every_retention_setting_has_its_cdk_constant() -> None:
    from stacks.voice_stack import RETENTION

    assert tuple(RETENTION) == LOG_RETENTION_DAYS
