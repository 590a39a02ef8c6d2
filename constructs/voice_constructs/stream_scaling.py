"""Scaling of an endpoint by the streams in progress."""

from dataclasses import dataclass

from aws_cdk import aws_applicationautoscaling as autoscaling
from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct

from voice_constructs.endpoint_metrics import VARIANT_NAME

_NAMESPACE = "sagemaker"
_DIMENSION = "sagemaker:variant:DesiredInstanceCount"
_METRIC = "SageMakerVariantConcurrentRequestsPerModelHighResolution"
"""Requests in progress per model, sent every 10 s. Invocations would not do: a stream is one, and lasts for minutes."""


@dataclass(frozen=True, slots=True)
class StreamScaling:
    """Target tracking on the streams in progress per instance.

    What is known of scaling in: the metric counts a stream until its last answer, scaling in is no faster than with a
    one-minute metric, and clients of this project take up a stream that is cut. Whether SageMaker lets the streams of
    an instance end before it removes it is not documented; the long cool-down is there because it may not.

    Attributes:
        min_instances: at least 1: an endpoint with instance pools cannot be scaled to none.
        max_instances: at least `min_instances`.
        streams_per_instance: the target; below what an instance can serve in real time (measure it).
        scale_out_cooldown_seconds: between two steps up. Short: callers wait meanwhile.
        scale_in_cooldown_seconds: between two steps down. Long: streams last for minutes.
    """

    min_instances: int = 1
    max_instances: int = 2
    streams_per_instance: float = 4
    scale_out_cooldown_seconds: int = 60
    scale_in_cooldown_seconds: int = 1800

    def problems(self) -> list[str]:
        """List all that is wrong with the values."""
        problems: list[str] = []
        if self.min_instances < 1:
            problems.append(f"min_instances is {self.min_instances}; an endpoint with instance pools needs at least 1")
        if self.min_instances > self.max_instances:
            problems.append(f"min_instances ({self.min_instances}) is more than max_instances ({self.max_instances})")
        if self.streams_per_instance <= 0:
            problems.append(f"streams_per_instance is {self.streams_per_instance:g}; give more than 0")
        problems.extend(
            f"{name} is {getattr(self, name)}; give 0 or more"
            for name in ("scale_out_cooldown_seconds", "scale_in_cooldown_seconds")
            if getattr(self, name) < 0
        )
        return problems

    def bind(self, scope: Construct, endpoint: sagemaker.CfnEndpoint, *, endpoint_name: str) -> None:
        """Create the scalable target and its policy under `scope`.

        No role is given: Application Auto Scaling uses its service-linked role of SageMaker endpoints.
        """
        target = autoscaling.CfnScalableTarget(
            scope,
            "ScalableTarget",
            service_namespace=_NAMESPACE,
            scalable_dimension=_DIMENSION,
            resource_id=f"endpoint/{endpoint_name}/variant/{VARIANT_NAME}",
            min_capacity=self.min_instances,
            max_capacity=self.max_instances,
        )
        # The name is a literal, so nothing else tells CloudFormation that the endpoint comes first.
        target.add_resource_dependency(endpoint)
        autoscaling.CfnScalingPolicy(
            scope,
            "ScalingPolicy",
            policy_name=f"{endpoint_name}-streams",
            policy_type="TargetTrackingScaling",
            scaling_target_id=target.ref,
            target_tracking_scaling_policy_configuration=(
                autoscaling.CfnScalingPolicy.TargetTrackingScalingPolicyConfigurationProperty(
                    target_value=self.streams_per_instance,
                    predefined_metric_specification=autoscaling.CfnScalingPolicy.PredefinedMetricSpecificationProperty(
                        predefined_metric_type=_METRIC
                    ),
                    scale_out_cooldown=self.scale_out_cooldown_seconds,
                    scale_in_cooldown=self.scale_in_cooldown_seconds,
                )
            ),
        )
