"""Reusable CDK constructs that put a streaming voice model on a SageMaker real-time endpoint.

| module | what it holds | needs aws-cdk-lib |
|---|---|---|
| `voice_endpoint` | `VoiceEndpoint`: role, models, endpoint config and endpoint | yes |
| `endpoint_metrics` | `MeasuredEndpoint`: grants and metrics of any endpoint | yes |
| `endpoint_alarms` | which metric is bad, for how long | yes |
| `container_log` | the endpoint's log group and its key's policy | yes |
| `session_metrics` | metrics of the bridge's log lines | yes |
| `deployment_guardrails` | `DeploymentGuardrails`: updates that cut no call and roll back | yes |
| `stream_scaling` | `StreamScaling`: instances by streams in progress | yes |
| `alarm_topic` | `AlarmTopic`: where alarms go | yes |
| `stage_dashboard` | `StageDashboard`: one for all endpoints of a stage | yes |
| `voice_network` | `VoiceNetwork`, `VoiceVpcEndpoints`: a VPC | yes |
| `acknowledgements` | how a finding of a scanner is accepted | yes |
| `serving_image` | `ServingImage`: the container, its CUDA version and the right to pull it | yes |
| `model_weights` | `ModelWeights`: the Hugging Face hub, an S3 prefix, staged weights | yes |
| `model_weights_store` | `WeightsStore`: a bucket for weights and the build that fills it | yes |
| `model_weights_job` | what that build and its function run: standard library and boto3 | no |
| `instance_pools` | `InstancePools`: instance types in order of preference | no |
| `prices` | what the stacks cost: the one dated table | no |
| `accelerators` | the GPUs behind the instance types | no |
| `inference_ami` | CUDA versions and the inference AMI each of them needs | no |
| `errors` | what is raised for a bad property | no |

Import from the module, not from here: this file imports nothing, so that the settings can be read and
checked (`stacks.settings`) where aws-cdk-lib is not installed.
"""
