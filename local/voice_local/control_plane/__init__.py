"""The control plane of the local cloud: the AWS APIs that the real CDK CLI, boto3 and the stacks need, on loopback.

moto answers the calls. What moto 5.2 cannot do is filled by this package, each gap in a module of its own:

- `stack_operations`, `stack_api`, `change_set_api`: CloudFormation runs in the background with events, roll-back and
  clean-up; change sets belong to stacks
- `resource_types`, `endpoint_resource`, `function_resource`: resource types that moto's CloudFormation does not know,
  created through the services' own APIs
- `custom_resource`, `function_runtime`, `function_api`: custom resources and Lambda functions as plain processes
- `sagemaker_api`, `variant_rules`, `serving_cuda`: pools, inference AMIs, UpdateEndpoint, endpoint states
- `endpoint_hosting`, `variant_container`, `endpoint_logs`: endpoints that run containers and become InService when
  `/ping` says so; containers that die are started again; their output is in CloudWatch Logs
- `saved_state`: everything is there again after a restart
- `s3_api`: bucket policies with conditions
- `quota_api`, `published_images`, `permission_api`, `expired_credentials`: what is asked before a deploy: SageMaker's
  quotas, AWS's own containers in ECR, simulated permissions, credentials whose time is over
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
