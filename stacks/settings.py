"""The settings of one stage: typed, defaulted, and checked all at once before anything is built.

They come from `cdk.json`, context key `voice`, one object per stage, and from the command line, where a dotted
key overrides one value: `-c stage=prod -c stt.model=... -c tts.instance_types=ml.g6.xlarge,ml.g5.xlarge`. This
module imports nothing of aws-cdk-lib, so that operators' commands can read the settings without it.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any

from botocore.loaders import create_loader
from pydantic import BaseModel, BeforeValidator, Field, ValidationError, ValidationInfo, field_validator

from stacks.endpoint_settings import SttSettings, TtsSettings
from stacks.names import Service, endpoint_name
from stacks.operation_settings import MonitoringSettings, StagingSettings, VpcSettings
from stacks.settings_section import OptionalText, SettingsSection, none_if_empty

DEFAULT_STAGE = "dev"

# fmt: off
LOG_RETENTION_DAYS = (
    1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653,
)
# fmt: on
"""What CloudWatch Logs takes."""

_STAGES_KEY = "voice"
_STAGE_KEY = "stage"
_STAGE_NAME = re.compile(r"[a-z](?:-?[a-z0-9]){0,39}")
# A context key of this shape is meant for us; the CDK's own hold a colon, a slash or a hyphen.
_SETTING_KEY = re.compile(r"[a-z][a-z0-9_]*(?:\.[a-z0-9_]+)*")


@dataclass(frozen=True, slots=True)
class SettingsProblem:
    """One thing to change.

    Attributes:
        key: the setting, as it is written after `-c`, for example `tts.instance_types`.
        source: where its value came from.
        message: what is wrong and what to give instead.
    """

    key: str
    source: str
    message: str

    def __str__(self) -> str:
        return f"{self.key}: {self.message} ({self.source})"


class SettingsError(Exception):
    """The settings cannot be used; `problems` lists all that must change."""

    def __init__(self, problems: list[SettingsProblem]) -> None:
        self.problems = tuple(problems)
        count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
        super().__init__("\n".join([f"{count} in the settings:", *(f"  {problem}" for problem in problems)]))


TagValue = Annotated[str | None, Field(pattern=r"^[\w .:/=+@-]+$", max_length=256), BeforeValidator(none_if_empty)]


class StageSettings(SettingsSection):
    """All of one stage."""

    stage: str
    """Part of every literal name."""
    account: Annotated[str | None, Field(pattern=r"^\d{12}$"), BeforeValidator(none_if_empty)] = None
    """Default: the account of the credentials in use; without any, a template for every account."""
    region: OptionalText = None
    """Default: the region of the credentials in use; without any, a template for every region."""
    paused: bool = False
    """Keep everything but the endpoints (and what watches and scales them), so that nothing bills by the hour."""
    owner: TagValue = None
    """Tag `owner` of everything in the stacks."""
    cost_center: TagValue = None
    """Tag `cost-center` of everything in the stacks, for the bill."""
    log_retention_days: int = 30
    """Of the containers' logs."""
    retain_logs: bool = False
    """Keep the logs when the stack is destroyed. They must be deleted by hand before the stage is deployed again."""
    encrypt_logs: bool = False
    """With a key of each stack's own, 1 $ a month, which encrypts its alarms' topic too. Default: AWS's own key."""
    termination_protection: bool = False
    """Refuse to destroy the stacks until it is turned off."""
    monitoring: MonitoringSettings = Field(default_factory=MonitoringSettings)
    """Alarms, metrics, dashboard."""
    staging: StagingSettings = Field(default_factory=StagingSettings)
    """Of weights that are copied from the hub to S3."""
    stt: SttSettings = Field(default_factory=SttSettings)
    """The ear."""
    tts: TtsSettings = Field(default_factory=TtsSettings)
    """The voice."""
    vpc: VpcSettings = Field(default_factory=VpcSettings)
    """Of both. After them, for its check looks at where their weights are."""

    @field_validator("region")
    @classmethod
    def _check_region(cls, value: str | None) -> str | None:
        if value is not None and value not in (known := _regions()):
            near = " or ".join(get_close_matches(value, known, n=2))
            raise ValueError(f"{value!r} is no AWS region{f'; did you mean {near}?' if near else ''}")
        return value

    @field_validator("log_retention_days")
    @classmethod
    def _check_retention(cls, value: int) -> int:
        if value not in LOG_RETENTION_DAYS:
            raise ValueError(f"{value} days; CloudWatch Logs takes {', '.join(map(str, LOG_RETENTION_DAYS))}")
        return value

    @field_validator("vpc")
    @classmethod
    def _check_egress(cls, value: VpcSettings, info: ValidationInfo) -> VpcSettings:
        if value.id is None or value.internet_egress:
            return value
        from_hub = [name for name in ("stt", "tts") if name in info.data and info.data[name].weights is None]
        if from_hub:
            keys = " and ".join(f"{name}.weights" for name in from_hub)
            raise ValueError(
                f"vpc.internet_egress is false, but without {keys} the container downloads from the hub; stage the "
                "weights in S3, or give the subnets a way out"
            )
        return value

    @property
    def weights_staged(self) -> bool:
        """Whether either endpoint's weights are staged by the deployment."""
        return self.stt.weights_staged or self.tts.weights_staged

    @property
    def tags(self) -> dict[str, str]:
        """Tags of everything in the stacks, for owners and bills."""
        given = {
            "project": "sagemaker-voice",
            "stage": self.stage,
            "owner": self.owner,
            "cost-center": self.cost_center,
        }
        return {name: value for name, value in given.items() if value is not None}

    def endpoint_name(self, service: Service) -> str:
        """Return the name of the endpoint, and of its stack: `dev-voice-stt`."""
        return endpoint_name(self.stage, service)


def load_settings(context: Mapping[str, Any], stage: str | None = None) -> StageSettings:
    """Read the settings of one stage out of a CDK context.

    Args:
        context: all context values: `voice` from cdk.json and the `-c` overrides of the command line.
        stage: which stage. Default: context value `stage`, else `dev`.

    Raises:
        SettingsError: all that is wrong with the settings, at once, each with the key to change.
    """
    stage = stage or str(context.get(_STAGE_KEY) or DEFAULT_STAGE)
    stages = context.get(_STAGES_KEY, {})
    if not isinstance(stages, Mapping):
        raise SettingsError([SettingsProblem(_STAGES_KEY, "cdk.json", "must be an object with one entry per stage")])
    if _STAGE_NAME.fullmatch(stage) is None or stage not in stages:
        known = ", ".join(stages) or "none"
        raise SettingsError(
            [SettingsProblem(_STAGE_KEY, "-c stage=...", f"{stage!r} is no stage of cdk.json; known: {known}")]
        )

    if not isinstance(stages[stage], Mapping):
        raise SettingsError([SettingsProblem(f"{_STAGES_KEY}.{stage}", "cdk.json", "must be an object of settings")])

    overrides = {
        key: value
        for key, value in context.items()
        if key not in {_STAGES_KEY, _STAGE_KEY} and _SETTING_KEY.fullmatch(key)
    }
    merged, problems = _merge(stages[stage], overrides)
    try:
        settings = StageSettings.model_validate({**merged, "stage": stage})
    except ValidationError as error:
        problems += [_problem(details, stage, overrides) for details in error.errors()]
    if problems:
        raise SettingsError(problems)
    return settings


def read_context(cdk_json: Path) -> dict[str, Any]:
    """Return the context that a cdk.json holds, as the CDK CLI would pass it without any `-c`.

    Raises:
        OSError: the file cannot be read.
        json.JSONDecodeError: it is no JSON.
    """
    context: dict[str, Any] = json.loads(cdk_json.read_text(encoding="utf-8")).get("context", {})
    return context


def setting_keys() -> tuple[str, ...]:
    """Return every key that can stand after `-c`, for example `tts.scaling.max_instances`."""
    return tuple(key for key in _setting_keys(StageSettings) if key != _STAGE_KEY)


def _merge(stage: Mapping[str, Any], overrides: Mapping[str, Any]) -> tuple[dict[str, Any], list[SettingsProblem]]:
    """Put dotted overrides over a stage's object, in copies; report the keys that are no setting."""
    known = set(_setting_keys(StageSettings)) - {_STAGE_KEY}
    merged: dict[str, Any] = json.loads(json.dumps(stage))
    problems: list[SettingsProblem] = []
    for key, value in sorted(overrides.items()):
        section, _, _ = key.rpartition(".")
        if key not in known and not (section in known and section.endswith(".server_arguments")):
            near = get_close_matches(key, known, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            problems.append(SettingsProblem(key, f"-c {key}=...", f"no such setting{hint}"))
            continue
        *parents, name = key.split(".")
        target: Any = merged
        for parent in parents:
            target = target.setdefault(parent, {}) if isinstance(target, dict) else None
        if isinstance(target, dict):  # else the stage's own object is malformed, which its check reports
            target[name] = value
    return merged, problems


def _setting_keys(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    for name, field in model.model_fields.items():
        annotation = field.annotation
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            yield from _setting_keys(annotation, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"


def _problem(details: Any, stage: str, overrides: Mapping[str, Any]) -> SettingsProblem:
    parts = [part for part in details["loc"] if isinstance(part, str)]
    key = ".".join(parts)
    message = str(details["msg"]).removeprefix("Value error, ")
    if details["type"] == "extra_forbidden":
        near = get_close_matches(key, list(_setting_keys(StageSettings)), n=1)
        message = f"no such setting{f'; did you mean {near[0]}?' if near else ''}"
    elif details["type"] != "value_error":
        message = f"{message}, not {details['input']!r}"
    given = [f"-c {name}=..." for name in overrides if name == key or name.startswith(f"{key}.")]
    source = ", ".join(given) or f"cdk.json, {_STAGES_KEY}.{stage}.{key}"
    return SettingsProblem(key, source, message)


def _regions() -> list[str]:
    # From the SDK's own files, and without a session: a profile that does not exist must not matter here.
    partitions = create_loader().load_data("endpoints")["partitions"]
    return sorted(region for partition in partitions for region in partition["regions"])
