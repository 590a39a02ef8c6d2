"""Reusable CDK constructs that put a streaming voice model on a SageMaker real-time endpoint.

| module | what it holds | needs aws-cdk-lib |
|---|---|---|
| `voice_endpoint` | `VoiceEndpoint`: role, log group, models, endpoint config and endpoint | yes |
| `serving_image` | `ServingImage`: the container, its CUDA version and the right to pull it | yes |
| `model_weights` | `ModelWeights`: the Hugging Face hub or an S3 prefix | yes |
| `instance_pools` | `InstancePools`: instance types in order of preference | no |
| `accelerators` | the GPUs behind the instance types | no |
| `inference_ami` | CUDA versions and the inference AMI each of them needs | no |
| `errors` | what is raised for a bad property | no |

Import from the module, not from here: this file imports nothing, so that the settings can be read and
checked (`stacks.settings`) where aws-cdk-lib is not installed.
"""
