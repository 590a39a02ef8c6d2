"""How an update reaches an endpoint without cutting calls, and how it is taken back."""

from collections.abc import Sequence
from dataclasses import dataclass

from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_sagemaker as sagemaker

MIN_TERMINATION_WAIT_SECONDS = 1800
"""Calls in progress on the old instances get this long to end by themselves."""

MAX_WAIT_SECONDS = 3600
"""SageMaker's limit of every wait of a blue/green update."""

_MAX_EXECUTION_SECONDS = 28_800
"""SageMaker's limit, and our allowance for provisioning and starting the new instances beside all waits."""


@dataclass(frozen=True, slots=True)
class DeploymentGuardrails:
    """A blue/green update that rolls back when the new instances fail.

    New instances are started beside the old ones, so that an update needs quota for, and bills, twice the instances for
    as long as it lasts. One instance gets all traffic at once; of several, a canary gets a part of it first. (A rolling
    update replaces at most half of the capacity at a time, so it is no choice for one instance.)

    Attributes:
        termination_wait_seconds: 1800-3600: how long old instances live on after the switch.
        canary_percent: 5-50: the new instances' share of capacity in the first step. Only with two instances or more.
        canary_wait_seconds: 60-3600: how long the canary is watched before the rest follows.
    """

    termination_wait_seconds: int = MIN_TERMINATION_WAIT_SECONDS
    canary_percent: int = 25
    canary_wait_seconds: int = 600

    def problems(self) -> list[str]:
        """List all that is wrong with the values."""
        limits = (
            ("termination_wait_seconds", MIN_TERMINATION_WAIT_SECONDS, MAX_WAIT_SECONDS),
            ("canary_percent", 5, 50),
            ("canary_wait_seconds", 60, MAX_WAIT_SECONDS),
        )
        return [
            f"guardrails.{name} is {getattr(self, name)}; give {low}-{high}"
            for name, low, high in limits
            if not low <= getattr(self, name) <= high
        ]

    def bind(
        self, alarms: Sequence[cloudwatch.IAlarm], *, instance_count: int
    ) -> sagemaker.CfnEndpoint.DeploymentConfigProperty:
        """Return the endpoint's deployment configuration.

        Args:
            alarms: any of them in state ALARM rolls the update back. They must exist before the endpoint.
            instance_count: decides whether there can be a canary.
        """
        several = instance_count > 1
        routing = sagemaker.CfnEndpoint.TrafficRoutingConfigProperty(
            type="CANARY" if several else "ALL_AT_ONCE",
            # SageMaker wants the wait with either type; all at once, it is how long the new instances are watched.
            wait_interval_in_seconds=self.canary_wait_seconds,
            canary_size=sagemaker.CfnEndpoint.CapacitySizeProperty(type="CAPACITY_PERCENT", value=self.canary_percent)
            if several
            else None,
        )
        return sagemaker.CfnEndpoint.DeploymentConfigProperty(
            auto_rollback_configuration=sagemaker.CfnEndpoint.AutoRollbackConfigProperty(
                alarms=[sagemaker.CfnEndpoint.AlarmProperty(alarm_name=alarm.alarm_name) for alarm in alarms]
            ),
            blue_green_update_policy=sagemaker.CfnEndpoint.BlueGreenUpdatePolicyProperty(
                traffic_routing_configuration=routing,
                termination_wait_in_seconds=self.termination_wait_seconds,
                maximum_execution_timeout_in_seconds=_MAX_EXECUTION_SECONDS,
            ),
        )
