"""How endpoints are updated, scaled, watched and connected: typed and checked. Imports nothing of aws-cdk-lib."""

import re
from typing import Annotated

from pydantic import BeforeValidator, Field, ValidationInfo, field_validator

from stacks.settings_section import OptionalText, SettingsSection, TextList, none_if_empty

_EMAIL = re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+")
_TOPIC_ARN = re.compile(r"arn:aws[\w-]*:sns:[a-z0-9-]+:\d{12}:[\w-]+")

Cidr = Annotated[str | None, Field(pattern=r"^\d{1,3}(?:\.\d{1,3}){3}/\d{1,2}$"), BeforeValidator(none_if_empty)]
Cooldown = Annotated[int, Field(ge=0, le=86_400)]


class ScalingSettings(SettingsSection):
    """Scaling by streams in progress; off while both limits are the same."""

    min_instances: int = Field(default=1, ge=1, le=100)
    """At least one: an endpoint with instance pools cannot be scaled to none."""
    max_instances: int = Field(default=1, ge=1, le=100)
    """More than `min_instances` turns scaling on. Needs that much quota, and twice of it for an update."""
    streams_per_instance: float = Field(default=4, gt=0, le=1000)
    """Another instance is started above this many streams per instance; measure what yours serve in real time."""
    scale_out_cooldown_seconds: Cooldown = 60
    """Between two steps up: short, callers wait meanwhile."""
    scale_in_cooldown_seconds: Cooldown = 1800
    """Between two steps down: long, streams last for minutes."""

    @field_validator("max_instances")
    @classmethod
    def _check_order(cls, value: int, info: ValidationInfo) -> int:
        least = info.data.get("min_instances", value)
        if value < least:
            raise ValueError(f"{value} is less than min_instances ({least})")
        return value

    @property
    def enabled(self) -> bool:
        """Whether the number of instances may change by itself."""
        return self.max_instances > self.min_instances


class UpdateSettings(SettingsSection):
    """How an update reaches a running endpoint."""

    guarded: bool = True
    """Blue/green with a rollback when the new instances fail and time for calls to end: twice the instances meanwhile.
    Without, SageMaker switches at once and ends the old instances, and the calls on them, right after."""
    termination_wait_seconds: int = Field(default=1800, ge=1800, le=3600)
    """How long old instances live on, so that calls in progress end by themselves."""
    canary_percent: int = Field(default=25, ge=5, le=50)
    """Share of the capacity that gets calls first; only with two instances or more."""
    canary_wait_seconds: int = Field(default=600, ge=60, le=3600)
    """How long the new instances are watched before the rest follows."""


class MonitoringSettings(SettingsSection):
    """What watches a stage."""

    alarms: bool = True
    """On server errors, model errors, missing instances, a full KV cache and refused sessions."""
    alarms_email: OptionalText = None
    """Who is told; each stack's topic sends a mail that must be confirmed. Default: nobody."""
    alarms_topic_arn: OptionalText = None
    """An SNS topic of yours, in place of the stacks' own."""
    session_metrics: bool = True
    """Metrics made of the bridge's log lines: open sessions, errors, time to the first delta, KV cache."""
    dashboard: bool = True
    """One for the stage."""

    @field_validator("alarms_email")
    @classmethod
    def _check_email(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is not None and _EMAIL.fullmatch(value) is None:
            raise ValueError(f"{value!r} is no e-mail address")
        if value is not None and info.data.get("alarms") is False:
            raise ValueError("nothing would be sent, because monitoring.alarms is false; set it to true")
        return value

    @field_validator("alarms_topic_arn")
    @classmethod
    def _check_topic(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is not None and _TOPIC_ARN.fullmatch(value) is None:
            raise ValueError(f"{value!r} is no ARN of an SNS topic; write arn:aws:sns:REGION:ACCOUNT:NAME")
        if value is not None and info.data.get("alarms") is False:
            raise ValueError("nothing would be sent, because monitoring.alarms is false; set it to true")
        if value is not None and info.data.get("alarms_email") is not None:
            raise ValueError("the mail's topic is the stacks' own; give alarms_email or alarms_topic_arn")
        return value


class StagingSettings(SettingsSection):
    """How weights get from the Hugging Face hub to S3, for endpoints whose `weights` are `staged`."""

    hub: str = Field(
        default="https://huggingface.co", pattern=r"^(?:https://[\w.-]+(?::\d+)?|http://127\.0\.0\.1:\d+)$"
    )
    """The hub, or a mirror that has its API."""
    token_secret: Annotated[str | None, Field(pattern=r"^[\w/+=.@:-]+$"), BeforeValidator(none_if_empty)] = None
    """Name or ARN of a Secrets Manager secret whose text is a hub token. Needed for gated models only."""
    timeout_minutes: int = Field(default=55, ge=5, le=55)
    """For one build: CloudFormation waits an hour. 9 GB take a few minutes."""


class VpcSettings(SettingsSection):
    """A VPC that the containers run in. Default: SageMaker's own network, which reaches the hub and AWS."""

    id: Annotated[str | None, Field(pattern=r"^vpc-[0-9a-f]{8,17}$"), BeforeValidator(none_if_empty)] = None
    """`vpc-...`; turns the section on."""
    subnet_ids: TextList = ()
    """`subnet-...`, best of several availability zones."""
    internet_egress: bool = False
    """Whether the subnets lead to the internet (through NAT). Weights from the hub need it."""
    create_endpoints: bool = False
    """Create the VPC endpoints that containers and clients need: S3, ECR, Logs, metrics, runtime. Once a VPC."""
    cidr: Cidr = None
    """The VPC's addresses, which may reach those endpoints."""
    route_table_ids: TextList = ()
    """`rtb-...` of the subnets, for the S3 endpoint."""

    @field_validator("subnet_ids")
    @classmethod
    def _check_subnets(cls, value: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        _require_ids(value, "subnet")
        if info.data.get("id") is not None and not value:
            raise ValueError("vpc.id is given, so at least one subnet must be")
        if "id" in info.data and info.data["id"] is None and value:
            raise ValueError("subnets are given, but vpc.id is not")
        return value

    @field_validator("create_endpoints")
    @classmethod
    def _check_endpoints(cls, value: bool, info: ValidationInfo) -> bool:
        if value and "id" in info.data and info.data["id"] is None:
            raise ValueError("there is no vpc.id to create endpoints in")
        return value

    @field_validator("cidr")
    @classmethod
    def _check_cidr(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is None and info.data.get("create_endpoints"):
            raise ValueError("needed with vpc.create_endpoints: who may reach the endpoints, for example 10.0.0.0/16")
        return value

    @field_validator("route_table_ids")
    @classmethod
    def _check_route_tables(cls, value: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        _require_ids(value, "rtb")
        if not value and info.data.get("create_endpoints"):
            raise ValueError("needed with vpc.create_endpoints: the route tables that lead to S3")
        return value


def _require_ids(values: tuple[str, ...], kind: str) -> None:
    if wrong := [value for value in values if re.fullmatch(rf"{kind}-[0-9a-f]{{8,17}}", value) is None]:
        raise ValueError(f"{', '.join(map(repr, wrong))}: no id of the form {kind}-0123abcd")
