"""The control plane of the local cloud: the AWS APIs that the real CDK CLI, boto3 and the stacks need, on loopback.

moto answers the calls. What moto 5.2 cannot do is filled by this package, each gap in a module of its own:

- `stack_operations`, `stack_api`: CloudFormation runs in the background with events, roll-back and clean-up
- `resource_types`: resource types that moto's CloudFormation does not know, created through the services' own APIs
- `sagemaker_api`, `variant_rules`: pools, inference AMIs, UpdateEndpoint, endpoint states
- `endpoint_hosting`: endpoints that run containers and become InService when `/ping` says so
- `s3_api`: bucket policies with conditions
- `unknown_operations`: refused instead of a server error that SDKs repeat
- `image_registry`: images pushed without Docker appear in ECR
"""

from voice_local.control_plane.errors import ControlPlaneError, ControlPlaneStartError, PortTakenError, ResourceError
from voice_local.control_plane.plane import ControlPlane
from voice_local.control_plane.settings import ControlPlaneSettings

__all__ = [
    "ControlPlane",
    "ControlPlaneError",
    "ControlPlaneSettings",
    "ControlPlaneStartError",
    "PortTakenError",
    "ResourceError",
]
