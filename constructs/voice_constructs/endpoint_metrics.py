"""What can be measured and granted of an endpoint, whoever created it."""

from aws_cdk import ArnFormat, Duration, Stack
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_iam as iam
from constructs import Construct

VARIANT_NAME = "AllTraffic"
"""The endpoint's only production variant."""

INVOCATION_NAMESPACE = "AWS/SageMaker"
"""SageMaker's metrics of invocations: dimensions EndpointName and VariantName."""

INSTANCE_NAMESPACE = "/aws/sagemaker/Endpoints"
"""SageMaker's metrics of the instances, sent once a minute: dimensions EndpointName and VariantName."""

_PERIOD = Duration.minutes(1)


class MeasuredEndpoint(Construct):
    """Name, grants and metrics of an endpoint. The metrics are named after the CloudWatch metrics behind them.

    Whether SageMaker counts a bidirectional stream in `Invocations` and its error metrics as it counts a plain request
    is not documented; docs/operations.md says how to see it.
    """

    def __init__(self, scope: Construct, id: str, *, endpoint_name: str) -> None:  # noqa: A002 - the CDK's own name
        """Keep the name.

        Args:
            scope: parent construct.
            id: construct id.
            endpoint_name: literal name, usable before the endpoint exists.
        """
        super().__init__(scope, id)
        self.endpoint_name = endpoint_name
        """The literal name, usable before the endpoint exists."""
        self.endpoint_arn = Stack.of(self).format_arn(
            service="sagemaker",
            resource="endpoint",
            resource_name=endpoint_name,
            arn_format=ArnFormat.SLASH_RESOURCE_NAME,
        )
        self.session_namespace = f"SageMakerVoice/{endpoint_name}"
        """Metrics made of the container's own log lines. They carry no dimension: a log line names no endpoint."""

    def grant_stream(self, grantee: iam.IGrantable) -> iam.Grant:
        """Allow streaming to, and invoking, this endpoint and no other.

        The bidirectional stream has an action of its own; `sagemaker:InvokeEndpoint` alone is not enough.
        """
        return iam.Grant.add_to_principal(
            grantee=grantee,
            actions=["sagemaker:InvokeEndpoint", "sagemaker:InvokeEndpointWithBidirectionalStream"],
            resource_arns=[self.endpoint_arn],
        )

    def metric(
        self, metric_name: str, *, namespace: str = INVOCATION_NAMESPACE, statistic: str, label: str | None = None
    ) -> cloudwatch.Metric:
        """Return a metric of this endpoint's variant, one value a minute.

        Args:
            metric_name: as CloudWatch writes it.
            namespace: Default: that of invocations.
            statistic: `Sum`, `Average`, `Maximum`, `p95`, `SampleCount`, ...
            label: in graphs. Default: the metric's name.
        """
        return cloudwatch.Metric(
            namespace=namespace,
            metric_name=metric_name,
            dimensions_map={"EndpointName": self.endpoint_name, "VariantName": VARIANT_NAME},
            statistic=statistic,
            period=_PERIOD,
            label=label,
        )

    def metric_invocations(self) -> cloudwatch.Metric:
        """Requests, as a sum."""
        return self.metric("Invocations", statistic="Sum")

    def metric_invocation5_xx_errors(self) -> cloudwatch.Metric:
        """Requests the container answered with a 5xx status, as a sum."""
        return self.metric("Invocation5XXErrors", statistic="Sum")

    def metric_invocation4_xx_errors(self) -> cloudwatch.Metric:
        """Requests the container answered with a 4xx status, as a sum."""
        return self.metric("Invocation4XXErrors", statistic="Sum")

    def metric_invocation_model_errors(self) -> cloudwatch.Metric:
        """Requests that got no 2xx answer from the model, socket errors and time-outs included, as a sum."""
        return self.metric("InvocationModelErrors", statistic="Sum")

    def metric_concurrent_requests_per_model(self) -> cloudwatch.Metric:
        """Requests in progress, queued ones included, at most; a stream counts until its last answer."""
        return self.metric("ConcurrentRequestsPerModel", statistic="Maximum")

    def metric_cpu_utilization(self, *, statistic: str = "Average") -> cloudwatch.Metric:
        """CPU in use, percent of one core (an instance of four can show 400)."""
        return self.metric("CPUUtilization", namespace=INSTANCE_NAMESPACE, statistic=statistic)

    def metric_memory_utilization(self) -> cloudwatch.Metric:
        """Memory in use, percent."""
        return self.metric("MemoryUtilization", namespace=INSTANCE_NAMESPACE, statistic="Average")

    def metric_gpu_utilization(self) -> cloudwatch.Metric:
        """GPU in use, percent of one GPU."""
        return self.metric("GPUUtilization", namespace=INSTANCE_NAMESPACE, statistic="Average")

    def metric_gpu_memory_utilization(self) -> cloudwatch.Metric:
        """GPU memory in use, percent. No alarm belongs on it: vLLM reserves most of it at its start."""
        return self.metric("GPUMemoryUtilization", namespace=INSTANCE_NAMESPACE, statistic="Average")

    def metric_open_sessions(self) -> cloudwatch.Metric:
        """Sessions open on one instance, at most. Of containers that write docs/bridge-log.md's lines."""
        return self._session_metric("OpenSessions", "Maximum")

    def metric_session_errors(self) -> cloudwatch.Metric:
        """Errors that sessions ended with or were told of, refusals included, as a sum."""
        return self._session_metric("SessionErrors", "Sum")

    def metric_refused_sessions(self) -> cloudwatch.Metric:
        """Sessions refused because an instance was full, as a sum."""
        return self._session_metric("RefusedSessions", "Sum")

    def metric_first_delta_seconds(self, *, statistic: str = "p95") -> cloudwatch.Metric:
        """Seconds from the start of a generation to its first delta."""
        return self._session_metric("FirstDeltaSeconds", statistic)

    def metric_kv_cache_use(self) -> cloudwatch.Metric:
        """Share of vLLM's KV cache in use on one instance, 0 to 1, at most."""
        return self._session_metric("KvCacheUse", "Maximum")

    def _session_metric(self, metric_name: str, statistic: str) -> cloudwatch.Metric:
        return cloudwatch.Metric(
            namespace=self.session_namespace, metric_name=metric_name, statistic=statistic, period=_PERIOD
        )
