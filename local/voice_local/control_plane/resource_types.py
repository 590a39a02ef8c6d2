"""Resource types created through the services' own APIs, as CloudFormation itself does.

moto's CloudFormation does not know most of these types, and of SageMaker's it ignores physical names, drops
properties and does not wait for an endpoint. The services' APIs behind them it does know, so a resource made here is
described, listed and found as a leftover like any other.
"""

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from voice_local.control_plane.api_input import api_input, with_stack_tags
from voice_local.control_plane.build_project import BuildProjectResource
from voice_local.control_plane.custom_resource import CUSTOM_RESOURCE, CustomResource
from voice_local.control_plane.endpoint_resource import SageMakerEndpoint
from voice_local.control_plane.errors import ResourceError
from voice_local.control_plane.function_resource import LambdaFunctionResource
from voice_local.control_plane.resources import ResourceProvider, ResourceRequest, StackResource
from voice_local.control_plane.service_clients import ServiceClients, reason_of
from voice_local.control_plane.settings import ControlPlaneSettings

_Properties = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ApiType:
    """How one resource type maps to API calls of one service."""

    service: str
    create: str
    """Operation that creates the resource, such as `CreateModel`; named as in the API's reference."""
    delete: str
    delete_input: Callable[[StackResource], dict[str, Any]]
    identify: Callable[[_Properties, Mapping[str, Any]], tuple[str, dict[str, Any]]]
    """From the input sent and the answer: the physical id (Ref) and the attributes (Fn::GetAtt)."""
    name: str | None = None
    """Property that names the resource; generated when the template leaves it out."""
    name_limit: int = 63
    translate: Callable[[dict[str, Any]], dict[str, Any]] = dict
    """From properties to the API's input where the two differ."""
    immutable: bool = False
    """Whether any change but of tags needs a new resource."""
    identity: tuple[str, ...] = ()
    """Properties whose change needs a new resource."""


class ApiResource:
    """Provider of one type, from its `ApiType`."""

    def __init__(self, clients: ServiceClients, described: ApiType) -> None:
        self._clients = clients
        self._described = described

    def replaces(self, current: StackResource, properties: _Properties) -> bool:
        """Return whether the changed properties cannot be changed in place."""
        changed = {
            key for key in {*current.properties, *properties} if current.properties.get(key) != properties.get(key)
        }
        if self._described.immutable:
            return bool(changed - {"Tags"})
        return bool(changed & {*self._described.identity, self._described.name})

    def create(self, request: ResourceRequest) -> StackResource:
        """Create the resource, under a generated name when the template names none."""
        properties = dict(request.properties)
        if (name := self._described.name) is not None:
            properties.setdefault(name, request.generated_name(self._described.name_limit))
        return self._put(request, properties)

    def update(self, current: StackResource, request: ResourceRequest) -> StackResource:
        """Send the new properties under the same name; the services' put operations replace what they held."""
        if self._described.immutable:
            # Only tags differ.
            return replace(current, properties=request.properties)
        properties = dict(request.properties)
        if (name := self._described.name) is not None:
            properties.setdefault(name, current.attributes[name])
        return self._put(request, properties)

    def delete(self, current: StackResource) -> None:
        """Delete the resource; one that is gone already is no error."""
        described = self._described
        try:
            self._clients.call(described.service, described.delete, described.delete_input(current))
        except ClientError as error:
            if not _is_gone(error):
                raise ResourceError(reason_of(error)) from error
        except BotoCoreError as error:
            raise ResourceError(str(error)) from error

    def _put(self, request: ResourceRequest, properties: dict[str, Any]) -> StackResource:
        described = self._described
        shape = self._clients.input_shape(described.service, described.create)
        tagged = with_stack_tags(described.translate(properties), request.stack_tags, shape)
        sent = api_input(tagged, shape, request.type)
        try:
            answer = self._clients.call(described.service, described.create, sent)
        except (ClientError, BotoCoreError) as error:
            raise ResourceError(reason_of(error)) from error
        physical_id, attributes = described.identify(sent, answer)
        if described.name is not None:
            attributes = {described.name: properties[described.name], **attributes}
        return StackResource(
            logical_resource_id=request.logical_id,
            cf_resource_type=request.type,
            physical_resource_id=physical_id,
            attributes=attributes,
            properties=request.properties,
        )


class NothingToCreate:
    """Types that stand for nothing, such as AWS::CDK::Metadata."""

    def replaces(self, current: StackResource, properties: _Properties) -> bool:
        """Return False."""
        del current, properties
        return False

    def create(self, request: ResourceRequest) -> StackResource:
        """Return a resource that is only a name."""
        return StackResource(request.logical_id, request.type, request.generated_name(63), {}, request.properties)

    def update(self, current: StackResource, request: ResourceRequest) -> StackResource:
        """Keep the name."""
        return replace(current, properties=request.properties)

    def delete(self, current: StackResource) -> None:
        """Do nothing."""


def providers(
    clients: ServiceClients, custom: CustomResource, settings: ControlPlaneSettings, stopping: threading.Event
) -> dict[str, ResourceProvider]:
    """Return a provider for every type of this module; `stopping` ends their waits."""
    result: dict[str, ResourceProvider] = {name: ApiResource(clients, described) for name, described in _TYPES.items()}
    result["AWS::SageMaker::Endpoint"] = SageMakerEndpoint(clients, settings, stopping)
    result["AWS::Lambda::Function"] = LambdaFunctionResource(clients)
    result["AWS::CodeBuild::Project"] = BuildProjectResource(clients)
    result[CUSTOM_RESOURCE] = custom
    result["AWS::CDK::Metadata"] = NothingToCreate()
    return result


def _is_gone(error: ClientError) -> bool:
    code, message = error.response["Error"]["Code"], error.response["Error"].get("Message", "")
    return "NotFound" in code or "NoSuch" in code or message.startswith("Could not find")


def _bucket_policy(properties: dict[str, Any]) -> dict[str, Any]:
    return {"Bucket": properties["Bucket"], "Policy": json.dumps(properties["PolicyDocument"])}


def _topic_policies(properties: dict[str, Any]) -> dict[str, Any]:
    # One topic a policy is all that CDK writes; the API takes one.
    if len(properties["Topics"]) != 1:
        raise ResourceError("AWS::SNS::TopicPolicy: this local cloud takes one topic a policy")
    return {
        "TopicArn": properties["Topics"][0],
        "AttributeName": "Policy",
        "AttributeValue": json.dumps(properties["PolicyDocument"]),
    }


def _metric_filter(properties: dict[str, Any]) -> dict[str, Any]:
    transformations = []
    for transformation in properties.get("MetricTransformations", []):
        described = dict(transformation)
        if "Dimensions" in described:
            described["Dimensions"] = {item["Key"]: item["Value"] for item in described["Dimensions"]}
        transformations.append(described)
    return {**properties, "MetricTransformations": transformations}


def _scaling_policy(properties: dict[str, Any]) -> dict[str, Any]:
    translated = dict(properties)
    if target := translated.pop("ScalingTargetId", None):
        resource, dimension, namespace = target.split("|")
        translated |= {"ResourceId": resource, "ScalableDimension": dimension, "ServiceNamespace": namespace}
    return translated


def _target_key(sent: _Properties) -> str:
    return f"{sent['ResourceId']}|{sent['ScalableDimension']}|{sent['ServiceNamespace']}"


def _target_parts(current: StackResource) -> dict[str, Any]:
    resource, dimension, namespace = str(current.attributes["Id"]).split("|")
    return {"ResourceId": resource, "ScalableDimension": dimension, "ServiceNamespace": namespace}


_TYPES: Mapping[str, ApiType] = {
    # Ref of a model and of a config is the ARN, Fn::GetAtt gives the name. Both are immutable in SageMaker.
    "AWS::SageMaker::Model": ApiType(
        service="sagemaker",
        create="CreateModel",
        name="ModelName",
        immutable=True,
        identify=lambda _sent, answer: (answer["ModelArn"], {}),
        delete="DeleteModel",
        delete_input=lambda current: {"ModelName": current.attributes["ModelName"]},
    ),
    "AWS::SageMaker::EndpointConfig": ApiType(
        service="sagemaker",
        create="CreateEndpointConfig",
        name="EndpointConfigName",
        immutable=True,
        identify=lambda _sent, answer: (answer["EndpointConfigArn"], {}),
        delete="DeleteEndpointConfig",
        delete_input=lambda current: {"EndpointConfigName": current.attributes["EndpointConfigName"]},
    ),
    "AWS::CloudWatch::Alarm": ApiType(
        service="cloudwatch",
        create="PutMetricAlarm",
        name="AlarmName",
        name_limit=255,
        identify=lambda sent, _answer: (sent["AlarmName"], {}),
        delete="DeleteAlarms",
        delete_input=lambda current: {"AlarmNames": [current.physical_resource_id]},
    ),
    "AWS::ApplicationAutoScaling::ScalableTarget": ApiType(
        service="application-autoscaling",
        create="RegisterScalableTarget",
        identity=("ResourceId", "ScalableDimension", "ServiceNamespace"),
        identify=lambda sent, _answer: (_target_key(sent), {"Id": _target_key(sent)}),
        delete="DeregisterScalableTarget",
        delete_input=_target_parts,
    ),
    "AWS::ApplicationAutoScaling::ScalingPolicy": ApiType(
        service="application-autoscaling",
        create="PutScalingPolicy",
        name="PolicyName",
        name_limit=255,
        identity=("ScalingTargetId", "ResourceId", "ScalableDimension", "ServiceNamespace"),
        translate=_scaling_policy,
        identify=lambda sent, answer: (answer["PolicyARN"], {"Arn": answer["PolicyARN"], "Id": _target_key(sent)}),
        delete="DeleteScalingPolicy",
        delete_input=lambda current: {"PolicyName": current.attributes["PolicyName"], **_target_parts(current)},
    ),
    "AWS::S3::BucketPolicy": ApiType(
        service="s3",
        create="PutBucketPolicy",
        identity=("Bucket",),
        translate=_bucket_policy,
        identify=lambda sent, _answer: (sent["Bucket"], {}),
        delete="DeleteBucketPolicy",
        delete_input=lambda current: {"Bucket": current.physical_resource_id},
    ),
    "AWS::Logs::MetricFilter": ApiType(
        service="logs",
        create="PutMetricFilter",
        name="FilterName",
        name_limit=512,
        identity=("LogGroupName",),
        translate=_metric_filter,
        identify=lambda sent, _answer: (sent["filterName"], {"LogGroup": sent["logGroupName"]}),
        delete="DeleteMetricFilter",
        delete_input=lambda current: {
            "filterName": current.physical_resource_id,
            "logGroupName": current.attributes["LogGroup"],
        },
    ),
    # moto's CloudFormation model of it has no physical id and cannot be deleted.
    "AWS::Lambda::Permission": ApiType(
        service="lambda",
        create="AddPermission",
        name="StatementId",
        name_limit=100,
        immutable=True,
        identify=lambda sent, _answer: (sent["StatementId"], {"Function": sent["FunctionName"]}),
        delete="RemovePermission",
        delete_input=lambda current: {
            "FunctionName": current.attributes["Function"],
            "StatementId": current.physical_resource_id,
        },
    ),
    "AWS::SNS::Subscription": ApiType(
        service="sns",
        create="Subscribe",
        identity=("TopicArn", "Protocol", "Endpoint"),
        identify=lambda _sent, answer: (answer["SubscriptionArn"], {"Arn": answer["SubscriptionArn"]}),
        delete="Unsubscribe",
        delete_input=lambda current: {"SubscriptionArn": current.physical_resource_id},
    ),
    "AWS::SNS::TopicPolicy": ApiType(
        service="sns",
        create="SetTopicAttributes",
        identity=("Topics",),
        translate=_topic_policies,
        identify=lambda sent, _answer: (sent["TopicArn"], {"Id": sent["TopicArn"]}),
        delete="SetTopicAttributes",
        # A topic cannot be without a policy; one that allows nothing more is left when a stack takes its own away.
        delete_input=lambda current: {
            "TopicArn": current.physical_resource_id,
            "AttributeName": "Policy",
            "AttributeValue": json.dumps({"Version": "2012-10-17", "Statement": []}),
        },
    ),
}
